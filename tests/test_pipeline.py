"""``configure()``: the log gets every event, whole and at once, whatever the host has set up."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memtally
from memtally import MemoryRecord, faults, tokens
from memtally.errors import ConfigError, InvalidValueError, MemtallyError, WorkspaceError
from otlp_receiver import attributes, grpc_receiver, http_receiver

Lines = Callable[[], list[dict[str, Any]]]
RunPython = Callable[..., subprocess.CompletedProcess[str]]

LONG_SLUG = "a-slug-that-is-longer-than-any-limit-a-host-would-set"

READ = f"""
import memtally
from memtally import MemoryRecord

@memtally.instrument_read("MemoryRead")
def read(kind: str, slug: str) -> str:
    return "content of the record"

def go() -> None:
    with memtally.session("session-with-a-long-name"):
        assert read("decision", "{LONG_SLUG}") == "content of the record"
"""


@memtally.instrument_read("MemoryRead")
def read(kind: str, slug: str) -> str:
    """A read path."""
    return "content of the record"


def test_a_read_is_in_the_log_before_it_returns(workspace: Path, lines: Lines) -> None:
    """Each of the four paths leaves exactly one line, with its sizes and without its content."""
    memtally.configure(workspace=".")

    @memtally.instrument_read("KnowledgeRef")
    def expand(slug: str) -> str:
        return "SECRET knowledge"

    @memtally.instrument_read("WorkflowInvoke")
    def invoke(slug: str) -> str:
        return "SECRET steps"

    @memtally.instrument_injection()
    def resident() -> list[MemoryRecord]:
        return [
            MemoryRecord("rule", "a", "SECRET rules"),
            MemoryRecord("rule", "b", "SECRET other", injected="line"),
        ]

    with memtally.session("s1"):
        read("decision", "adopt-otlp")
        assert len(lines()) == 1
        expand("policy")
        assert len(lines()) == 2
        invoke("release")
        assert len(lines()) == 3
        resident()
    got = lines()
    assert [(e["event"], e["source"], [r["slug"] for r in e["records"]]) for e in got] == [
        ("use", "MemoryRead", ["adopt-otlp"]),
        ("use", "KnowledgeRef", ["policy"]),
        ("use", "WorkflowInvoke", ["release"]),
        ("resident_exposure", "ResidentInjection", ["a", "b"]),
    ]
    assert {e["session_id"] for e in got} == {"s1"}
    assert got[0]["records"][0]["file_bytes"] == len("content of the record")
    assert got[3]["records"][1]["injected_bytes"] == 4
    assert b"SECRET" not in (workspace / ".memtally" / "usage.jsonl").read_bytes()


def test_the_workspace_is_made_with_an_id_that_stays(workspace: Path) -> None:
    """The folder is private, the configuration carries an id, and a second call keeps it."""
    memtally.configure(workspace=".")
    config = (workspace / ".memtally" / "config.toml").read_text()
    assert "workspace_id" in config
    assert stat.S_IMODE((workspace / ".memtally").stat().st_mode) == 0o700
    memtally.configure(workspace=".")
    assert (workspace / ".memtally" / "config.toml").read_text() == config


def test_record_use_and_exposure(workspace: Path, lines: Lines) -> None:
    """The functions write what they are told: id, time, session, actor, tokens."""
    memtally.configure(workspace=".", session_id="process", actor="user")
    assert tokens.estimator().wait(30)
    record = MemoryRecord("decision", "adopt-otlp", "text", partial=True)
    for _ in range(2):
        memtally.record_use(
            "MemoryRead",
            [record, MemoryRecord("decision", "adopt-otlp")],
            event_id="toolu_1",
            occurred_at=datetime(2026, 5, 11, 13, 10, 47, 471344, tzinfo=UTC),
            session_id="s9",
            actor="subagent",
            input_tokens=12,
        )
    memtally.record_exposure(record, source="AutoRecall")
    memtally.record_use("MemoryRead", [])
    first, second, exposure = lines()
    assert first == second
    assert (first["occurred_at"], first["session_id"], first["actor"]) == (
        "2026-05-11T13:10:47.471344Z",
        "s9",
        "subagent",
    )
    assert first["input_tokens"] == 12
    assert first["records"] == [
        {
            "kind": "decision",
            "slug": "adopt-otlp",
            "file_bytes": 4,
            "file_tokens_estimate": 1,
            "partial": True,
        }
    ]
    assert (exposure["event"], exposure["source"]) == ("resident_exposure", "AutoRecall")
    assert (exposure["session_id"], exposure["actor"]) == ("process", "user")
    assert memtally.build_report(workspace)["decision", "adopt-otlp"].use_count == 1


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: memtally.record_use("MemoryQuery", []), "MemoryQuery.*search"),
        (lambda: memtally.record_use("MemoryRead", "decision/a"), "MemoryRecord"),
        (lambda: memtally.record_use("MemoryRead", [("decision", "a")]), "MemoryRecord"),
        (lambda: memtally.record_use("MemoryRead", 3), "MemoryRecord"),
        (lambda: memtally.record_use("MemoryRead", [], input_tokens=-1), "input_tokens=-1"),
        (lambda: memtally.record_use("MemoryRead", [], actor="boss"), "actor='boss'"),
        (lambda: memtally.record_use("MemoryRead", [], session_id=""), "session_id"),
        (lambda: memtally.record_use("MemoryRead", [], event_id=""), "event_id"),
        (lambda: memtally.record_use("MemoryRead", [], occurred_at="now"), "occurred_at='now'"),
        (lambda: memtally.record_exposure([], source="MemoryRead"), "record_use"),
        (lambda: MemoryRecord("decision", ""), "slug=''"),
        (lambda: MemoryRecord("Decision", "a"), "kind='Decision'"),
        (lambda: MemoryRecord("decision", "a", 3), "content"),
        (lambda: MemoryRecord("decision", "a", injected=3), "injected"),
        (lambda: memtally.configure(".", durability="maybe"), "durability='maybe'"),
        (lambda: memtally.configure(".", tokenizer="gpt-9"), "tokenizer='gpt-9'"),
        (lambda: memtally.configure(".", actor="boss"), "actor='boss'"),
    ],
)
def test_wrong_use_raises_one_line_and_writes_nothing(
    workspace: Path, lines: Lines, call: Callable[[], Any], names: str
) -> None:
    """An argument that can never be right names itself and what to do; nothing reaches the log."""
    memtally.configure(workspace=".")
    with pytest.raises(InvalidValueError, match=names) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert lines() == []


def test_configure_says_what_is_wrong_with_the_place(workspace: Path, tmp_path: Path) -> None:
    """An unknown workspace and a malformed configuration: one line each."""
    with pytest.raises(WorkspaceError, match=r"nonesuch.*no such folder"):
        memtally.configure(tmp_path / "nonesuch")
    (workspace / ".memtally").mkdir()
    (workspace / ".memtally" / "config.toml").write_text('preset = "nonesuch"')
    with pytest.raises(ConfigError, match=r"config\.toml: preset: 'nonesuch'.*generic"):
        memtally.configure(workspace)


def test_a_file_in_the_folders_place(workspace: Path, caplog: pytest.LogCaptureFixture, lines: Lines) -> None:
    """What stands in the way when the host starts is one warning; gone, the log has every event."""
    (workspace / ".memtally").write_text("in the way")
    memtally.configure(workspace)
    read("decision", "a")
    [message] = [record.message for record in caplog.records if "cannot be" in record.message]
    why = "cannot be prepared (Not a directory); events wait in memory, see memtally status"
    assert message == f"memtally: {workspace / '.memtally'}: {why}"
    (workspace / ".memtally").unlink()
    read("decision", "b")
    assert [e["records"][0]["slug"] for e in lines()] == ["a", "b"]


def test_without_a_pipeline_one_warning_names_configure(
    workspace: Path, caplog: pytest.LogCaptureFixture, run: Callable[..., Any]
) -> None:
    """Reads go on, the first says what is missing, and ``status`` shows it."""
    (workspace / ".memtally").mkdir()
    with caplog.at_level(logging.WARNING, "memtally"):
        for _ in range(3):
            assert read("decision", "a") == "content of the record"
    assert [r.message for r in caplog.records] == [
        "memtally: a read happened but nothing records it; call memtally.configure() once at start-up"
    ]
    faults.flush()
    assert "no pipeline" in run("status").stdout


def test_a_second_configure_replaces_the_first(workspace: Path, tmp_path: Path, lines: Lines) -> None:
    """The same workspace twice: each event once. Another workspace: only there from then on."""
    memtally.configure(workspace=".")
    memtally.configure(workspace=".")
    read("decision", "a")
    assert len(lines()) == 1
    other = tmp_path / "other"
    other.mkdir()
    memtally.configure(workspace=other)
    read("decision", "b")
    assert len(lines()) == 1
    assert len((other / ".memtally" / "usage.jsonl").read_text().splitlines()) == 1
    memtally.shutdown()
    read("decision", "c")
    assert len(lines()) == 1


def test_disabled_records_nothing_and_makes_nothing(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``MEMTALLY_DISABLED`` leaves no trace, not even a folder."""
    monkeypatch.setenv("MEMTALLY_DISABLED", "1")
    memtally.configure(workspace=".")
    assert read("decision", "a") == "content of the record"
    assert list(workspace.iterdir()) == []


