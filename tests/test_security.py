"""What hostile neighbours can bring: contents that must not leak, files that hang, links that lead out, names that act."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memtally
from conftest import SHARED
from memtally import faults, health
from memtally._globs import glob_regex
from memtally.config import load_config
from memtally.errors import ConfigError
from memtally.events import normal_slug, well_formed
from memtally.inventory import scan
from memtally.ledger import decode
from memtally.ledger.decode import decode_line
from memtally.records import MemoryRecord
from memtally.report._text import one_line
from memtally.report.formats import Options, format_module
from memtally.workspace import find_workspace
from test_report import event, report_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")

Run = Callable[..., subprocess.CompletedProcess[str]]
SECRET = "hunter2, the content of a record"


# -- contents and credentials ------------------------------------------------------------------------


def everything_written(workspace: Path) -> str:
    """The text of every file below a folder."""
    return "".join(p.read_text("utf-8", "replace") for p in workspace.rglob("*") if p.is_file())


@pytest.mark.parametrize(
    "records",
    [
        "lambda c: memtally.MemoryRecord(c.result, 'slug')",
        "lambda c: c.result",
        "lambda c: [c.result]",
        "lambda c: {c.result: 1}",
        "lambda c: memtally.MemoryRecord('kind', [c.result])",
        "lambda c: 1 / 0 if c.result else 0",
        "lambda c: int(c.result)",
    ],
)
def test_a_confused_mapping_leaks_no_content(run_python: Run, workspace: Path, records: str) -> None:
    """Whatever records= makes of a result, the result stands in no warning, debug line or file."""
    done = run_python(
        f"""
import logging, memtally
logging.basicConfig(level=logging.DEBUG)
memtally.configure(workspace=".")
read = memtally.instrument_read("MemoryRead", records={records})(lambda name: {SECRET!r})
assert read("a") == {SECRET!r}
assert memtally.faults.counts()
"""
    )
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stderr + done.stdout + everything_written(workspace)
    assert "memtally:" in done.stderr


def test_add_does_not_repeat_what_it_refuses(run: Run) -> None:
    """A prompt in the records' place is not quoted."""
    done = run("add", "use", stdin=json.dumps({"records": SECRET}))
    assert (done.returncode, "hunter2" in done.stderr) == (2, False)
    assert "records" in done.stderr


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"])
@pytest.mark.parametrize("scheme", ["https://", ""])
def test_status_shows_no_credentials(run: Run, name: str, scheme: str) -> None:
    """Of an OTLP address scheme, host and port are shown; user, password, path and query are not."""
    environment = {
        name: f"{scheme}user:pa55@collector:4317/T0KEN/v1?token=T0KEN",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=T0KEN",
    }
    for form in ((), ("--json",)):
        said = run("status", *form, **environment).stdout
        assert f"{scheme}collector:4317" in said
        assert not re.search("user|pa55|T0KEN", said)


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_exporters_log_no_credentials(run_python: Run, protocol: str) -> None:
    """A dead collector and malformed headers are said at every level without a secret of the variables."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    user = "" if protocol == "grpc" else "user:pa55@"
    done = run_python(
        """
import logging, memtally
logging.basicConfig(level=logging.DEBUG)
memtally.configure(workspace=".", otlp=True)
memtally.record_use("MemoryRead", memtally.MemoryRecord("decision", "a", "x"))
""",
        OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{user}127.0.0.1:{port}"
        + ("" if protocol == "grpc" else "/?token=T0KEN"),
        OTEL_EXPORTER_OTLP_HEADERS="authorization=Basic S3CRET,malformed S3CRET",
        OTEL_EXPORTER_OTLP_INSECURE="true",
    )
    assert done.returncode == 0, done.stderr
    assert not re.search("pa55|T0KEN|S3CRET", done.stderr)
    assert "opentelemetry" in done.stderr or "urllib3" in done.stderr  # they did say something


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:pa55@localhost:4317"},
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "S3CRET"},
        {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://u:S3CRET[@h"},
    ],
)
def test_malformed_otlp_variables_are_one_error(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    """What the official exporter cannot take is an error of ours that names the variables, not their values."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(memtally.MemtallyError, match="OTEL_EXPORTER_OTLP_") as caught:
        memtally.configure(workspace=".", otlp=True)
    assert not re.search("pa55|S3CRET|\n", str(caught.value))


