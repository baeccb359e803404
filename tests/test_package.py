"""The package as it is installed: what it exports, what it imports, what is in the wheel, what its types say."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import memtally
from conftest import ROOT

SOURCES = sorted((ROOT / "src" / "memtally").rglob("*.py"))
ALL_SOURCES = [*SOURCES, *sorted((ROOT / "exporters").rglob("*.py"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def imported(file: Path) -> set[str]:
    """Every module that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_every_public_name_is_there_and_listed() -> None:
    """``__all__`` is complete, sorted and importable; the lazy table and the type checker's view agree."""
    assert memtally.__all__ == sorted(memtally.__all__)
    for name in memtally.__all__:
        assert getattr(memtally, name) is not None
    assert set(memtally._HOME_OF) | {"__version__"} == set(memtally.__all__)
    tree = ast.parse((ROOT / "src" / "memtally" / "__init__.py").read_text("utf-8"))
    typed = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memtally.")
        for alias in node.names
    }
    assert typed == set(memtally.__all__)
    assert set(memtally.__all__) <= set(dir(memtally))
    with pytest.raises(AttributeError, match="nonesuch"):
        memtally.nonesuch  # noqa: B018


def test_ledger_and_report_know_nothing_of_opentelemetry() -> None:
    """Neither imports it, nor anything of ours that does, directly or by way of others."""
    graph = {
        ".".join(f.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"): imported(f)
        for f in SOURCES
    }

    def reached(module: str, seen: set[str]) -> set[str]:
        for name in graph.get(module, ()):
            if name in graph and name not in seen and name != "memtally":
                seen.add(name)
                reached(name, seen)
        return seen

    for module in graph:
        if module.startswith(("memtally.ledger", "memtally.report", "memtally.events", "memtally.inventory")):
            for name in {module} | reached(module, set()):
                assert not any(i.startswith("opentelemetry") for i in graph[name]), (module, name)


def test_only_the_command_line_prints_or_exits() -> None:
    """No ``print`` and no ``sys.exit`` outside ``cli``."""
    for file in ALL_SOURCES:
        if "cli" in file.parts or file.name == "__main__.py":
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in ("print", "sys.exit", "exit", "quit"), file


def test_every_modules_list_of_names_is_complete() -> None:
    """What one module takes from another is in the other's ``__all__``; private names stay at home."""
    lists: dict[str, set[str]] = {}
    modules = {file.stem for file in ALL_SOURCES} | {file.parent.name for file in ALL_SOURCES}
    for file in ALL_SOURCES:
        root = ROOT / ("src" if (ROOT / "src") in file.parents else "exporters")
        module = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                lists[module] = set(ast.literal_eval(node.value))
    assert len(lists) > 30
    missing = [
        f"{node.module}.{alias.name} in {file.name}"
        for file in ALL_SOURCES
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module in lists
        for alias in node.names
        if alias.name not in lists[node.module] | modules
    ]
    assert missing == []


def modules_after(run_python: Callable[..., subprocess.CompletedProcess[str]], code: str) -> set[str]:
    """What a fresh process has imported after some code."""
    done = run_python(f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_appending_needs_little(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """What a hook does (make an event, append its line) loads no OpenTelemetry, no tokenizer, no decoder."""
    loaded = modules_after(
        run_python,
        "import memtally\n"
        "from memtally.events import UsageEvent, RecordSnapshot, encode_event, new_event_id\n"
        "from memtally.ledger.writer import LogWriter\n"
        "event = UsageEvent(new_event_id(), 0, 'use', 'MemoryRead', (RecordSnapshot('k', 's'),))\n"
        "assert LogWriter('.memtally/usage.jsonl').append(encode_event(event))",
    )
    heavy = (
        "opentelemetry",
        "msgspec",
        "tiktoken",
        "toktok",
        "click",
        "rich",
        "logging",
        "dataclasses",
        "datetime",
        "uuid",
    )
    assert {name for name in loaded if name.split(".")[0] in heavy} == set()


def test_reporting_needs_no_opentelemetry(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """A report is made without OpenTelemetry and without a tokenizer."""
    loaded = modules_after(run_python, "import memtally; memtally.build_report('.')")
    assert {n for n in loaded if n.split(".")[0] in ("opentelemetry", "tiktoken", "toktok")} == set()


def test_version_is_in_one_place() -> None:
    """The package's version, the scope's and the changelog's are one."""
    from memtally import semconv

    assert memtally.__version__ == importlib.metadata.version("memtally") == semconv.SCOPE_VERSION
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## \[?{re.escape(memtally.__version__)}\b", changelog, re.MULTILINE)


def test_the_core_is_light_and_pinned_nowhere() -> None:
    """Core dependencies are what the main job needs, with low floors and no ceilings."""
    names = {re.split(r"[<>=~! ]", d)[0] for d in PROJECT["dependencies"]}
    assert names == {"click", "msgspec", "opentelemetry-api", "opentelemetry-sdk", "tiktoken"}
    everything = [
        *PROJECT["dependencies"],
        *(d for extra in PROJECT["optional-dependencies"].values() for d in extra),
    ]
    for dependency in everything:
        assert not re.search(r"==|<|~=", dependency), dependency


@pytest.mark.timeout(300)
def test_the_built_wheel_works_away_from_the_sources(tmp_path: Path) -> None:
    """The wheel, built from the sdist, holds both roots and the type marker, and its command runs the demo."""
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(tmp_path / "dist"), str(ROOT)],
        check=True, capture_output=True, timeout=240,
    )  # fmt: skip
    [wheel] = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for needed in ("memtally/py.typed", "memtally/report/tally.py", "memtally_exporters/workspace_log.py"):
        assert needed in names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "memtally",
        "memtally_exporters",
    }
    environment = tmp_path / "env"
    # the dependencies of this environment, but not its checkout of memtally
    venv.create(environment, with_pip=False, symlinks=True)
    site = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    borrowed = tmp_path / "borrowed"
    borrowed.mkdir()
    for entry in Path(click_location()).iterdir():
        if "memtally" not in entry.name:
            (borrowed / entry.name).symlink_to(entry)
    done = subprocess.run(
        [environment / "bin" / "python", "-m", "memtally", "demo"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(borrowed), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "decision/adopt-otlp" in done.stdout


def click_location() -> str:
    """The folder that this environment's packages lie in."""
    import click

    return str(Path(click.__file__).resolve().parent.parent)


def test_the_entry_point_is_registered() -> None:
    """``OTEL_LOGS_EXPORTER=memtally`` finds the exporter by its group and name."""
    [entry] = importlib.metadata.entry_points(group="opentelemetry_logs_exporter", name="memtally")
    from memtally_exporters import WorkspaceLogExporter

    assert entry.load() is WorkspaceLogExporter


def test_every_module_function_and_test_says_what_it_is_for() -> None:
    """Each module, public function and class has a docstring, and so has each test."""
    missing = []
    for file in [*ALL_SOURCES, *sorted((ROOT / "tests").glob("*.py"))]:
        tree = ast.parse(file.read_text("utf-8"))
        if file.read_text("utf-8").strip() and not ast.get_docstring(tree):
            missing.append(file.name)
        for node in tree.body:
            if isinstance(
                node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            ) and not node.name.startswith("_"):
                overload = any("overload" in ast.unparse(d) for d in node.decorator_list)
                if not overload and not ast.get_docstring(node):
                    missing.append(f"{file.name}:{node.name}")
    assert missing == []
