"""The command line as a user has it: data on stdout, notes on stderr, exit codes that mean something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import DATA

Run = Callable[..., subprocess.CompletedProcess[str]]
Lines = Callable[[], list[dict[str, Any]]]

OLDER = str(DATA / "usage-older-writer.jsonl")
NOW = ("--now", "2026-06-01")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("report", "--log", "gone.jsonl"), r"gone.jsonl: no such log; check the path given"),
        (("report", "--log", "."), r"cannot be read"),
        (("report", "--workspace", "nonesuch"), r"'nonesuch'.*no such folder; create it"),
        (("report", "--workspace", ""), r"no such folder"),
        (("report", "--workspace", "~nosuchuser/x"), r"no such folder"),
        (("report", "--workspace", "x" * 5_000), r"no such folder"),
        (("report", "--format", "xml"), r"'xml' is not one of"),
        (("report", "--json", "--format", "csv"), r"exclude each other"),
        (("report", "--json", "--format", "html"), r"exclude each other"),
        (("report", "--format", "html", "--limit", "1"), r"a page has every record; leave out --limit"),
        (("report", "--sort", "size"), r"'size' is not one of"),
        (("report", "--limit", "-1"), r"-1"),
        (("report", "--since", "soon"), r"--since.*'soon' is no time; use 7d"),
        (("report", "--since", "2026-13-01"), r"no time"),
        (("report", "--since", "1d", "--until", "2d"), r"not before --until"),
        (("report", "--timezone", "Mars/Olympus"), r"Mars/Olympus.*no time zone"),
        (("report", "--timezone", "../../etc/passwd"), r"no time zone"),
        (("report", "--now", "yesterday"), r"--now"),
        (("report", "--output", "no/such/folder/x"), r"--output 'no/such/folder/x': cannot be written"),
        (("report", "surplus"), r"surplus"),
        (("show", "decision"), r"'decision'.*KIND/SLUG"),
        (("show", "decision/nonesuch"), r"neither in the log nor in the inventory"),
        (("show",), r"KIND/SLUG"),
        (("add", "use", "--source", "MemoryQuery", "decision/a"), r"'MemoryQuery'.*search"),
        (("add", "use", "--source", "ResidentInjection", "decision/a"), r"exposure"),
        (("add", "exposure", "--source", "MemoryRead", "decision/a"), r"use"),
        (("add", "use", "Decision/a"), r"'Decision'.*lower-case"),
        (("add", "use", "decision/"), r"KIND/SLUG"),
        (("add", "use", "--actor", "boss", "decision/a"), r"'boss'"),
        (("add", "use", "--occurred-at", "now", "decision/a"), r"'now'"),
        (("add", "use", "--occurred-at", "9999-12-31T23:59:59-23:59", "decision/a"), r"occurred_at"),
        (("add", "use", "--file", "gone.md", "decision/a"), r"gone.md"),
        (("add", "use", "--file", "x", "decision/a", "decision/b"), r"one record"),
        (("add", "use", "--event-id", "", "decision/a"), r"id"),
        (("init", "--preset", "nonesuch"), r"nonesuch"),
        (("tokens", "fetch", "--encoding", "nonesuch"), r"nonesuch"),
        (("nonesuch",), r"nonesuch"),
        (("log", "tail", "-n", "-3"), r"-3"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(
    run: Run, workspace: Path, arguments: tuple[str, ...], names: str
) -> None:
    """One line on stderr names value, place and remedy; nothing on stdout; nothing half written."""
    import re

    done = run(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert re.search(names, done.stderr), done.stderr
    assert not (workspace / ".memtally" / "usage.jsonl").exists()
    assert [p.name for p in workspace.iterdir() if p.suffix == ".tmp"] == []


@pytest.mark.parametrize(
    "config",
    [
        "preset = ",
        'preset = ["yoi"]',
        "seal_bytes = " + "9" * 5_000,
        "x = " + "[" * 5_000,
        '[records]\nd = ["\\u0000"]',
    ],
)
def test_malformed_configuration(run: Run, workspace: Path, config: str) -> None:
    """Whatever stands in the file: one line that names it, exit 2."""
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally" / "config.toml").write_text(config)
    done = run("report")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "config.toml" in done.stderr


def test_three_answers_without_events(run: Run, workspace: Path) -> None:
    """No log yet and no events are empty reports that say so (exit 0); a named log that is missing is an error."""
    none = run("report")
    assert (none.returncode, none.stdout) == (
        0,
        "No usage log yet: nothing has been recorded in this workspace.\n",
    )
    (workspace / "empty.jsonl").touch()
    empty = run("report", "--log", "empty.jsonl")
    assert empty.returncode == 0
    assert "holds no events" in empty.stdout
    assert json.loads(run("report", "--json").stdout)["coverage"]["log_state"] == "no_log"
    assert (
        json.loads(run("report", "--json", "--log", "empty.jsonl").stdout)["coverage"]["log_state"] == "empty"
    )
    assert run("report", "--log", "gone.jsonl").returncode == 2


def test_the_report_of_an_older_log(run: Run) -> None:
    """The figures of the older writer's log in every format, and in a file."""
    records = json.loads(run("report", "--log", OLDER, "--json", *NOW).stdout)["records"]
    assert [(r["slug"], r["use_count"]) for r in records] == [("review", 2), ("ship-it", 3)]
    table = run("report", "--log", OLDER, *NOW).stdout
    assert "workflow/ship-it     3" in table
    assert "| `workflow/ship-it` | 3 |" in run("report", "--log", OLDER, "--format", "markdown", *NOW).stdout
    assert "workflow,ship-it,3" in run("report", "--log", OLDER, "--format", "csv", *NOW).stdout
    done = run("report", "--log", OLDER, "--output", "report.txt", *NOW)
    assert done.stdout == ""