# -- the configuration -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        'sources = ["' + SECRET + '", ' + '"x", ' * 50_000 + "1]",
        "preset = 0x" + "f" * 5_000,
        "records.decision" + ".a" * 3_000 + " = 1",
        "[" * 5_000,
        "x = " + "[" * 5_000 + "]" * 5_000,
        f"{SECRET}",
        "[aliases]\n" + "\n".join(f'"k/{n}" = "k/{n + 1}"' for n in range(3_000)) + '\n"k/3000" = "k/0"',
        "\udcff",
        "#" * 300_000,
        '[records]\ndecision = ["~/**/*.md"]',
        '[records]\ndecision = ["~/.ssh/*"]',
    ],
    ids=range(11),
)
def test_a_hostile_configuration_is_one_short_line(tmp_path: Path, text: str) -> None:
    """However large, deep or foreign: a bounded line, at once, with no piece of a file that is no TOML."""
    path = tmp_path / ".memtally" / "config.toml"
    path.parent.mkdir()
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    said = str(caught.value).removeprefix(str(path))
    assert len(said) < 400
    assert "\n" not in said
    if text == SECRET:
        assert "hunter2" not in said


def test_a_long_chain_of_aliases_is_followed_once(tmp_path: Path) -> None:
    """Three thousand renames end at the last name, for each of them."""
    path = tmp_path / ".memtally" / "config.toml"
    path.parent.mkdir()
    path.write_text("[aliases]\n" + "\n".join(f'"k/{n}" = "k/{n + 1}"' for n in range(3_000)))
    assert set(load_config(path).aliases.values()) == {("k", "3000")}


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "link out"])
def test_what_is_no_configuration_neither_hangs_nor_leaks(
    run: Run, workspace: Path, tmp_path: Path, kind: str
) -> None:
    """A pipe, a device, a folder or a link to somebody's file in the configuration's place is an error."""
    outside = tmp_path / "outside.toml"
    outside.write_text('workspace_id = "hunter2"')
    path = workspace / ".memtally" / "config.toml"
    path.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else outside)
    for command in (("report",), ("init", "--preset", "generic"), ("add", "use", "decision/a"), ("status",)):
        done = run(*command)
        assert "Traceback" not in done.stderr
        assert "hunter2" not in done.stdout + done.stderr
        assert command == ("status",) or (done.returncode, str(path) in done.stderr) == (2, True)
    assert "hunter2" not in everything_written(workspace / ".memtally") or kind == "link out"


# -- which folder, which files -----------------------------------------------------------------------


def test_a_foreign_git_file_does_not_lead_the_log_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ``.git`` file counts as a linked worktree's only where the repository knows of that worktree."""
    victim, unpacked = tmp_path / "victim", tmp_path / "unpacked"
    (unpacked / "g").mkdir(parents=True)
    victim.mkdir()
    (unpacked / ".git").write_text("gitdir: g")
    (unpacked / "g" / "commondir").write_text(".")
    (unpacked / "g" / "config").write_text(f"[core]\nworktree = {victim}")
    monkeypatch.chdir(unpacked)
    assert find_workspace().root == unpacked
    for name in ("commondir", "gitdir", "config"):
        (unpacked / "g" / name).unlink(missing_ok=True)
        os.mkfifo(unpacked / "g" / name)
        assert find_workspace().root == unpacked


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_another_users_folder_above_is_not_taken_for_ours(open_folder: Path) -> None:
    """A ``.memtally`` that somebody else put above our folders gets neither log nor say."""
    top = open_folder / "shared"
    (top / ".memtally").mkdir(parents=True)
    (top / "ours").mkdir()
    os.chown(top / ".memtally", 65_534, 65_534)
    code = """
import os
from memtally.workspace import find_workspace
os.setuid(12_345)
print(find_workspace().root)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=top / "ours", capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == str(top / "ours")
    os.chown(top / "ours", 65_534, 65_534)  # where we stand in that user's folder, it is that user's
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=top / "ours", capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == str(top)


def test_status_reads_no_health_through_a_link(run: Run, workspace: Path, tmp_path: Path) -> None:
    """A ``.memtally`` that leads out of the workspace shows nothing of what is there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "config.toml").write_text('workspace_id = "hunter2"')
    entry = {"at": 1, "pid": 1, "host": "h", "fault": "f", "count": 1, "message": "hunter2"}
    (outside / "health.jsonl").write_text(json.dumps(entry) + "\n")
    (workspace / ".memtally").symlink_to(outside)
    assert "hunter2" not in run("status", "--workspace", str(workspace)).stdout


