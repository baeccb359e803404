"""Output: the same figures in every format, hostile names inert, no run unlike another."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memtally
from conftest import SHARED
from memtally.errors import InvalidValueError
from memtally.report._text import clip, one_line, pad, stamp, utc_stamp, width
from memtally.report.formats import FORMATS, Options, format_module
from memtally.report.model import Coverage, RecordUsage, UsageReport
from test_report import NOW, event, exposure, report_of

HOSTILE = [
    "\x1b]52;c;AAAA\x07",
    "\x1b[2J\x1b[H",
    "\x9b31m",
    "a\rb",
    "a\nb",
    "\u202eevil",
    "\u2028x",
    "</script><script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@SUM(A1)",
    "a|b`c`[x](y)",
    "\\ud800",
    "日本語",
    "café",
]


def test_the_example_of_the_formats(tmp_path: Path) -> None:
    """A small log, and exactly what the table says of it."""
    made = report_of(
        tmp_path / "log.jsonl",
        [
            event(1, day=3),
            event(2, day=4, source="KnowledgeRef"),
            exposure(3, "b", day=5),
            event(4, "c", actor="maintenance"),
        ],
    )
    assert format_module("table").report(made, Options()) == (
        "RECORD      USES  LAST USED         BY SOURCE                     EXPOSURES  TOKENS LATEST  TOKENS TOTAL\n"
        "decision/a     2  2026-05-04 12:00  KnowledgeRef 1, MemoryRead 1          0              -             0\n"
        "decision/b     0  -                 -                                     1             10            10\n"
        "\n"
        "1 more not shown (--all shows every record).\n"
        "\n"
        "4 events (1 by maintenance) in 1 session, 2026-05-01 12:00 to 2026-05-05 12:00 UTC.\n"
        "Sources seen: KnowledgeRef 1, MemoryRead 2, ResidentInjection 1.\n"
        "Tokens are estimated by o200k_base.\n"
        "Not compared with the files of a workspace (--workspace).\n"
    )


def test_json_has_the_required_keys_by_name(tmp_path: Path) -> None:
    """The eight keys of the contract, the envelope, UTC times with six digits, integers exact."""
    made = report_of(tmp_path / "log.jsonl", [event(1, record={"file_bytes": 9007199254740993}), exposure(2)])
    got = json.loads(format_module("json").report(made, Options(everything=True)))
    assert (got["format_version"], got["generated_at"]) == (1, "2026-06-01T00:00:00.000000Z")
    [record] = got["records"]
    assert {name: record[name] for name in list(record)[:8]} == {
        "kind": "decision",
        "slug": "a",
        "use_count": 1,
        "last_used_at": "2026-05-01T12:00:00.000000Z",
        "source_breakdown": {"MemoryRead": 1},
        "resident_exposure_count": 1,
        "estimated_tokens_per_injection": 10,
        "estimated_total_resident_exposure_tokens": 10,
    }
    assert '"file_bytes": 40' in format_module("json").report(made, Options())
    assert got["coverage"]["log_state"] == "ok"
    assert got["coverage"]["sources"]["MemoryRead"] == {
        "events": 1,
        "first": "2026-05-01T12:00:00.000000Z",
        "last": "2026-05-01T12:00:00.000000Z",
    }


def test_large_integers_survive_every_format(tmp_path: Path) -> None:
    """Sizes beyond 2**53 keep their digits in JSON and CSV."""
    made = report_of(tmp_path / "log.jsonl", [event(1, record={"file_bytes": 9007199254740993})])
    for name in ("json", "csv"):
        assert "9007199254740993" in format_module(name).report(made, Options(everything=True))


def test_csv_reads_back(tmp_path: Path) -> None:
    """A spreadsheet's reader finds the same figures, unknown values empty."""
    made = report_of(tmp_path / "log.jsonl", [event(1), event(2, source="KnowledgeRef")])
    [row] = csv.DictReader(io.StringIO(format_module("csv").report(made, Options(everything=True))))
    assert (row["kind"], row["slug"], row["use_count"]) == ("decision", "a", "2")
    assert row["source_breakdown"] == "KnowledgeRef=1 MemoryRead=1"
    assert (row["estimated_tokens_per_injection"], row["resident"]) == ("", "")


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_names_are_inert(tmp_path: Path, name: str) -> None:
    """Slugs, sources and session ids that attack terminals, spreadsheets, HTML and prompts do nothing."""
    events = [event(n, slug, source=f"S{slug}", session_id=slug) for n, slug in enumerate(HOSTILE, 1)]
    made = report_of(tmp_path / "log.jsonl", events, history=UTC)
    module = format_module(name)
    options = Options(everything=True, max_chars=100_000)
    for text in (
        module.report(made, options),
        module.review(made.review(), made, options),
        module.show(made.records[0], {"2026-05-01": {HOSTILE[0]: 1}}, made, options),
    ):
        assert all(c.isprintable() or c == "\n" for c in text)
        text.encode("utf-8")
        if name == "csv":
            cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
            assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
        elif name == "markdown":
            plain = "".join(part for n, part in enumerate(text.split("`")) if n % 2 == 0)
            assert "<script>" not in plain
            assert "[x](y)" not in plain
            rows = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("| `")]
            assert {row.count("|") for row in rows} <= {9, 4}


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not beside this checkout")
@pytest.mark.parametrize("name", FORMATS)
def test_naughty_strings_as_slugs(tmp_path: Path, name: str) -> None:
    """Every naughty string is a record of its own through the log and the format, or is no slug at all."""
    strings = json.loads((SHARED / "conformance" / "blns" / "blns.json").read_text("utf-8"))
    events = [event(n, s) for n, s in enumerate(strings, 1) if s]
    made = report_of(tmp_path / "log.jsonl", events, history=UTC)
    import unicodedata

    distinct = {unicodedata.normalize("NFC", s) for s in strings if s}
    assert {r.slug for r in made.records} == distinct
    text = format_module(name).report(made, Options(everything=True, max_chars=10**7))
    assert all(c.isprintable() or c == "\n" for c in text)
    if name == "json":
        assert {r["slug"] for r in json.loads(text)["records"]} == distinct