def test_a_pipe_as_log(workspace: Path) -> None:
    """A log through a shell's process substitution gives the same figures, also where ids repeat."""
    command = f"{sys.executable} -m memtally report --json --now 2026-06-01 --log <(cat {OLDER} {OLDER})"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=workspace, timeout=60)
    got = json.loads(done.stdout)
    assert [(r["slug"], r["use_count"]) for r in got["records"]] == [("review", 2), ("ship-it", 3)]
    assert got["coverage"]["duplicate_events"] == 5


def test_output_is_the_same_from_run_to_run(run: Run) -> None:
    """With ``--now`` no byte differs, across hash seeds and formats."""
    for name in ("table", "json", "csv", "markdown"):
        outputs = {
            run("report", "--log", OLDER, "--format", name, *NOW, PYTHONHASHSEED=seed).stdout
            for seed in "012"
        }
        assert len(outputs) == 1


def test_period_and_filters(run: Run) -> None:
    """``--since`` and ``--until`` by date in the zone given, relative and exact; ``--source``, ``--kind``."""

    def count(*arguments: str) -> int:
        records = json.loads(run("report", "--log", OLDER, "--json", *NOW, *arguments).stdout)["records"]
        return sum(r["use_count"] for r in records)

    assert count("--since", "2026-04-02") == 2
    assert count("--until", "2026-04-02") == 3
    assert count("--since", "2026-04-01T09:30:01Z", "--until", "2026-04-02T10:00:00Z") == 1
    assert count("--since", "59d") == 1  # 2026-06-01 less 59 days is April 3rd, 00:00
    assert count("--since", "2026-04-01", "--timezone", "Asia/Tokyo") == 5
    assert count("--until", "2026-04-01", "--timezone", "Pacific/Kiritimati") == 0
    assert count("--source", "MemoryRead") == 0
    assert count("--kind", "decision") == 0


def test_output_to_files_links_and_pipes(run: Run, workspace: Path) -> None:
    """A file is replaced whole, a link stays a link, a device is written to."""
    target = workspace / "target.txt"
    target.write_text("old")
    (workspace / "link.txt").symlink_to(target)
    run("report", "--log", OLDER, "--output", "link.txt", *NOW)
    assert (workspace / "link.txt").is_symlink()
    assert "ship-it" in target.read_text()
    assert run("report", "--log", OLDER, "--output", "/dev/null").returncode == 0
    assert not Path("/dev/null").is_file()
    assert sorted(p.name for p in workspace.iterdir()) == ["link.txt", "target.txt"]


@pytest.mark.parametrize("sink", ["true", "head -1"])
def test_a_reader_that_leaves_is_no_finding(workspace: Path, sink: str) -> None:
    """``| head`` ends the command quietly with exit 0."""
    command = f"{sys.executable} -m memtally report --json --log {OLDER} | {sink} >/dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=workspace, timeout=60)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("command", ["report >&-", "report >/dev/full", "add use <&-"])
