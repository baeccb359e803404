"""What the documents say is so: the help, the demo's report, the commands, the examples, the links."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest

from conftest import ROOT

README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = ("README.md", "HOSTS.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
Run = Callable[..., subprocess.CompletedProcess[str]]


def test_readme_shows_the_real_help(run: Run) -> None:
    """The help text in README is the program's."""
    [shown] = re.findall(r"<!-- memtally --help -->\n```text\n(.*?)```", README, re.DOTALL)
    assert shown == run("--help").stdout.replace("python -m memtally", "memtally")


def test_readme_shows_the_real_demo(run: Run) -> None:
    """The report at the top of README is the demo's, but for the time."""
    shown = re.search(r"```text\n(RECORD.*?)```", README, re.DOTALL)
    assert shown is not None

    def timeless(text: str) -> str:
        return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", text)

    assert timeless(shown[1]) == timeless(run("demo").stdout)


def test_every_command_and_target_named_exists(run: Run) -> None:
    """Commands and make targets in the documents are those of the program and the Makefile."""
    from memtally.cli._group import _COMMANDS

    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for name in DOCUMENTS:
        text = (ROOT / name).read_text("utf-8")
        for code in re.findall(r"`([^`\n]+)`|^(memtally .+|make .+)$", text, re.MULTILINE):
            words = (code[0] or code[1]).split()
            if len(words) > 1 and words[0] == "memtally" and words[1].isalpha():
                assert words[1] in _COMMANDS, (name, words)
            if len(words) > 1 and words[0] == "make":
                assert words[1] in targets, (name, words)
    for target in re.findall(r"^make ([a-z-]+)$", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE):
        assert target in targets
        assert f"make {target}" in README


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    """Every relative link in the documents is a file of the project."""
    text = (ROOT / name).read_text("utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / target).exists(), target


def test_the_code_in_readme_runs(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The Python blocks of README run as they stand."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 3
    known = "from pathlib import Path\ntext = one_line = 'x'\n"
    code = known + "\n".join(blocks).replace("-> str: ...", "-> str:\n    return 'content'")
    code = code.replace(
        "-> list[MemoryRecord]: ...", "-> list[MemoryRecord]:\n    return [MemoryRecord('rule', 'a', 'x')]"
    )
    done = run_python(
        code.replace('    memory_read("decision"', '    resident_records()\n    memory_read("decision"')
    )
    assert done.returncode == 0, done.stderr


def test_modules_named_in_the_architecture_exist() -> None:
    """The table of rooms names modules that are there, and every top-level module is in it."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rooms = text[text.index("## The rooms") : text.index("## Decisions")]
    named = set(re.findall(r"`([a-z_]+\.py)`", rooms))
    present = {path.name for path in (ROOT / "src" / "memtally").glob("*.py")}
    assert named == present - {"__init__.py", "__main__.py", "_version.py", "errors.py", "semconv.py"}


def test_no_module_has_grown_too_long() -> None:
    """A module of over 400 lines is to be split."""
    for root in ("src", "exporters"):
        for path in (ROOT / root).rglob("*.py"):
            assert len(path.read_text("utf-8").splitlines()) <= 400, path