SAMPLED_OUT = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
trace.set_tracer_provider(TracerProvider(sampler=ALWAYS_OFF))
trace.get_tracer('t').start_as_current_span('s').__enter__()
"""
PROVIDER_BEFORE = """
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
set_logger_provider(LoggerProvider())
"""
HOSTS = {
    "limits": ("", {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "16", "OTEL_ATTRIBUTE_COUNT_LIMIT": "1"}),
    "log record limits": ("", {"OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT": "4"}),
    "malformed limits": ("", {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "many"}),
    "sampled out": (SAMPLED_OUT, {}),
    "sampler by name": ("", {"OTEL_TRACES_SAMPLER": "always_off"}),
    "provider before": (PROVIDER_BEFORE, {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "16"}),
    "disabled SDK": ("", {"OTEL_SDK_DISABLED": "true"}),
}


@pytest.mark.parametrize("host", HOSTS)
def test_the_hosts_settings_cannot_hurt_the_log(run_python: RunPython, lines: Lines, host: str) -> None:
    """Limits, samplers, providers, a disabled SDK: the line is there, whole, once."""
    before, environment = HOSTS[host]
    done = run_python(
        f"{before}\n{READ}\nmemtally.configure('.')\ngo()\nimport os; os._exit(0)", **environment
    )
    assert done.returncode == 0, done.stderr
    [event] = lines()
    assert event["records"][0]["slug"] == LONG_SLUG
    assert event["session_id"] == "session-with-a-long-name"
    assert len(event["id"]) == 36


def test_a_disabled_sdk_is_said_once_and_shown(run_python: RunPython, run: Callable[..., Any]) -> None:
    """One warning at ``configure()``, and ``status`` knows of it, in the process and afterwards."""
    done = run_python(f"{READ}\nmemtally.configure('.')\ngo()\ngo()", OTEL_SDK_DISABLED="true")
    assert done.stderr.count("OTEL_SDK_DISABLED") == 1
    assert "OTEL_SDK_DISABLED" in run("status").stdout


def test_the_hosts_own_provider_gets_the_events_too(run_python: RunPython, lines: Lines) -> None:
    """A host's processor sees the event with its attributes; the log has it once."""
    code = f"""
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
exporter = InMemoryLogRecordExporter()
provider = LoggerProvider()
provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
set_logger_provider(provider)
{READ}
memtally.configure(".")
go()
[got] = exporter.get_finished_logs()
import json
print(json.dumps(dict(name=got.log_record.event_name, scope=got.instrumentation_scope.name,
    severity=got.log_record.severity_number.name, body=got.log_record.body,
    timestamp=got.log_record.timestamp, attributes=dict(got.log_record.attributes)), default=lambda v: dict(v)))
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    [event] = lines()
    attributes_ = got.pop("attributes")
    assert got == {
        "name": "memtally.use",
        "scope": "memtally",
        "severity": "INFO",
        "body": None,
        "timestamp": got["timestamp"],
    }
    assert attributes_.pop("memtally.workspace.id")
    assert attributes_ == {
        "log.record.uid": event["id"],
        "session.id": "session-with-a-long-name",
        "memtally.source": "MemoryRead",
        "memtally.actor": "agent",
        "memtally.tokenizer": event["tokenizer"],
        "memtally.records": [event["records"][0]],
        "gen_ai.memory.record.id": f"decision/{LONG_SLUG}",
    }


def test_a_hosts_failing_processor_costs_the_log_nothing(run_python: RunPython, lines: Lines) -> None:
    """A processor of the host's that raises reaches neither the read nor the log."""
    code = f"""
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
class Broken(LogRecordProcessor):
    def on_emit(self, record): raise RuntimeError("host's own trouble")
    def shutdown(self): pass
    def force_flush(self, timeout_millis=0): return True
provider = LoggerProvider()
provider.add_log_record_processor(Broken())
set_logger_provider(provider)
{READ}
memtally.configure(".")
go()
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert len(lines()) == 1


def test_trace_and_span_are_the_active_ones(run_python: RunPython, lines: Lines) -> None:
    """A read inside a span carries its ids."""
    code = f"""