def test_closed_and_full_streams(workspace: Path, command: str) -> None:
    """A stream that is closed or full is exit 2, never a traceback."""
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m memtally {command}"],
        capture_output=True,
        text=True,
        cwd=workspace,
        timeout=60,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr


# -- add ----------------------------------------------------------------------------------------------


def test_add_by_options(run: Run, workspace: Path, lines: Lines) -> None:
    """Every option is in the line; the file is measured; a repeated id adds nothing to the report."""
    (workspace / "a.md").write_text("caf\u00e9 au lait", "utf-8")
    for _ in range(2):
        done = run(
            *("add", "use", "decision/adopt-otlp", "--file", "a.md", "--session", "s1", "--actor", "user"),
            *("--event-id", "call-1", "--occurred-at", "2026-05-11T15:10:47.5+02:00", "--host", "codex"),
        )
        assert done.returncode == 0, done.stderr
    first, second = lines()
    assert first == second
    assert first["occurred_at"] == "2026-05-11T13:10:47.500000Z"
    assert (first["source"], first["session_id"], first["actor"], first["host"]) == (
        "MemoryRead",
        "s1",
        "user",
        "codex",
    )
    assert first["records"][0]["file_bytes"] == 13
    assert first["tokenizer"] == "script-estimate"
    assert json.loads(run("report", "--json").stdout)["records"][0]["use_count"] == 1


def test_add_several_and_exposures(run: Run, lines: Lines) -> None:
    """Several records in one call are one event; an exposure is one; the environment gives the session."""
    run("add", "use", "decision/a", "decision/b", "decision/a", MEMTALLY_SESSION_ID="env")
    run("add", "exposure", "rule/c")
    use, exposure = lines()
    assert [r["slug"] for r in use["records"]] == ["a", "b"]
    assert use["session_id"] == "env"
    assert (exposure["event"], exposure["source"]) == ("resident_exposure", "ResidentInjection")


def test_add_json_lines(run: Run, lines: Lines) -> None:
    """The log's own lines, whole or as little as the record, go in; ``log tail --json`` goes round."""
    first = {"kind": "decision", "slug": "\u65e5\u672c"}
    second = {
        "id": "019e1729-5daf-7580-b765-095156c4009a",
        "occurred_at": "2026-05-11T13:10:47.471344Z",
        "session_id": "s1",
        "source": "Own",
        "tokenizer": "bytes/4",
        "records": [{"kind": "k", "slug": "s", "file_bytes": 4, "file_tokens_estimate": 1, "partial": True}],
    }
    done = run("add", "use", stdin=json.dumps(first) + "\n\n" + json.dumps(second) + "\n")
    assert done.returncode == 0, done.stderr
    assert lines()[0]["records"][0]["slug"] == "\u65e5\u672c"
    assert {name: lines()[1][name] for name in second} == second
    again = run("log", "tail", "--json").stdout
    before = lines()
    assert run("add", "use", stdin=again).returncode == 0
    assert lines() == before + before


@pytest.mark.parametrize(
    ("bad", "names"),
    [
        ("not json", "stdin line 2: not JSON"),
        ("[1]", "stdin line 2"),
        ('{"slug": "a"}', "stdin line 2.*kind"),
        ('{"kind": "decision", "slug": ""}', "stdin line 2.*slug"),
        ('{"kind": "decision", "slug": "a", "colour": 1}', "stdin line 2.*colour"),
        ('{"records": [{"kind": "k", "slug": "s", "file_bytes": -1}]}', "file_bytes=-1"),
        ('{"kind": "k", "slug": "s", "source": "VectorSearch"}', "VectorSearch"),
        ('{"kind": "k", "slug": "s", "occurred_at": 5}', "occurred_at"),
        ('{"kind": "k", "slug": "s", "event": "resident_exposure"}', "event"),
        ("[" * 100_000, "stdin line 2"),
    ],
)
def test_add_is_all_or_nothing(run: Run, lines: Lines, bad: str, names: str) -> None:
    """One bad line among good ones: it is named by number, and nothing is appended."""
    import re

    good = '{"kind": "decision", "slug": "a"}\n'
    done = run("add", "use", stdin=good + bad + "\n" + good)
    assert done.returncode == 2
    assert re.search(names, done.stderr), done.stderr
    assert "nothing was appended" in done.stderr
    assert lines() == []


