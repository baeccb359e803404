"""What the documents say is so: the help, the demo's report, the commands, the examples, the links."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator

import click
import pytest

from conftest import ROOT

README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = ("README.md", "HOSTS.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))

Run = Callable[..., subprocess.CompletedProcess[str]]


def page(name: str) -> str:
    """The text of a page of ``docs/``."""
    return (ROOT / "docs" / name).read_text("utf-8")


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each ``memtally`` or ``make`` command in a text: inline code and lines of shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for code in [*inline, *"".join(blocks).splitlines()]:
        for part in code.split("|"):
            words = shlex.split(part, comments=True) if part.count("'") % 2 == 0 else part.split()
            if len(words) > 1 and words[0] in ("memtally", "make"):
                yield words


def complaint(words: list[str]) -> str:
    """What is wrong with a ``memtally`` command: a command or an option that the program does not have."""
    from memtally.cli._group import cli

    command: click.Command = cli
    options = {"-h", "--help", "--version"}
    for word in words[1:]:
        if word.startswith("-") and word not in options:
            return f"{command.name} has no option {word}"
        if not word.startswith("-") and isinstance(command, click.Group):
            inner = command.get_command(click.Context(command), word)
            if inner is None:
                return f"{command.name} has no command {word}"
            command = inner
            options = {name for given in command.params for name in given.opts} | {"-h", "--help"}
    return ""


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


@pytest.mark.parametrize("name", PAGES)
def test_commands_and_targets_of_a_page_exist(name: str) -> None:
    """Every command, option and make target that a page names is one of the program or the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for words in commands_in(page(name)):
        if words[0] == "make":
            assert words[1] in targets, words
        else:
            assert not complaint(words), (words, complaint(words))


def test_the_look_for_commands_finds_what_is_not_there() -> None:
    """A wrong command, subcommand or option is seen, in a line of shell as in inline code."""
    text = "`memtally reprot` and\n```sh\necho x | memtally log tial\nmemtally report --jsno # so\n```\n"
    assert [complaint(words) for words in commands_in(text)] == [
        "cli has no command reprot",
        "log has no command tial",
        "report has no option --jsno",
    ]


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    """Every relative link of a page is another page; files of the project that it names are there."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page(name)):
        assert target in PAGES, target
    for target in re.findall(r"`((?:examples|bench)/[^`]+)`", page(name)):
        assert (ROOT / target).exists(), target


def test_every_page_is_in_the_navigation() -> None:
    """The pages of the site are the files of its folder."""
    listed = re.findall(r"^  - .+: ([a-z-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == PAGES


def test_the_site_and_the_pages_ask_nobody() -> None:
    """Neither the pages nor the site's configuration name a place outside to load something from."""
    for text in [*map(page, PAGES), (ROOT / "mkdocs.yml").read_text("utf-8")]:
        assert "http:" not in text
        assert "https:" not in text


def test_the_demo_of_the_quick_start_is_the_readmes() -> None:
    """The two documents show the same report, which is compared with the program's."""
    [shown] = re.findall(r"<!-- memtally demo -->\n```text\n(.*?)```", page("quick-start.md"), re.DOTALL)
    readme = re.search(r"```text\n(RECORD.*?)```", README, re.DOTALL)
    assert readme is not None
    assert shown == readme[1]


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_runs(
    name: str, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """A block of Python is the example that it names, or a program that runs as it stands."""
    for source, code in re.findall(r"(?:<!-- (\S+) -->\n)?```python\n(.*?)```", page(name), re.DOTALL):
        if source:
            assert code == (ROOT / source).read_text("utf-8"), source
        else:
            done = run_python(code)
            assert done.returncode == 0, done.stderr


def test_every_consumer_example_is_shown() -> None:
    """The page on programs that read the figures has all of them."""
    shown = set(re.findall(r"<!-- examples/consumers/(\S+) -->", page("consumers.md")))
    assert shown == {path.name for path in (ROOT / "examples" / "consumers").glob("*.py")}


def test_the_line_of_the_log_format_is_a_line_of_the_log() -> None:
    """The line that the page on the format shows is written by the encoder as it stands there."""
    from memtally.events import encode_event
    from memtally.ledger.decode import decode_line

    [shown] = re.findall(r"```json\n(.*\n)```", page("log-format.md"))
    [event], damaged = decode_line(shown.rstrip("\n").encode())
    assert not damaged
    assert encode_event(event).decode() == shown


def test_the_log_format_names_every_field() -> None:
    """The two tables have the fields that the encoder can write, and no others."""
    from memtally.events import RecordSnapshot, UsageEvent

    tables = page("log-format.md").split("## One line")[1].split("## Older")[0]
    named = {
        field
        for row in re.findall(r"^\| (`.+?) \|", tables, re.MULTILINE)
        for field in re.findall(r"`(\w+)`", row)
    }
    assert named == {*UsageEvent.__slots__, *RecordSnapshot._FIELDS}


def test_the_reference_has_every_public_name() -> None:
    """Each name of ``memtally.__all__`` is in the page of the Python reference."""
    import memtally

    listed = set(re.findall(r"^::: memtally\.(\w+)$", page("api.md"), re.MULTILINE))
    assert listed == set(memtally.__all__) - {"__version__"}


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
