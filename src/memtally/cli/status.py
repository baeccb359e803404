"""``memtally status``: is recording healthy, and what would the figures rest on?"""

from __future__ import annotations

import json
import mmap
import os
import re
import shlex
from datetime import UTC, datetime
from typing import Any

import click

from memtally import health, tokens
from memtally._files import open_regular
from memtally._git import ask_git
from memtally._vocabulary import VocabularyMissingError, vocabulary_bytes
from memtally.cli._silence import host_ran_since, stopped_sources
from memtally.cli.options import json_option, no_color_option, workspace_option
from memtally.cli.output import shows_color
from memtally.context import disabled, sdk_disabled
from memtally.errors import ConfigError, InvalidValueError, LogReadError, MemtallyError
from memtally.hosts.hooking import HOSTS
from memtally.hosts.installing import SCOPES, installed_in, settings_path
from memtally.ledger.decode import decode_line
from memtally.ledger.layout import within
from memtally.report import Coverage
from memtally.report._text import counted, one_line, stamp, utc_stamp
from memtally.report.build import moment, open_source, report_of
from memtally.report.formats.summary import first_of
from memtally.report.tally import Filters
from memtally.workspace import Workspace, find_workspace

__all__ = ["status"]


@click.command()
@workspace_option
@json_option
@no_color_option
def status(workspace: str | None, as_json: bool, no_color: bool) -> None:
    """Workspace, log, sources seen, hooks, faults of recording, tokenizer, OpenTelemetry settings."""
    place = find_workspace(workspace)
    facts = _facts(place)
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    color = shows_color(no_color=no_color)
    for heading, entries in facts.items():
        click.echo(click.style(heading.replace("_", " "), bold=True) if color else heading.replace("_", " "))
        for name, value in entries.items():
            text = one_line(str(value))
            alarming = re.match("[A-Z]{2}", text) or (heading in ("warnings", "faults") and name != "none")
            said = click.style(text, fg="yellow") if color and alarming else text
            click.echo(f"  {one_line(name.replace('_', ' ')):<19} {said}")


def _facts(place: Workspace) -> dict[str, dict[str, Any]]:
    coverage: Coverage | MemtallyError
    try:
        with open_source(place.root, None) as source:
            coverage = report_of(source, Filters(), join=False).coverage
    except (LogReadError, ConfigError) as error:
        coverage = error
    return {
        "workspace": _workspace(place),
        "log": _log(place, coverage),
        "sources": _sources(coverage) or {"none": "no event has been recorded"},
        "hooks": _hooks(place) or {"none": "memtally install HOST has a host record"},
        "faults": _faults(place) or {"none": "no fault of recording is known"},
        "tokenizer": _tokenizer(),
        "opentelemetry": _opentelemetry(),
        "warnings": _warnings(place, coverage) or {"none": "-"},
    }


def _workspace(place: Workspace) -> dict[str, Any]:
    here = {"root": str(place.root), "found_by": place.found_by}
    try:
        config = place.config()
    except ConfigError as error:
        return here | {"configuration": f"MALFORMED: {error}"}
    return here | {
        "id": config.workspace_id or "none yet (made by init or configure())",
        "inventory": config.preset or ("configured" if config.records else "none (memtally init)"),
    }


def _log(place: Workspace, coverage: Coverage | MemtallyError) -> dict[str, Any]:
    paths = place.logs()
    if isinstance(coverage, MemtallyError):
        return {"state": f"UNREADABLE: {coverage}", "files": len(paths)} | _writing(place)
    return {
        "state": coverage.log_state.replace("_", " "),
        "files": len(paths),
        "bytes": sum(os.path.getsize(path) for path in paths if os.path.exists(path)),
        **_writing(place),
        "events": coverage.events,
        "last_event": utc_stamp(coverage.last_event_at) or "-",
        "damaged_lines": coverage.damaged_lines,
        "recovered_events": coverage.recovered_events,
        "duplicate_events": coverage.duplicate_events,
        "conflicting_events": coverage.conflicting_events,
    }