def test_a_misspelt_actor_in_the_environment(run: Run, lines: Lines) -> None:
    """Maintenance that misspells itself is refused, not counted as use."""
    done = run("add", "use", "decision/a", MEMTALLY_ACTOR="maintenence")
    assert (done.returncode, lines()) == (2, [])
    assert "maintenence" in done.stderr


# -- the other commands -------------------------------------------------------------------------------


def test_init_recognizes_writes_and_keeps(run: Run, workspace: Path) -> None:
    """A preset by what the folder looks like; settings that stand there stay; nothing is overwritten."""
    (workspace / "CLAUDE.md").write_text("x")
    assert "preset claude-code" in run("init").stderr
    config = workspace / ".memtally" / "config.toml"
    first = config.read_text()
    refused = run("init")
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert config.read_text() == first
    config.write_text('workspace_id = "w"\nseal_bytes = 5000\n[aliases]\n"decision/a" = "decision/b"\n')
    assert run("init", "--preset", "generic").returncode == 0
    assert config.read_text().startswith(
        'preset = "generic"\nworkspace_id = "w"\nseal_bytes = 5000\n[aliases]'
    )
    assert run("init", "--preset", "yoi", "--force").returncode == 0
    assert 'workspace_id = "w"' in config.read_text()


def test_init_tells_what_another_layout_would_find(run: Run, workspace: Path) -> None:
    """Where the folder has records of two layouts, the one that was not chosen is named; a choice is a choice."""
    (workspace / "CLAUDE.md").write_text("x")
    assert "more would be records" not in run("init").stderr
    (workspace / "decisions").mkdir()
    for name in "ab":
        (workspace / "decisions" / f"{name}.md").write_text("x")
    said = run("init", "--force").stderr
    assert "preset claude-code" in said
    assert "2 more would be records by the preset generic: memtally init --preset generic --force" in said
    assert "more would be" not in run("init", "--preset", "claude-code", "--force").stderr


def test_init_says_what_the_log_names_and_no_file_is_found_for(run: Run, workspace: Path) -> None:
    """Kinds in the log that the chosen layout does not find are named, before anybody calls them gone."""
    (workspace / "knowledge").mkdir()
    (workspace / "knowledge" / "a.md").write_text("x")
    run("add", "use", "note/x", "knowledge/a")
    said = run("init", "--preset", "generic").stderr
    assert "1 knowledge" in said
    assert "kind note" in said
    shown = run("report").stdout
    assert "note/x" in shown
    assert "missing" not in shown


def test_a_used_record_is_never_hidden(run: Run, workspace: Path) -> None:
    """A record whose file has gone stays in the table, marked; one that only maintenance read is counted out."""
    (workspace / "decisions").mkdir()
    (workspace / "decisions" / "here.md").write_text("x")
    run("init", "--preset", "generic")
    run("add", "use", "decision/gone")
    run("add", "use", "decision/tidied", "--actor", "maintenance")
    shown = run("report").stdout
    assert "decision/gone (missing)" in shown
    assert "decision/tidied" not in shown
    assert "1 more not shown" in shown
    assert "2 events (1 by maintenance) in 0 sessions" in shown
    assert "decision/tidied" in run("report", "--all").stdout


def test_filters_and_sessions_show(run: Run) -> None:
    """A filter is said beside the figures, an empty result too; ``--sessions`` has its columns."""
    shown = run("report", "--log", OLDER, "--kind", "decision", *NOW).stdout
    assert "No record by kind decision." in shown
    assert "limited to kind decision" in shown
    shown = run("report", "--log", OLDER, "--sessions", *NOW).stdout
    assert shown.splitlines()[0].split()[-2:] == ["SESSIONS", "COALESCED"]
    assert shown.splitlines()[1].split()[-2:] == ["2", "2"]
    assert "Not compared with the files of a workspace" in shown


def test_init_does_not_hang_on_pipes(run: Run, workspace: Path) -> None:
    """A FIFO in a record's place is no record, and nobody waits for it."""
    (workspace / "decisions").mkdir()
    os.mkfifo(workspace / "decisions" / "x.md")
    assert run("init", "--preset", "generic").returncode == 0
    assert run("report").returncode == 0