from opentelemetry.sdk.trace import TracerProvider
{READ}
memtally.configure(".")
with TracerProvider().get_tracer("t").start_as_current_span("s") as span:
    go()
    context = span.get_span_context()
    print(f"{{context.trace_id:032x}} {{context.span_id:016x}}")
"""
    done = run_python(code)
    [event] = lines()
    assert f"{event['trace_id']} {event['span_id']}\n" == done.stdout


@pytest.mark.parametrize(
    "end", ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)", "sys.exit(3)"]
)
def test_any_end_of_the_process_after_a_read(run_python: RunPython, lines: Lines, end: str) -> None:
    """Whatever ends the process right after the read, the event is in the log."""
    run_python(f"{READ}\nimport os, sys\nmemtally.configure('.')\ngo()\n{end}")
    assert len(lines()) == 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_process_pools(workspace: Path, lines: Lines, method: str) -> None:
    """Workers of each kind record every read once; forked ones need no ``configure()`` of their own."""
    script = workspace / "pool.py"
    script.write_text(
        READ
        + f"""
import multiprocessing, warnings
warnings.simplefilter("ignore", DeprecationWarning)

def work(number: int) -> None:
    if {method!r} != "fork":
        memtally.configure({str(workspace)!r})
    for _ in range(10):
        go()