def test_links_that_multiply_end(tmp_path: Path) -> None:
    """Folders that link to each other in twelve layers are looked through within bounds, and say so."""
    root = tmp_path / "ws"
    (root / "leaf").mkdir(parents=True)
    for number in range(300):
        (root / "leaf" / f"{number}.md").write_text("x")
    for layer in range(13):
        folder = root / f"d{layer}"
        folder.mkdir()
        target = root / (f"d{layer + 1}" if layer < 12 else "leaf")
        (folder / "a").symlink_to(target)
        (folder / "b").symlink_to(target)
    (root / ".memtally").mkdir()
    (root / ".memtally" / "config.toml").write_text('[records]\nknowledge = ["**/*.md"]')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memtally.inventory.MAX_FILES", 5_000)
        found = scan(find_workspace(root), load_config(root / ".memtally" / "config.toml"))
    assert len(found.records) == 300
    assert not found.complete


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("**/" * 14 + "x.md", "a/" * 40 + "y.md"),
        ("**/a/" * 14 + "x.md", "a/" * 60 + "y.md"),
        ("*a" * 14 + "b", "a" * 200),
        ("*?" * 14 + "b", "a" * 200),
    ],
)
def test_patterns_of_many_wildcards_end(pattern: str, name: str) -> None:
    """A pattern costs time in proportion to the name; this ended after hours, if at all."""
    assert re.fullmatch(glob_regex(pattern), name) is None


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a/**/*.md", "a/x.md", True),
        ("a/**/*.md", "a/b/c/x.md", True),
        ("a/**/*.md", "b/x.md", False),
        ("**/b/**/c/*.md", "a/b/x/b/y/c/z.md", True),
        ("**/b/**/c/*.md", "a/b/x/c/y/z.md", False),
        ("**/CLAUDE.md", "CLAUDE.md", True),
        ("**/CLAUDE.md", "a/xCLAUDE.md", False),
        ("*.md", "a/b.md", False),
        ("*a*b*c", "xaybzc", True),
        ("*a*b*c", "xacbzc", True),
        ("*a*b*c", "xabz", False),
        ("*ab*ab", "abab", True),
        ("*ab*ab", "ab", False),
        ("a?c.md", "abc.md", True),
        ("a?c.md", "a/c.md", False),
        ("docs/**", "docs/x", True),
        ("a**/b", "ax/b", True),
        ("[x].md", "[x].md", True),
    ],
)
def test_what_patterns_match(pattern: str, name: str, matches: bool) -> None:
    """One star stays in a folder, two take any number of folders, brackets are themselves."""
    assert (re.fullmatch(glob_regex(pattern), name) is not None) is matches


# -- modes and outputs -------------------------------------------------------------------------------


def test_modes_do_not_depend_on_the_umask(run_python: Run, workspace: Path) -> None:
    """Under umask 0 nobody else can write what decides or proves anything."""
    done = run_python(
        "import os, memtally; os.umask(0); memtally.configure(workspace='.');"
        "memtally.record_use('MemoryRead', memtally.MemoryRecord('decision', 'a', 'x'));"
        "memtally.faults.note('x', 'x')"
    )
    assert done.returncode == 0, done.stderr
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (workspace / ".memtally").iterdir()}
    assert modes == {"usage.jsonl": 0o600, "config.toml": 0o644, "health.jsonl": 0o600, ".gitignore": 0o644}
    assert stat.S_IMODE((workspace / ".memtally").stat().st_mode) == 0o700