def test_a_hostile_repository_runs_nothing(run: Run, workspace: Path) -> None:
    """A repository whose configuration names a program for missing objects does not get it run."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
            cwd=workspace, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    (workspace / "decisions").mkdir()
    (workspace / "decisions" / "a.md").write_text("x")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    tree = git("rev-parse", "HEAD^{tree}")
    (workspace / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    for name, value in {
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(workspace),
        "remote.origin.uploadpack": f"touch {workspace}/PWNED; false",
        "core.repositoryformatversion": "1",
        "log.showSignature": "true",
        "gpg.program": f"{workspace}/evil",
        "core.fsmonitor": f"touch {workspace}/PWNED",
    }.items():
        git("config", name, value)
    assert run("init", "--preset", "generic").returncode == 0
    assert run("report").returncode == 0
    assert run("status").returncode == 0
    assert not (workspace / "PWNED").exists()


def test_show_one_record(run: Run, workspace: Path) -> None:
    """Figures and days, also by an older name that an alias joins."""
    shown = run("show", "workflow/ship-it", "--log", OLDER, *NOW).stdout
    assert "2026-04-01  WorkflowInvoke       2" in shown
    assert "2026-04-02  WorkflowInvoke       1" in shown
    got = json.loads(run("show", "workflow/ship-it", "--log", OLDER, "--json", *NOW).stdout)
    assert got["days"] == {"2026-04-01": {"WorkflowInvoke": 2}, "2026-04-02": {"WorkflowInvoke": 1}}
    assert (got["record"]["session_count"], got["record"]["coalesced_use_count"]) == (2, 2)
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally" / "config.toml").write_text('[aliases]\n"workflow/old" = "workflow/ship-it"\n')
    joined = run("show", "workflow/old", "--log", OLDER, "--workspace", ".", *NOW)
    assert joined.stdout.startswith("workflow/ship-it\n")
    late = run("show", "workflow/ship-it", "--log", OLDER, "--since", "2026-04-02", "--json", *NOW)
    assert json.loads(late.stdout)["days"] == {"2026-04-02": {"WorkflowInvoke": 1}}


def test_review(run: Run) -> None:
    """The lists with evidence in words, and no verdict."""
    text = run("review", "--log", OLDER, *NOW).stdout
    assert "workflow/ship-it  read 3 times, last on 2026-04-02 (WorkflowInvoke 3)" in text
    assert "evidence, not a verdict" in text
    lists = json.loads(run("review", "--log", OLDER, "--json", *NOW).stdout)["review"]
    assert [r["slug"] for r in lists["tidy_protection"]] == ["ship-it", "review"]
    assert lists["knowledge_candidates"] == []


def test_log_tail(run: Run, workspace: Path) -> None:
    """The last events in order, across segments, as text or JSON; no log yet is said on stderr."""
    nothing = run("log", "tail")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no usage log yet" in nothing.stderr
    for number in range(5):
        run("add", "use", f"decision/r{number}", "--session", "s1")
    (workspace / ".memtally" / "usage.jsonl").rename(workspace / ".memtally" / "usage-1.jsonl")
    run("add", "use", "decision/caf\u00e9", "--actor", "maintenance")
    shown = run("log", "tail", "-n", "3").stdout.splitlines()
    assert [line.split("  ")[2] for line in shown] == ["decision/r3", "decision/r4", "decision/caf\u00e9"]
    assert "[maintenance]" in shown[2]
    got = [json.loads(line) for line in run("log", "tail", "-n", "2", "--json").stdout.splitlines()]
    assert [e["records"][0]["slug"] for e in got] == ["r4", "caf\u00e9"]


def test_log_tail_follows_across_seals(run: Run, workspace: Path) -> None:
    """With ``-f`` every event is shown once, however often the log is sealed between two looks."""
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally" / "config.toml").write_text("seal_bytes = 300\n")
    run("add", "use", "decision/before")
    with subprocess.Popen(
        [sys.executable, "-m", "memtally", "log", "tail", "-f", "-n", "0"],
        cwd=workspace,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            time.sleep(1.0)
            for number in range(6):
                run("add", "use", f"decision/r{number}")
            assert child.stdout is not None
            shown = [child.stdout.readline() for _ in range(6)]
        finally:
            child.kill()
    assert [line.split("  ")[2].strip() for line in shown] == [f"decision/r{n}" for n in range(6)]
    assert len(list((workspace / ".memtally").glob("usage-*.jsonl"))) > 2


def test_status(run: Run, workspace: Path) -> None:
    """A fresh folder, then one with a log in a git repository: state, sources, warning, machine-readable too."""
    fresh = run("status")
    assert fresh.returncode == 0
    assert "no log" in fresh.stdout
    subprocess.run(["git", "init", "-q", workspace], check=True)
    run("add", "use", "decision/a")
    facts = json.loads(run("status", "--json").stdout)
    assert (facts["log"]["state"], facts["log"]["events"]) == ("ok", 1)
    assert facts["sources"]["MemoryRead"].startswith("1 event, last")
    assert "git clean" in json.dumps(facts["warnings"])
    assert "exact" in facts["tokenizer"]["counts"]
    (workspace / ".memtally" / "health.jsonl").write_text('{"fault":"x","count":1e999,"at":1}\nnonsense\n')
    assert run("status").returncode == 0
    assert "MEMTALLY_TOKENIZER is wrong" in run("status", MEMTALLY_TOKENIZER="nonesuch").stdout
    (workspace / ".memtally" / "config.toml").write_text("preset = ")
    assert "MALFORMED" in run("status").stdout
    (workspace / ".memtally" / "config.toml").unlink()
    (workspace / ".memtally" / "usage.jsonl").unlink()
    (workspace / ".memtally" / "usage.jsonl").mkdir()
    assert "UNREADABLE" in run("status").stdout


def test_demo(run: Run, tmp_path: Path) -> None:
    """The whole path: a report with uses by each route, exposures and the unread, and nothing left behind."""
    done = run("demo", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    for expected in (
        r"decision/adopt-otlp +2 .*MemoryRead 2",
        r"knowledge/retry-policy +2 .*KnowledgeRef 2",
        r"workflow/release +1 .*WorkflowInvoke 1",
        r"instructions/CLAUDE.md +0 .* 4 ",
        r"decision/one-log-per-workspace \(maintenance only\)",
    ):
        import re

        assert re.search(expected, done.stdout), done.stdout
    assert not list(tmp_path.glob("memtally-demo-*"))


def test_help_of_every_command(run: Run) -> None:
    """Each command has a help text, and the top level lists each."""
    from memtally.cli._group import _COMMANDS, cli

    top = run("--help").stdout
    for name in _COMMANDS:
        assert name in top
        done = run(name, "--help")
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) > 3
    assert sorted(_COMMANDS) == cli.list_commands(None)  # type: ignore[arg-type]
    assert run("--version").stdout.startswith("memtally, version ")


def test_disabled_appends_nothing(run: Run, lines: Lines, workspace: Path) -> None:
    """``MEMTALLY_DISABLED`` holds for ``add`` too, and says so."""
    done = run("add", "use", "decision/a", MEMTALLY_DISABLED="1")
    assert done.returncode == 0
    assert "nothing was appended" in done.stderr
    assert list(workspace.iterdir()) == []


def test_add_refuses_what_would_be_dropped(run: Run, lines: Lines) -> None:
    """A record named twice over, and ids that are none, are refused; of equal records the first holds."""
    twice = {"kind": "k", "slug": "s", "records": [{"kind": "k", "slug": "t"}]}
    for bad in (twice, {"kind": "k", "slug": "s", "trace_id": "not hex"}):
        assert run("add", "use", stdin=json.dumps(bad)).returncode == 2
    assert lines() == []
    same = [{"kind": "k", "slug": "s", "file_bytes": n} for n in (1, 2)]
    run("add", "use", stdin=json.dumps({"records": same}))
    assert [r["file_bytes"] for r in lines()[0]["records"]] == [1]


def test_add_appends_several_lines_in_one_step(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    """All lines of one call go in by a single append, so that a full disk takes all or none."""
    import io

    from memtally.cli import main
    from memtally.ledger import writer

    appended: list[bytes] = []
    real = writer.LogWriter.append
    monkeypatch.setattr(
        writer.LogWriter, "append", lambda self, data: appended.append(data) or real(self, data)
    )  # type: ignore[func-returns-value]
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"kind":"k","slug":"a"}\n{"kind":"k","slug":"b"}\n'))
    )
    with pytest.raises(SystemExit) as ended:
        main(["add", "use"])
    assert ended.value.code == 0
    assert len(appended) == 1
    assert len(lines()) == 2


def test_log_tail_names_the_file_that_it_cannot_read(run: Run, workspace: Path) -> None:
    """A folder in the log's place is named, with exit 2."""
    (workspace / ".memtally" / "usage.jsonl").mkdir(parents=True)
    done = run("log", "tail")
    assert done.returncode == 2
    assert "usage.jsonl: cannot be read" in done.stderr