if __name__ == "__main__":
    memtally.configure({str(workspace)!r})
    with multiprocessing.get_context({method!r}).Pool(4) as pool:
        pool.map(work, range(8))
    go()
"""
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert len(lines()) == 81
    assert len({e["id"] for e in lines()}) == 81


def test_by_environment_name(run_python: RunPython, lines: Lines) -> None:
    """``OTEL_LOGS_EXPORTER=memtally`` alone records, through the SDK's own set-up."""
    code = f"""
from opentelemetry.sdk._configuration import _initialize_components
_initialize_components()
{READ}
go()
"""
    done = run_python(
        code, OTEL_LOGS_EXPORTER="memtally", OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none"
    )
    assert done.returncode == 0, done.stderr
    [event] = lines()
    assert event["records"][0]["slug"] == LONG_SLUG


def test_by_name_and_by_configure_is_once(run_python: RunPython, lines: Lines) -> None:
    """Both ways at once: the log has the event once, and the limits of the host do not touch it."""
    code = f"""
from opentelemetry.sdk._configuration import _initialize_components
_initialize_components()
{READ}
memtally.configure(".")
go()
"""
    done = run_python(
        code,
        OTEL_LOGS_EXPORTER="memtally",
        OTEL_TRACES_EXPORTER="none",
        OTEL_METRICS_EXPORTER="none",
        OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT="16",
    )
    assert done.returncode == 0, done.stderr
    assert len(lines()) == 1


@pytest.mark.parametrize("processor", ["simple", "batch"])
def test_the_declarative_sample_works(
    workspace: Path, run_python: RunPython, lines: Lines, processor: str
) -> None:
    """The YAML file of the documentation records; with ``simple`` even before ``os._exit``."""
    pytest.importorskip("opentelemetry.configuration", reason="a package for newer OpenTelemetry releases")
    sample = Path(__file__).resolve().parent.parent / "examples" / "otel-config.yaml"
    text = sample.read_text("utf-8")
    assert "simple" in text
    (workspace / "otel.yaml").write_text(text.replace("simple", processor))
    code = f"""
from opentelemetry.configuration import configure_sdk, load_config_file
configure_sdk(load_config_file("otel.yaml"))
{READ}
go()
if {processor!r} == "simple":
    import os; os._exit(0)
"""
    done = run_python(code, MEMTALLY_WORKSPACE=str(workspace))
    assert done.returncode == 0, done.stderr
    assert len(lines()) == 1
    assert lines()[0]["records"][0]["slug"] == LONG_SLUG