def test_markdown_is_bounded_and_says_what_it_is(tmp_path: Path) -> None:
    """Within the bound, whatever the log holds; it counts what it left out and claims nothing."""
    events = [event(n, f"slug-{n}" * 5, source=f"Source{n}") for n in range(1, 400)]
    made = report_of(tmp_path / "log.jsonl", events)
    for bound in (1_000, 3_000, 6_000):
        text = format_module("markdown").report(made, Options(max_chars=bound))
        assert len(text) <= bound
        assert "more not shown" in text
        assert "Evidence, not judgment" in text
        assert "no proof of disuse" in text
        assert len(format_module("markdown").review(made.review(), made, Options(max_chars=bound))) <= bound


def test_ties_are_settled_by_name(tmp_path: Path) -> None:
    """Twenty records with equal counts come in one order, whatever the order in the log."""
    import random

    events = [event(n, f"r{n:02d}") for n in range(1, 21)]
    texts = set()
    for seed in range(5):
        random.Random(seed).shuffle(events)
        made = report_of(tmp_path / "log.jsonl", events)
        texts.add(
            format_module("table").report(made, Options(limit=10))
            + format_module("markdown").report(made, Options(sort="tokens"))
        )
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("sort", "first"), [("name", "a"), ("uses", "b"), ("last-used", "c"), ("exposures", "d"), ("tokens", "e")]
)
def test_orders(tmp_path: Path, sort: str, first: str) -> None:
    """Each order puts the record first that it is about."""
    events = [
        event(1, "a"),
        event(2, "b"),
        event(3, "b"),
        event(4, "c", day=9),
        *(exposure(n, "d") for n in range(5, 8)),
        exposure(8, "e", record={"file_tokens_estimate": 500}),
    ]
    made = report_of(tmp_path / "log.jsonl", events)
    assert (
        format_module("table").report(made, Options(sort=sort)).splitlines()[1].split()[0]
        == f"decision/{first}"
    )


def test_a_narrow_terminal_keeps_the_figures(tmp_path: Path) -> None:
    """Where the columns do not fit, the name gives way and the numbers stay."""
    made = report_of(tmp_path / "log.jsonl", [event(1, "a-very-long-slug-" * 10)])
    line = format_module("table").report(made, Options(columns=80)).splitlines()[1]
    assert "…" in line
    assert "MemoryRead 1" in line
    assert width(line) < 120