def _writing(place: Workspace) -> dict[str, Any]:
    return {"writable": "yes" if _writable(place) else "NO", "waiting": _waiting(place)}


def _waiting(place: Workspace) -> str:
    """Events that are not in the log: an event is safe once it is appended, and not before."""
    said = []
    for entry in health.read_waiting(str(place.directory)):
        events, process = counted(entry["waiting"], "event"), f"process {entry['pid']}"
        said.append(
            {
                True: f"at least {events} in the memory of {process}: not in the log yet",
                False: f"at least {events} LOST with {process}, which ended while they waited",
                None: f"at least {events} waiting, or lost, in {process} on {one_line(entry['host'])}",
            }[entry["alive"]]
        )
    return first_of(said) or "none"


def _sources(coverage: Coverage | MemtallyError) -> dict[str, Any]:
    if isinstance(coverage, MemtallyError):
        return {}
    said = {
        name: f"{counted(source.events, 'event')}, last {stamp(source.last, UTC)} UTC"
        for name, source in coverage.sources.items()
    }
    return said | dict.fromkeys(coverage.silent_sources, "configured, never seen")


def _hooks(place: Workspace) -> dict[str, Any]:
    """The hosts that record here by their hooks, and when one has last: one that never did says nothing."""
    said = {}
    for host in HOSTS:
        scopes = [
            scope for scope in SCOPES[host] if installed_in(host, settings_path(host, scope, str(place.root)))
        ]
        last = _last_by_hook(place, host)
        if scopes or last:
            installed = f"installed ({', '.join(scopes)})" if scopes else "NOT installed any more"
            said[host] = f"{installed}, {f'last event {last}' if last else 'has recorded nothing here'}"
    return said


def _idle_hooks(place: Workspace) -> dict[str, str]:
    """Hooks that are installed and have recorded nothing, where something should have been."""
    found = {}
    for host in HOSTS:
        paths = {scope: settings_path(host, scope, str(place.root)) for scope in SCOPES[host]}
        installed = {scope: path for scope, path in paths.items() if installed_in(host, path)}
        if not installed or _last_by_hook(place, host):
            continue
        since = max(map(os.path.getmtime, installed.values()))
        if host_ran_since(place, host, since):
            found[f"{host} idle"] = (
                f"a session has run here since the hooks were installed, and they have recorded nothing; "
                f"memtally import {host} finds what was read"
            )
        elif set(installed) - {"user"}:
            found[f"{host} idle"] = "its hooks are installed for this workspace, and recorded nothing yet"
    return found


def _commands_of_hooks(place: Workspace) -> dict[str, set[str]]:
    """The different commands by which each host runs a hook here."""
    return {
        host: {
            command
            for scope in SCOPES[host]
            for command in installed_in(host, settings_path(host, scope, str(place.root))).values()
        }
        for host in HOSTS
    }


def _last_by_hook(place: Workspace, host: str) -> str:
    """When a hook of a host has last recorded here, by the newest segment that says so."""
    mark = f'"host":"{host}"'.encode()
    for path in reversed(place.logs()):
        if os.path.basename(path).startswith("usage-import-"):
            continue
        try:
            with open(open_regular(path), "rb") as stream:
                if not os.fstat(stream.fileno()).st_size:
                    continue
                with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    at = data.rfind(mark)
                    line = data[data.rfind(b"\n", 0, at) + 1 : data.find(b"\n", at)] if at >= 0 else b""
        except (OSError, ValueError):
            continue
        events, _ = decode_line(line)
        if events:
            return utc_stamp(moment(events[-1].occurred_at)) or "at an unknown time"
    return ""


def _writable(place: Workspace) -> bool:
    if place.log_path.is_symlink():
        return False  # the writer follows none
    for path in (place.log_path, place.directory, place.root):
        if path.exists():
            is_what_it_should = path.is_dir() if path != place.log_path else os.path.isfile(path)
            return os.access(path, os.W_OK) and is_what_it_should and within(str(path), str(place.root))
    return False