@pytest.mark.parametrize(
    ("protocol", "receiver"), [("grpc", grpc_receiver), ("http/protobuf", http_receiver)]
)
def test_otlp_forwarding(run_python: RunPython, lines: Lines, protocol: str, receiver: Any) -> None:
    """With ``otlp=True`` a real receiver gets each event whole, by either protocol, despite the host's limits."""
    with receiver() as received:
        done = run_python(
            f"{READ}\nmemtally.configure('.', otlp=True)\ngo()\nmemtally.record_exposure([MemoryRecord('rule', 'a', 'x'),"
            " MemoryRecord('rule', 'b')])",
            OTEL_EXPORTER_OTLP_ENDPOINT=received.endpoint,
            OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
            OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20token",
            OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT="16",
        )
        assert done.returncode == 0, done.stderr
        use, exposure = received.wait(2)
        headers = {name.lower(): value for name, value in received.headers[0].items()}
        assert headers["authorization"] == "Bearer token"
        resource, scope, _ = received.placed[0]
    first, second = lines()
    assert (use.event_name, exposure.event_name) == ("memtally.use", "memtally.resident_exposure")
    assert scope.name == "memtally"
    assert attributes(resource.attributes)["memtally.workspace.id"]
    got = attributes(use.attributes)
    assert got["log.record.uid"] == first["id"]
    assert got["session.id"] == "session-with-a-long-name"
    assert got["memtally.records"] == first["records"]
    assert got["gen_ai.memory.record.id"] == f"decision/{LONG_SLUG}"
    assert attributes(exposure.attributes)["log.record.uid"] == second["id"]
    assert "gen_ai.memory.record.id" not in attributes(exposure.attributes)
    stamp = datetime.fromisoformat(first["occurred_at"])
    assert (
        use.time_unix_nano // 1000
        == (stamp - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000 // 1
    )


@pytest.mark.parametrize(
    ("protocol", "endpoint"),
    [("grpc", "http://127.0.0.1:9"), ("http/protobuf", "http://127.0.0.1:9"), ("grpc", "stalled")],
)
def test_a_dead_collector_slows_no_read_and_bounds_the_exit(
    run_python: RunPython, lines: Lines, protocol: str, endpoint: str
) -> None:
    """Closed port or a collector that never answers: reads are quick, the exit is bounded, the log complete."""
    import socket

    with socket.socket() as silent:
        if endpoint == "stalled":
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        code = f"""
{READ}
import time
memtally.configure('.', otlp=True)
before = time.monotonic()
for _ in range(20): go()
print(time.monotonic() - before)
"""
        before = time.monotonic()
        done = run_python(code, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
        took = time.monotonic() - before
    assert done.returncode == 0, done.stderr
    assert len(lines()) == 20
    assert float(done.stdout) < 2.0  # reads do not wait for the network: a bound far from any speed
    assert took < 15.0  # the SDK's own shutdown would take 30 s and more


def test_otlp_without_the_extra(workspace: Path, run_python: RunPython) -> None:
    """A missing extra is one line that names the remedy; an unknown protocol names those there are."""
    hide = "import sys; sys.modules['opentelemetry.exporter.otlp.proto.grpc._log_exporter'] = None\n"
    done = run_python(f"{hide}import memtally\nmemtally.configure('.', otlp=True)")
    assert "pip install 'memtally[otlp]'" in done.stderr.splitlines()[-1]
    done = run_python(
        "import memtally\nmemtally.configure('.', otlp=True)", OTEL_EXPORTER_OTLP_PROTOCOL="carrier"
    )
    assert "carrier" in done.stderr.splitlines()[-1]


def test_an_unwritable_log_never_reaches_a_read(
    workspace: Path, lines: Lines, caplog: pytest.LogCaptureFixture, run: Callable[..., Any]
) -> None:
    """The read returns, one warning says why, the event waits and is written later; ``status`` knows."""
    memtally.configure(workspace=".")
    log = workspace / ".memtally" / "usage.jsonl"
    log.mkdir()
    with caplog.at_level(logging.WARNING, "memtally"):
        for _ in range(3):
            assert read("decision", "a") == "content of the record"
    assert len(caplog.records) == 1
    assert "log unwritable" in run("status").stdout
    log.rmdir()
    read("decision", "b")
    assert [e["records"][0]["slug"] for e in lines()] == ["a", "a", "a", "b"]


def test_deleting_the_sessions_files_changes_nothing(workspace: Path) -> None:
    """The report rests on the log alone."""
    memtally.configure(workspace=".")
    session_file = workspace / "session-1.jsonl"
    session_file.write_text("transcript")
    with memtally.session("session-1"):
        read("decision", "a")
    now = datetime(2030, 1, 1, tzinfo=UTC)
    before = memtally.build_report(workspace, now=now)
    session_file.unlink()
    assert memtally.build_report(workspace, now=now) == before


def test_reading_an_old_file_today_is_a_use_of_today(workspace: Path) -> None:
    """``last_used_at`` is when it was read, not how old the file is."""
    memtally.configure(workspace=".")
    old = workspace / "a.md"
    old.write_text("text")
    os.utime(old, (0, 0))
    before = datetime.now(UTC)
    memtally.record_use("MemoryRead", MemoryRecord("decision", "a", old))
    used = memtally.build_report(workspace)["decision", "a"].last_used_at
    assert used is not None
    assert before.replace(microsecond=0) <= used <= datetime.now(UTC)


def test_a_failing_second_configure_leaves_the_first_in_place(workspace: Path, lines: Lines) -> None:
    """A call that raises changes nothing: recording goes on as before."""
    memtally.configure(workspace=".")
    for wrong in ({"tokenizer": "nope"}, {"workspace": "nonesuch"}, {"actor": "boss"}):
        with pytest.raises(MemtallyError):
            memtally.configure(**wrong)  # type: ignore[arg-type]
    read("decision", "a")
    assert len(lines()) == 1


def test_reconfiguring_while_others_read_loses_nothing(workspace: Path, lines: Lines) -> None:
    """No read falls between the old pipeline and the new."""
    import threading

    memtally.configure(workspace=".")
    stop, count = threading.Event(), [0]

    def work() -> None:
        while not stop.is_set():
            read("decision", "a")
            count[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(10):
        memtally.configure(workspace=".")
    stop.set()
    thread.join(30)
    assert len(lines()) == count[0]


def test_reads_in_exit_handlers_are_recorded(run_python: RunPython, lines: Lines) -> None:
    """A handler that was registered before ``configure()`` runs after memtally's, and its read counts."""
    done = run_python(f"import atexit\n{READ}\natexit.register(go)\nmemtally.configure('.')\ngo()")
    assert done.returncode == 0, done.stderr
    assert len(lines()) == 2


def test_a_folder_that_leads_out_of_the_workspace(workspace: Path, tmp_path: Path) -> None:
    """A ``.memtally`` that links elsewhere is refused before anything is written there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (workspace / ".memtally").symlink_to(outside)
    with pytest.raises(WorkspaceError, match="leads out of the workspace"):
        memtally.configure(workspace=".")
    assert list(outside.iterdir()) == []


def test_capture_keeps_events_from_the_hosts_provider_too(run_python: RunPython, lines: Lines) -> None:
    """A host's test sees its events; neither the log nor the host's exporters do."""
    code = f"""
from opentelemetry.sdk._configuration import _initialize_components
_initialize_components()
{READ}
from memtally.testing import capture
memtally.configure(".")
with capture() as captured:
    go()
assert len(captured.uses) == 1
go()
"""
    done = run_python(
        code, OTEL_LOGS_EXPORTER="memtally", OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none"
    )
    assert done.returncode == 0, done.stderr
    assert len(lines()) == 1


def test_an_odd_time_costs_no_neighbour_its_place(run_python: RunPython, lines: Lines) -> None:
    """A time that OTLP cannot hold goes without one; the events beside it arrive, the log has them all."""
    code = (
        f"{READ}\nfrom datetime import datetime\nmemtally.configure('.', otlp=True)\ngo()\n"
        "for year in (1901, 2600):\n"
        "    memtally.record_use('MemoryRead', MemoryRecord('decision', 'x'), occurred_at=datetime(year, 1, 1))\n"
        "go()"
    )
    with http_receiver() as received:
        done = run_python(
            code, OTEL_EXPORTER_OTLP_ENDPOINT=received.endpoint, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf"
        )
        assert done.returncode == 0, done.stderr
        assert [record.time_unix_nano == 0 for record in received.wait(4)] == [False, True, True, False]
    assert [event["occurred_at"][:4] for event in lines()][1:3] == ["1901", "2600"]


def test_forked_children_with_once_per_session(workspace: Path, run_python: RunPython) -> None:
    """Children forked while other threads place records neither hang nor lose their own."""
    code = """
import os, threading, warnings
import memtally
from memtally import MemoryRecord
warnings.simplefilter("ignore", DeprecationWarning)
memtally.configure(".")

@memtally.instrument_injection(once_per="session")
def place():
    return [MemoryRecord("rule", "a")]

stop = threading.Event()
def busy(n):
    i = 0
    while not stop.is_set():
        with memtally.session(f"{n}-{i}"): place()
        i += 1
threads = [threading.Thread(target=busy, args=(n,)) for n in range(3)]
for t in threads: t.start()
for n in range(15):
    pid = os.fork()
    if pid == 0:
        with memtally.session(f"child-{n}"): place()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for t in threads: t.join()
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (workspace / ".memtally" / "usage.jsonl").read_text().splitlines()]
    assert {f"child-{n}" for n in range(15)} <= {event["session_id"] for event in events}
    assert len({event["session_id"] for event in events}) == len(events)


def test_a_collector_that_never_answers_and_a_forked_child(run_python: RunPython, lines: Lines) -> None:
    """Parent and forked child each end within the bound, whatever the collector does; the log has both reads."""
    import socket

    code = f"""
{READ}
import os, sys, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
memtally.configure('.', otlp=True)
go()
pid = os.fork()
go()
before = time.monotonic()
memtally.shutdown()
os.write(1, f"took {{time.monotonic() - before}}\\n".encode())  # two processes: one write each
if pid:
    os.waitpid(pid, 0)
os._exit(0)
"""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run_python(
            code, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf"
        )
    assert done.returncode == 0, done.stderr
    took = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(took) == 2
    assert max(took) < 6.0  # the bound is 2 s; the SDK's own shutdown would take 30 s
    assert len(lines()) == 3


def test_a_configure_that_raises_leaves_nothing_behind(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No folder, no thread, no other place for faults."""
    import threading

    from memtally import faults as faults_module

    before = {thread.name for thread in threading.enumerate()}
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier")
    for wrong in ({"otlp": True}, {"otlp": True, "tokenizer": "nope"}):
        with pytest.raises(InvalidValueError):
            memtally.configure(workspace, **wrong)  # type: ignore[arg-type]
    assert list(workspace.iterdir()) == []
    assert {thread.name for thread in threading.enumerate()} <= before
    assert faults_module._directory is None


def test_faults_are_not_written_through_a_link_out(
    workspace: Path, tmp_path: Path, run_python: RunPython
) -> None:
    """By name, with a ``.memtally`` that leads elsewhere: neither log nor faults reach the other place."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (workspace / ".memtally").symlink_to(outside)
    code = f"from opentelemetry.sdk._configuration import _initialize_components\n_initialize_components()\n{READ}\ngo()"
    run_python(code, OTEL_LOGS_EXPORTER="memtally", OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none")
    assert list(outside.iterdir()) == []


def test_by_name_the_vocabulary_is_loaded_too(run_python: RunPython, lines: Lines) -> None:
    """Recording by environment name counts exactly once the vocabulary is there."""
    code = f"""
from opentelemetry.sdk._configuration import _initialize_components
_initialize_components()
{READ}
from memtally import tokens
assert tokens.estimator().wait(30)
go()
"""
    done = run_python(
        code, OTEL_LOGS_EXPORTER="memtally", OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none"
    )
    assert done.returncode == 0, done.stderr
    assert lines()[0]["tokenizer"] == "o200k_base"
    wrong = run_python(
        f"from opentelemetry.sdk._configuration import _initialize_components\n_initialize_components()\n{READ}\ngo()",
        OTEL_LOGS_EXPORTER="memtally", OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none", MEMTALLY_TOKENIZER="x",
    )  # fmt: skip
    assert wrong.stderr.count("no such tokenizer") == 1
    assert lines()[1]["tokenizer"] == "script-estimate"


def test_records_without_their_event_are_rebuilt_or_refused(workspace: Path, lines: Lines) -> None:
    """A record that somebody copied by its attributes is written; one that limits have cut is refused and counted."""
    from opentelemetry._logs import SeverityNumber
    from opentelemetry.sdk._logs import LoggerProvider, LogRecordLimits
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor

    from memtally_exporters import WorkspaceLogExporter

    attributes_ = {
        "log.record.uid": "019e1729-5daf-7580-b765-095156c4009a",
        "memtally.source": "MemoryRead",
        "memtally.records": [{"kind": "decision", "slug": LONG_SLUG, "file_bytes": 7}],
    }

    def emit(limits: Any, attributes: Any = attributes_, name: str = "memtally.use") -> None:
        try:
            provider = LoggerProvider(shutdown_on_exit=False, log_record_limits=limits)
        except TypeError:  # the oldest SDK has no limits to give
            pytest.skip("limits cannot be given to this SDK's provider")
        provider.add_log_record_processor(SimpleLogRecordProcessor(WorkspaceLogExporter(workspace)))
        provider.get_logger("other").emit(
            timestamp=1_778_505_047_471_344_000,
            severity_number=SeverityNumber.INFO,
            attributes=attributes,
            event_name=name,
        )

    emit(LogRecordLimits())
    [event] = lines()
    assert (event["id"], event["occurred_at"]) == (
        attributes_["log.record.uid"],
        "2026-05-11T13:10:47.471344Z",
    )
    assert event["records"][0]["slug"] == LONG_SLUG
    emit(LogRecordLimits(max_attribute_length=40))
    with pytest.warns(match="dropped"):
        emit(LogRecordLimits(max_attributes=1))
    emit(LogRecordLimits(), {**attributes_, "log.record.uid": "019e1729"})
    emit(LogRecordLimits(), {**attributes_, "memtally.records": "none"})
    emit(LogRecordLimits(), name="somebody.elses")
    assert len(lines()) == 1
    assert faults.counts() == {"damaged_by_limits": 3, "malformed_event": 1}


def test_what_was_never_written_is_counted_at_the_end(
    workspace: Path, run_python: RunPython, run: Any
) -> None:
    """Events that waited until the process ended are lost, and ``status`` says how many."""
    (workspace / ".memtally" / "usage.jsonl").mkdir(parents=True)
    done = run_python(f"{READ}\nmemtally.configure('.')\ngo()\ngo()\ngo()")
    assert done.returncode == 0, done.stderr
    [line] = [line for line in run("status").stdout.splitlines() if "events lost" in line]
    assert "3 times" in line


def test_odd_text_reaches_a_collector_as_it_stands_in_the_log(run_python: RunPython, lines: Lines) -> None:
    """Lone surrogates in session and slug: OTLP gets the event, spelled as in the log."""
    with http_receiver() as received:
        done = run_python(
            "import memtally\nmemtally.configure('.', otlp=True)\n"
            "with memtally.session('s\\udcb2'):\n"
            "    memtally.record_use('MemoryRead', memtally.MemoryRecord('decision', '\\ud800x', 'x'))",
            OTEL_EXPORTER_OTLP_ENDPOINT=received.endpoint,
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        )
        assert done.returncode == 0, done.stderr
        [record] = received.wait(1)
    got, [event] = attributes(record.attributes), lines()
    assert (got["session.id"], event["session_id"]) == ("s\\udcb2", "s\\udcb2")
    assert got["memtally.records"][0]["slug"] == event["records"][0]["slug"] == "\\ud800x"


def test_a_bad_record_costs_no_neighbour_in_its_batch(workspace: Path, lines: Lines) -> None:
    """Good, without a slug, good, in one batch of the SDK's: both good ones are in the log, the other is counted."""
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    from memtally_exporters import WorkspaceLogExporter

    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(WorkspaceLogExporter(workspace)))
    for number, slug in ((1, "a"), (2, None), (3, "c")):
        provider.get_logger("other").emit(
            timestamp=1_778_505_047_471_344_000,
            event_name="memtally.use",
            attributes={
                "log.record.uid": f"019e1729-5daf-7580-b765-00000000000{number}",
                "memtally.records": [{"kind": "decision", "slug": slug, "file_tokens_estimate": None}],
            },
        )
    provider.shutdown()
    assert [event["records"][0]["slug"] for event in lines()] == ["a", "c"]
    assert faults.counts() == {"malformed_event": 1}


def test_a_forked_child_forwards_nothing_of_its_parents(run_python: RunPython) -> None:
    """An event that waits for OTLP when the process forks reaches the collector once."""
    with http_receiver() as received:
        done = run_python(
            f"{READ}\nimport os, warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n"
            "memtally.configure('.', otlp=True)\ngo()\npid = os.fork()\n"
            "if pid == 0:\n    raise SystemExit(0)\nassert os.waitpid(pid, 0)[1] == 0",
            OTEL_EXPORTER_OTLP_ENDPOINT=received.endpoint,
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        )
        assert done.returncode == 0, done.stderr
        assert len(received.wait(1)) == 1


@pytest.mark.parametrize("damage", ["truncated", "misnamed", "closed"])
def test_a_damaged_vocabulary_costs_no_event(
    run_python: RunPython, lines: Lines, tmp_path: Path, damage: str
) -> None:
    """With a cache that is cut, under another name or unreadable the event is written, its estimate marked."""
    cache = tmp_path / "cache"
    cache.mkdir()
    name = {"truncated": "fb374d419588a4632f3f557e76b4b70aebbca790"}.get(damage, "something-else")
    (cache / name).write_bytes(b"IQ== 0\nIg== 1\n")
    cache.chmod(0o000 if damage == "closed" else 0o755)
    done = run_python(
        "import sys\nfor name in ('toktok', 'bpe_openai'): sys.modules[name] = None\n"
        f"{READ}\nimport time\nmemtally.configure('.')\ntime.sleep(1)\ngo()",
        TIKTOKEN_CACHE_DIR=str(cache),
    )
    cache.chmod(0o755)
    assert done.returncode == 0, done.stderr
    [event] = lines()
    assert event["tokenizer"] == "script-estimate"