def test_widths() -> None:
    """Wide characters take two columns, combining ones none."""
    assert [width(t) for t in ("abc", "日本", "e\u0301")] == [3, 4, 1]
    assert pad("日", 4) == "日  "
    assert clip("日本語", 4) == "日…"
    assert clip("abc", 3) == "abc"


def test_times_at_the_ends_of_the_calendar() -> None:
    """The zero time of other languages and the last day, in zones that lead out of the calendar."""
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    assert stamp(first, ZoneInfo("America/New_York")) == "0001-01-01 00:00"
    assert stamp(last, ZoneInfo("Asia/Tokyo")) == "9999-12-31 23:59"
    assert utc_stamp(first) == "0001-01-01T00:00:00.000000Z"


def test_evening_use_is_of_that_day_in_its_zone(tmp_path: Path) -> None:
    """A zone given holds for dates and times alike, in table and review, with its name at that date."""
    made = report_of(tmp_path / "log.jsonl", [event(1, occurred_at="2025-07-25T04:08:00Z")])
    options = Options(zone=ZoneInfo("America/Los_Angeles"))
    assert "2025-07-24 21:08" in format_module("table").report(made, options)
    assert "PDT" in format_module("table").report(made, options)
    assert "last on 2025-07-24" in format_module("table").review(made.review(), made, options)


@given(st.text())
def test_one_line_is_printable_and_reversible_enough(text: str) -> None:
    """Whatever the text, the result is one printable line, and printable texts stay as they are."""
    made: Any = one_line(text)
    assert made.isprintable()
    assert made == text or not text.isprintable()


def test_unknown_formats_are_named() -> None:
    """A format that does not exist is refused with those that do."""
    with pytest.raises(InvalidValueError, match=r"xml.*table, json, csv, markdown"):
        format_module("xml")


def test_coverage_is_said_in_words(tmp_path: Path) -> None:
    """Everything that was met and not counted is a sentence of its own."""
    path = tmp_path / "log.jsonl"
    made = report_of(
        path,
        [
            event(1),
            event(1),
            event(2, source="MemoryQuery"),
            event(3, event="x"),
            event(4, occurred_at="?"),
            event(5, occurred_at="2999-01-01T00:00:00Z"),
        ],
    )
    path.write_bytes(path.read_bytes() + b"torn")
    from memtally.report import build_report

    made = build_report(logs=[path], now=NOW)
    text = format_module("table").report(made, Options())
    for sentence in (
        "1 damaged line (0 events recovered from them).",
        "1 duplicate event (counted once).",
        "1 search event (never a use).",
        "1 event of an unknown type (not counted).",
        "1 event dated in the future (counted, out of every date).",
        "1 event without a usable time (counted, out of every date).",
    ):
        assert sentence in text


def test_unknown_and_mixed_costs_are_marked(tmp_path: Path) -> None:
    """A cost that no event gives is no zero, a sum without some placings or over several tokenizers says so."""
    nothing = {"file_tokens_estimate": None, "file_bytes": None}
    made = report_of(
        tmp_path / "log.jsonl",
        [
            exposure(1, "unknown", record=nothing),
            exposure(2, "partly"),
            exposure(3, "partly", record=nothing),
            exposure(4, "mixed"),
            exposure(5, "mixed", tokenizer="bytes/4"),
            exposure(6, "plain"),
        ],
    )
    for name in ("table", "markdown"):
        text = format_module(name).report(made, Options())
        for slug, cell in {"unknown": "?*", "partly": "10*", "mixed": "~20", "plain": "10"}.items():
            [line] = [line for line in text.splitlines() if f"decision/{slug}" in line]
            assert f" {cell}" in line
        assert "* without 2 placings whose size is unknown." in text
        assert "~ a sum over estimates by several tokenizers." in text
    clean = report_of(tmp_path / "log.jsonl", [exposure(1)])
    assert "*" not in format_module("table").report(clean, Options())