def test_no_color_is_taken_everywhere(run: Run) -> None:
    """The flag is accepted by each command that prints for people."""
    for command in (("report",), ("review",), ("status",), ("log", "tail")):
        assert run(*command, "--no-color").returncode == 0


def test_ties_come_in_the_same_order_from_run_to_run(run: Run, workspace: Path) -> None:
    """Twenty records of equal counts: across hash seeds no byte differs, in any format or command."""
    names = [f"decision/{letter}" for letter in "qwertyuiopasdfghjklz"]
    for name in names:
        run("add", "use", name, "--occurred-at", "2026-05-01T00:00:00Z", "--event-id", name)
    for command in (
        "report", "report --json", "report --format csv", "report --format markdown", "review", "review --json",
        "show decision/q --json", "report --format html", "review --format html", "show decision/q --format html",
    ):  # fmt: skip
        outputs = {run(*command.split(), *NOW, PYTHONHASHSEED=seed).stdout for seed in "0123"}
        assert len(outputs) == 1, command


def test_a_report_goes_on_from_what_the_last_one_counted(run: Run, workspace: Path) -> None:
    """A large log leaves a checkpoint; ``--no-checkpoint`` neither makes nor uses one; the figures agree."""
    log = workspace / ".memtally" / "usage.jsonl"
    log.parent.mkdir()
    line = '{{"id":"{:08x}-0000-7000-8000-000000000000","occurred_at":"2026-01-01T00:00:00.000000Z","session_id":null,"event":"use","source":"MemoryRead","records":[{{"kind":"decision","slug":"a","file_bytes":1,"file_tokens_estimate":1}}]}}\n'
    log.write_text("".join(line.format(number) for number in range(14_000)))
    cache = log.parent / "cache" / "report"
    assert json.loads(run("report", "--json", "--no-checkpoint").stdout)["records"][0]["use_count"] == 14_000
    assert not cache.exists()
    for extra in (0, 1):
        with log.open("a") as stream:
            stream.write(line.format(20_000) * extra)
        assert json.loads(run("report", "--json").stdout)["records"][0]["use_count"] == 14_000 + extra
        assert cache.stat().st_mode & 0o777 == 0o600
    figures = [
        run("report", "--json", *more, "--now", "2026-01-02").stdout for more in ((), ("--no-checkpoint",))
    ]
    assert figures[0] == figures[1]