def test_output_keeps_modes_and_spares_logs(run: Run, workspace: Path) -> None:
    """A file that only its owner may read stays that; a usage log is never replaced by a report."""
    run("add", "use", "decision/a")
    log = workspace / ".memtally" / "usage.jsonl"
    before = log.read_bytes()
    private = workspace / "private.txt"
    private.touch(0o600)
    assert run("report", "--output", "private.txt").returncode == 0
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    (workspace / "link").symlink_to(log)
    copy = workspace / "copy.jsonl"
    copy.write_bytes(before)
    for arguments in ((str(log),), ("link",), ("copy.jsonl", "--log", "copy.jsonl")):
        done = run("report", "--output", *arguments)
        assert (done.returncode, "usage log" in done.stderr) == (2, True)
    assert (log.read_bytes(), copy.read_bytes()) == (before, before)


def test_pipes_in_the_place_of_files_hang_nothing(run: Run, workspace: Path) -> None:
    """A FIFO as the log or as the record to measure is refused, not waited for."""
    (workspace / ".memtally").mkdir()
    os.mkfifo(workspace / ".memtally" / "usage.jsonl")
    os.mkfifo(workspace / "record.md")
    assert run("log", "tail").returncode == 2
    assert run("add", "use", "decision/a", "--file", "record.md").returncode == 2
    for command in ("report", "status"):
        assert "Traceback" not in run(command).stderr


@pytest.mark.parametrize("count", ["9" * 4_300, "-1", "1.5", "true", '"1"', "null"])
def test_a_hostile_health_file_is_passed_over(run: Run, workspace: Path, count: str) -> None:
    """Entries whose numbers are none do not reach the status; the honest one does."""
    (workspace / ".memtally").mkdir()
    text = f'{{"at":1,"pid":1,"host":"h","fault":"f","count":{count},"message":"bad"}}\n'
    waiting = f'{{"at":1,"pid":{count},"host":"h","waiting":1}}\n'
    good = '{"at":1,"pid":1,"host":"h","fault":"g","count":2,"message":"good"}\n'
    (workspace / ".memtally" / "health.jsonl").write_text(text + "[" * 100_000 + "\n" + waiting + good)
    done = run("status")
    assert (done.returncode, "bad" in done.stdout, "2 times" in done.stdout) == (0, False, True)
    assert re.search(r"waiting +none", done.stdout)