@pytest.mark.parametrize("bound", [500, 1_000, 2_000])
def test_markdown_keeps_its_bound_with_long_names(tmp_path: Path, bound: int) -> None:
    """Many long names without a use do not break the bound, in any of the three texts."""
    (tmp_path / "decisions").mkdir()
    for number in range(30):
        (tmp_path / "decisions" / f"{'long-name-' * 11}{number:02d}.md").write_text("x")
    (tmp_path / ".memtally").mkdir()
    (tmp_path / ".memtally" / "config.toml").write_text('preset = "generic"\n')
    made = report_of(tmp_path / "log.jsonl", [event(1)], workspace=tmp_path)
    options = Options(max_chars=bound)
    markdown = format_module("markdown")
    for text in (
        markdown.report(made, options),
        markdown.review(made.review(), made, options),
        markdown.show(
            made.records[0], {f"2026-05-{n:02d}": {"MemoryRead": n} for n in range(1, 29)}, made, options
        ),
    ):
        assert len(text) <= bound
        assert "no proof of disuse" in text


def test_a_damaged_log_has_the_same_figures_in_every_format(tmp_path: Path) -> None:
    """Torn, welded, repeated and contradictory lines: every format, one answer, worked out by hand."""
    whole = [json.dumps(e) for e in (event(1), event(2), event(3, "b"), exposure(4, "b"), event(5))]
    path = tmp_path / "log.jsonl"
    path.write_text(
        f"{whole[0]}\n{whole[1][:60]}\n{whole[1]}{whole[2]}\n<<<<<<< HEAD\n{whole[2]}\n"
        f"{json.dumps(event(1, 'c', day=9))}\n{whole[4][:100]}{whole[3]}\n\0\0\0{whole[4]}"
    )
    # a: events 1, 2 and 5; b: use 3 and exposure 4; c came later under the id of 1, and does not count
    expected = {"a": ("3", "0"), "b": ("1", "1")}
    made = memtally.build_report(logs=[path], now=NOW, history=UTC)
    assert (made.coverage.damaged_lines, made.coverage.recovered_events) == (5, 4)
    assert (made.coverage.duplicate_events, made.coverage.conflicting_events) == (1, 1)
    text = {name: format_module(name).report(made, Options(everything=True)) for name in FORMATS}
    shown: dict[str, dict[str, tuple[str, str]]] = {
        "json": {
            r["slug"]: (str(r["use_count"]), str(r["resident_exposure_count"]))
            for r in json.loads(text["json"])["records"]
        },
        "csv": {
            r["slug"]: (r["use_count"], r["resident_exposure_count"])
            for r in csv.DictReader(io.StringIO(text["csv"]))
        },
        "markdown": {
            cells[1].strip(" `").partition("/")[2]: (cells[2].strip(), cells[5].strip())
            for cells in (row.split("|") for row in text["markdown"].splitlines() if "`decision/" in row[:14])
        },
        "table": {
            row.split()[0].partition("/")[2]: (row.split()[1], row.split()[-3])
            for row in text["table"].splitlines()
            if row.startswith("decision/")
        },
        "html": {
            r["name"].partition("/")[2]: (str(r["uses"]), str(r["exposures"]))
            for r in json.loads(text["html"].rpartition('id="data">')[2].partition("</script>")[0])["records"]
        },
    }
    assert set(shown) == set(FORMATS)
    assert all(figures == expected for figures in shown.values()), shown


def test_the_page_calls_nothing_unused_before_anything_was_recorded() -> None:
    """Without an event, or limited to some sources, the headline has no number of unread records."""
    from memtally.report.formats.html.data import headline

    there = RecordUsage("decision", "a", status="present")
    read = RecordUsage("decision", "b", status="present", use_count=1)
    coverage = Coverage(log_state="ok", inventory_state="complete")
    for made, said in (
        (UsageReport((there, read), coverage, NOW), ("1", "of 2 records that exist now")),
        (UsageReport((there,), replace(coverage, log_state="no_log"), NOW), ("-", "nothing was recorded")),
        (UsageReport((there,), replace(coverage, log_state="empty"), NOW), ("-", "nothing was recorded")),
        (UsageReport((there, read), coverage, NOW, limited=True), ("-", "of 2 records that exist now")),
        (UsageReport((), coverage, NOW), ("-", "no inventory to compare with")),
    ):
        [card] = [card for card in headline(made) if card["key"] == "unread"]
        assert (card["value"], card["note"]) == said