def test_open_writes_a_page_and_opens_it(run: Run, workspace: Path) -> None:
    """The browser gets the page's address, stdout its path; where there is no browser, the path is enough."""
    seen = workspace / "seen"
    browser = workspace / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(0o755)
    run("add", "use", "decision/a")
    done = run("open", BROWSER=str(browser), TMPDIR=str(workspace))
    assert (done.returncode, done.stderr) == (0, "")
    page = Path(done.stdout.strip())
    assert page.parent == workspace
    assert page.stat().st_mode & 0o777 == 0o600
    assert seen.read_text().strip() == page.as_uri()
    assert page.read_text("utf-8").startswith("<!doctype html>")
    without = run("open", BROWSER="no-such-browser", PATH="/nonexistent", TMPDIR=str(workspace))
    assert (without.returncode, without.stderr) == (
        0,
        "no browser was found; open the file above in one\n",
    )


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("now", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_every_form_at_the_ends_of_the_calendar(run: Run, zone: str, now: str) -> None:
    """A report made for the first or last moment there is, in a zone that leads out of it, is no error."""
    run("add", "use", "decision/a", "--occurred-at", now)
    for command in ("report", "review", "show decision/a"):
        for form in ("table", "json", "csv", "markdown", "html"):
            done = run(*command.split(), "--format", form, "--now", now, "--timezone", zone)
            assert (done.returncode, done.stderr) == (0, ""), (command, form)
    for days in ("1", "999999999"):
        done = run("check", "--unused-days", days, "--now", now)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_page_needs_jinja2_and_says_so(workspace: Path) -> None:
    """Without the extra the error is one line that names it."""
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from memtally.cli import main; main(['report', '--format', 'html'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=workspace, timeout=60
    )
    assert (done.returncode, done.stderr) == (
        2,
        "memtally: the page needs Jinja2: pip install 'memtally[view]'\n",
    )