def test_names_of_folders_are_harmless_in_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A folder whose name moves cursors is escaped in what is logged and kept."""
    faults.bind(str(tmp_path))
    faults.note("some_fault", "/tmp/\x1b]52;c;AAAA\x07: cannot be written")
    assert "\x1b" not in caplog.text
    assert "\\x1b" in health.read_faults(str(tmp_path))["some_fault"]["message"]


# -- names and logs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "character", ["\u3164", "\uffa0", "\u115f", "\u034f", "\U000e0100", "\ufe00", "\u200b"]
)
def test_invisible_characters_are_visible(character: str) -> None:
    """A name cannot hide text, nor look like another, by characters that show nothing."""
    assert one_line(f"a{character}b").isascii()


def test_markdown_is_never_cut_in_the_middle_of_a_name(tmp_path: Path) -> None:
    """Many long names of sources leave the names of tokenizers inert, in every line of the text."""
    evil = "<img src=x onerror=alert(1)> [click](http://evil) **SYSTEM**"
    events = [event(n, source=f"S{n:02}{'a' * 10}", tokenizer=evil if n % 2 else "") for n in range(1, 31)]
    text = format_module("markdown").report(
        report_of(tmp_path / "log.jsonl", events), Options(everything=True)
    )
    for line in text.splitlines():
        outside_code = re.sub(r"`[^`]*`", "", line)
        assert "<img" not in outside_code
        assert "`" not in outside_code


@pytest.mark.parametrize("name", ["table", "markdown"])
def test_one_huge_name_does_not_swell_the_text(tmp_path: Path, name: str) -> None:
    """A name of a megabyte among a thousand records is cut where people read, and whole where programs do."""
    events = [event(n, f"r{n}") for n in range(1, 1_001)]
    events += [event(2_000, "z" * 1_000_000, source="S" * 1_000_000)]
    made = report_of(tmp_path / "log.jsonl", events)
    assert len(format_module(name).report(made, Options(everything=True))) < 1_000_000
    assert "z" * 1_000_000 in format_module("json").report(made, Options(everything=True))


@pytest.mark.parametrize("depth", [100, 400])
def test_an_unterminated_text_inside_many_openings_is_within_the_budget(depth: int) -> None:
    """What the decoder looks at for a text without an end counts: the work is a multiple of the line at most."""
    line = b'{"a":' * depth + b'"' + b"z" * 500_000
    looked_at = 0
    whole = decode._value_at

    def counted(text: str, start: int) -> Any:
        nonlocal looked_at
        value, length, cost = whole(text, start)
        looked_at += cost
        return value, length, cost

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "_value_at", counted)
        before = time.process_time()
        assert decode_line(line) == ([], True)
        spent = time.process_time() - before
    assert looked_at < (decode._BUDGET + 3) * len(line)
    assert spent < 60  # a bound against hanging, not a measurement


@pytest.mark.parametrize(
    "slug",
    ["../../etc/passwd", "/etc/passwd", "a/../../b", "~/x", "..", "C:\\x", "\\\\host\\share", "nul\x00l"],
)
def test_slugs_are_names_and_never_paths(
    workspace: Path, run: Run, lines: Callable[[], list[dict[str, Any]]], slug: str
) -> None:
    """A slug that looks like a path is recorded as it is and opened nowhere."""
    memtally.configure(workspace=".")
    memtally.record_use("MemoryRead", MemoryRecord("decision", slug, "content"))
    assert lines()[0]["records"][0]["slug"] == slug
    assert sorted(p.name for p in workspace.parent.iterdir()) == ["home", "ws"]
    shown = json.loads(
        run("show", f"decision/{slug}" if "\x00" not in slug else "decision/a", "--json").stdout or "{}"
    )
    assert "\x00" in slug or shown["record"]["use_count"] == 1


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not beside this checkout")
def test_naughty_strings_through_recording_and_every_command(
    run: Run, workspace: Path, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    """Each string as slug and session is recorded whole and counted; nothing that is printed can act."""
    strings = [
        s for s in json.loads((SHARED / "conformance" / "blns" / "blns.json").read_text("utf-8")) if s.strip()
    ]
    assert len(strings) > 400
    memtally.configure(workspace=".")
    for text in strings:
        with memtally.session(text):
            memtally.record_use("MemoryRead", MemoryRecord("decision", text, "content"))
    expected = Counter(map(normal_slug, strings))
    assert Counter(e["records"][0]["slug"] for e in lines()) == expected
    assert {e["session_id"] for e in lines()} == set(map(well_formed, strings))
    with (workspace / ".memtally" / "usage.jsonl").open("a", encoding="utf-8") as stream:
        for number, text in enumerate(strings):  # another writer's, whose ids and sources are as bad
            value = event(number, id=f"{number} {text}", source=text, tokenizer=text, host=text, actor=text)
            stream.write(json.dumps(value) + "\n" + json.dumps(value) + "\n")
    for command in (
        "report", "report --all --sessions", "report --format markdown --max-chars 200000 --all",
        "report --format csv", "review", "review --format markdown", "show decision/undefined", "status",
        "log tail -n 9999", "log tail -n 9999 --json", "log verify", "log verify --json",
    ):  # fmt: skip
        done = run(*command.split())
        assert (done.returncode, done.stderr) == (int("verify" in command), ""), command
        assert all(row.isprintable() for row in done.stdout.split("\n")), command
    found = json.loads(run("report", "--json").stdout)
    assert {r["slug"]: r["use_count"] for r in found["records"] if r["slug"] != "a"} == expected
    assert found["coverage"]["duplicate_events"] == len(strings)


@pytest.mark.parametrize("link", ["file", "parent", "parent and back", "workspace by a link"])
def test_a_file_that_a_link_leads_out_of_the_workspace_is_not_measured(
    workspace: Path, tmp_path: Path, run: Run, lines: Callable[[], list[dict[str, Any]]], link: str
) -> None:
    """The read counts, for the host did read; what it was led to is not looked at, and not named."""
    outside = tmp_path / "secret"
    outside.mkdir()
    (outside / "note.md").write_text("12345")
    (workspace / "decisions").mkdir()
    (workspace / "decisions" / "inside.md").write_text("1234567")
    if link == "file":
        (workspace / "decisions" / "note.md").symlink_to(outside / "note.md")
        path = Path("decisions/note.md")
    elif link == "workspace by a link":
        (workspace / "decisions" / "note.md").symlink_to(outside / "note.md")
        (tmp_path / "link").symlink_to(workspace)
        path = tmp_path / "link" / "decisions" / "note.md"
    else:
        (workspace / "decisions" / "sub").symlink_to(outside if link == "parent" else outside / "sub")
        (outside / "sub").mkdir()
        path = Path("decisions/sub/note.md" if link == "parent" else "decisions/sub/../note.md")
    memtally.configure(workspace=".")
    memtally.record_use("MemoryRead", MemoryRecord("decision", "note", path))
    done = run("add", "use", "decision/note", "--file", str(path))
    assert (done.returncode, "leads out" in done.stderr) == (2, True)
    memtally.record_use("MemoryRead", MemoryRecord("decision", "inside", Path("decisions/inside.md")))
    memtally.record_use("SkillInvoke", MemoryRecord("skill", "elsewhere", outside / "note.md"))
    # one that does not pretend to lie in the workspace is measured: user-level records live elsewhere
    assert [e["records"][0]["file_bytes"] for e in lines()] == [None, 7, 5]
    assert "secret" not in everything_written(workspace / ".memtally")


@pytest.mark.parametrize(
    "command",
    [
        "report --all --sessions", "report --all --format markdown", "review", "log tail", "log verify", "status",
        "show decision/{0}", "report --log {0}", "report --kind {0}", "report --since {0}", "report --workspace {0}",
        "report --sort {0}", "report --{0}", "{0}", "add use {0}", "add use decision/{0} --file {0}",
        "add use decision/new{0} --session {0}", "init --preset {0}", "log verify --ignore {0}", "tokens fetch {0}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("color", [False, True])
def test_a_terminal_gets_no_control_character(
    workspace: Path, command: str, color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a real terminal, where nothing is stripped: names are visible text, and colours are memtally's own."""
    import pty

    attacks = ["\x1b]52;c;AAAA\x07", "\x1b]8;;http://evil\x1b\\x", "a\rb", "\x9b31m", "\u202eevil", "\x1b[2J"]
    memtally.configure(workspace=".")
    for attack in attacks:
        with memtally.session(attack):
            memtally.record_use("MemoryRead", MemoryRecord("decision", attack, "x"))
    arguments = [part.format("\x1b[31m\x1b]52;c;A\x07\r\x9b\u202e") for part in command.split()]
    monkeypatch.setenv("NO_COLOR", "" if color else "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "memtally", *arguments])
    shown = bytearray()
    try:
        while data := os.read(terminal, 65_536):
            shown += data
    except OSError:
        pass  # how Linux says that the other side is closed
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    text = shown.decode().replace("\r\n", "\n")
    assert code in (0, 2)
    assert text.strip()
    if color:  # bold, dim, green, yellow, blue, and their end; the names would have red
        text = re.sub(r"\x1b\[(?:0|1|2|32|33|34)m", "", text)
    assert [c for c in text if not c.isprintable() and c != "\n"] == []