def _faults(place: Workspace) -> dict[str, Any]:
    said = {}
    for kind, entry in sorted(health.read_faults(str(place.directory)).items()):
        times = counted(entry["count"], "time")
        said[kind.replace("_", " ")] = f"{times}, last {_time(entry['at'])}: {entry['message']}"
    return said


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return "unknown"


def _tokenizer() -> dict[str, Any]:
    wanted = os.environ.get("MEMTALLY_TOKENIZER") or tokens.DEFAULT_TOKENIZER
    try:
        estimator = tokens.TokenEstimator(wanted)
    except InvalidValueError as error:
        return {"name": wanted, "counts": f"by formula, for MEMTALLY_TOKENIZER is wrong: {error}"}
    if estimator.state == "formula":
        return {"name": wanted, "counts": "estimated by formula"}
    estimator.load()
    if estimator.state == "exact":
        where = estimator.origin
        if where == "tiktoken":
            try:
                where = f"tiktoken, {vocabulary_bytes(wanted)[1]}"
            except VocabularyMissingError:  # pragma: no cover - it was there a moment ago
                pass
        return {"name": wanted, "counts": f"exact ({where})"}
    return {
        "name": wanted,
        "counts": f"estimated ({tokens.SCRIPT_ESTIMATE}): no vocabulary on this machine; "
        "memtally tokens fetch, or pip install 'memtally[tokens]'",
    }


def _opentelemetry() -> dict[str, Any]:
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT") or os.environ.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT", ""
    )
    exporters = [name.strip() for name in os.environ.get("OTEL_LOGS_EXPORTER", "").split(",")]
    said: dict[str, Any] = {
        "otlp_endpoint": _without_credentials(endpoint) or "-",
        "by_name": "OTEL_LOGS_EXPORTER=memtally" if "memtally" in exporters else "no",
    }
    if sdk_disabled():
        said["sdk"] = "OTEL_SDK_DISABLED is set: nothing is forwarded; the log goes on under configure()"
    return said


def _without_credentials(address: str) -> str:
    """Scheme, host and port of an address: user names, paths and queries may hold secrets."""
    scheme, separator, rest = address.rpartition("://")
    return scheme + separator + re.split("[/?#]", rest.rpartition("@")[2], maxsplit=1)[0]


def _warnings(place: Workspace, coverage: Coverage | MemtallyError) -> dict[str, str]:
    found = {}
    if isinstance(coverage, Coverage) and (coverage.damaged_lines or coverage.conflicting_events):
        found["log"] = "some lines are damaged or contradict others; memtally log verify says which"
    if not _writable(place):
        found["not_writable"] = "nobody can write the log here: events wait in memory, and are lost with it"
    elif health.read_waiting(str(place.directory)):
        found["waiting"] = "events are not in the log, or are lost: see waiting above"
    if health.read_faults(str(place.directory)):
        found["faults"] = "recording or forwarding has failed, and events may be missing: see faults above"
    found |= stopped_sources(place)
    found |= _idle_hooks(place)
    for host, commands in _commands_of_hooks(place).items():
        if len(commands) > 1:
            found[host] = "runs hooks of two installations: what is placed counts twice; uninstall one"
        for command in sorted(commands):
            program = shlex.split(command)[0] if os.name != "nt" and command.count("'") % 2 == 0 else ""
            if os.path.isabs(program) and not os.path.exists(program):
                found[f"{host} hook"] = f"{program} is gone: nothing is recorded; run memtally install {host}"
    if disabled():
        found["disabled"] = "MEMTALLY_DISABLED is set: nothing is recorded"
    if os.environ.get("OTEL_LOGS_EXPORTER") and "memtally" in os.environ["OTEL_LOGS_EXPORTER"]:
        found["batched"] = (
            "recording by OTEL_LOGS_EXPORTER is batched by the SDK: a killed process or a full queue "
            "loses events; configure() does not"
        )
    if place.directory.is_dir() and _in_git(place):
        found["git_clean"] = "git clean -x would delete the usage log; use git clean -x -e .memtally"
    return found


def _in_git(place: Workspace) -> bool:
    return ask_git(str(place.root), "rev-parse", "--is-inside-work-tree") is not None
