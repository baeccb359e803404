"""The parts that hosts are made of: ids, times, front matter, counts on disk, which file is which record."""

from __future__ import annotations

import calendar
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtally._counts import Counts, add_counts, content_key, counts_path, take_wanted, want
from memtally._stamps import event_id_from, microseconds_of
from memtally.config import Config, load_config
from memtally.hosts._front_matter import front_matter
from memtally.hosts._ids import host_event_id, is_uuid, names_one_call
from memtally.hosts._record_files import RecordFiles
from memtally.hosts._sizes import KnownCounts, Measured, snapshots
from memtally.ledger.decode import parse_time

# -- ids and times -----------------------------------------------------------------------------------


def test_an_id_is_of_the_call_and_the_record() -> None:
    """The same call and record give the same id, any other one another, and never by running texts together."""
    made = host_event_id("claude-code", "toolu_1", "skill", "pdf")
    assert made == host_event_id("claude-code", "toolu_1", "skill", "pdf")
    assert made == event_id_from("claude-code\0toolu_1\0skill\0pdf")
    assert made[14] == "5"
    others = {
        host_event_id("codex", "toolu_1", "skill", "pdf"),
        host_event_id("claude-code", "toolu_2", "skill", "pdf"),
        host_event_id("claude-code", "toolu_1", "rule", "pdf"),
        host_event_id("claude-code", "toolu_1", "skill", "pd"),
        host_event_id("claude-code", "toolu_1skill", "", "pdf"),
    }
    assert len(others | {made}) == 6


@pytest.mark.parametrize(
    ("text", "uuid", "call"),
    [
        ("44444444-4444-4444-8444-000000000001", True, True),
        ("4444444444444444844400000000000A", False, True),
        ("toolu_01G2NnCVzDNPUexA1MMjCb3E", False, True),
        ("call_RpJeadImUBGuXZW4LxKlMjc0", False, True),
        ("tu_01", False, False),
        ("call_1", False, False),
        ("[trimmed for fixture]", False, False),
        ("a placeholder of some length", False, False),
        ("", False, False),
        (None, False, False),
        (7, False, False),
    ],
)
def test_what_is_an_identity(text: object, uuid: bool, call: bool) -> None:
    """UUIDs and long random ids are; short ones and placeholders are not."""
    assert (is_uuid(text), names_one_call(text)) == (uuid, call)


@given(st.datetimes(), st.integers(0, 999_999))
def test_times_are_read_as_the_log_reads_them(moment: object, fraction: int) -> None:
    """Every time in the hosts' form is the same by the lean way as by the log's."""
    text = f"{moment.isoformat(timespec='seconds')}.{fraction:06d}Z"  # type: ignore[attr-defined]
    seconds = calendar.timegm(moment.timetuple())  # type: ignore[attr-defined]
    assert microseconds_of(text) == parse_time(text) == seconds * 1_000_000 + fraction


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-12-01T03:44:00.363Z", 1_796_096_640_363_000),
        ("2024-02-29T00:00:00.1Z", 1_709_164_800_100_000),
        ("2024-02-29T00:00:00.123456789Z", 1_709_164_800_123_456),
        ("2023-02-29T00:00:00Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("2026-00-01T00:00:00Z", None),
        ("2026-12-01T24:00:00Z", None),
        ("2026-12-01T00:60:00Z", None),
        ("2026-12-01 00:00:00Z", None),
        ("2026-12-01T00:00:00", None),
        ("2026-12-01T00:00:00.xZ", None),
        ("²026-12-01T00:00:00Z", None),
        ("[trimmed for fixture]", None),
        (None, None),
    ],
)
def test_times_in_another_form_are_none(text: object, microseconds: int | None) -> None:
    """What is no time of this form is unknown."""
    assert microseconds_of(text) == microseconds


# -- front matter ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            "---\nname: pdf\ndescription: Work with PDFs\n---\nbody",
            {"name": "pdf", "description": "Work with PDFs"},
        ),
        ("---\na: \"say \\\"hi\\\"\"\nb: 'it''s'\n---\n", {"a": 'say "hi"', "b": "it's"}),
        ("---\na: >\n  one\n  two\nb: |-\n  three\n---\n", {"a": "one two", "b": "three"}),
        ("---\na: one\n  two\n\n  three\n---\n", {"a": "one two three"}),
        ("---\na:\n  - x\n  - 'y'\nb: [p, q]\n---\n", {"a": "x\ny", "b": "p\nq"}),
        ("---\na:\n- x\n---\n", {"a": "x"}),
        ("---\na: b # comment\n# c: d\n---\n", {"a": "b"}),
        ("---\na: http://x:1/y\n---\n", {"a": "http://x:1/y"}),
        ("---\r\na: b\r\n---\r\n", {"a": "b"}),
        ("\ufeff---\na: b\n---\n", {"a": "b"}),
        ("---\na: b\n...\n", {"a": "b"}),
        ("---\na:\n---\n", {"a": ""}),
        ("---\n---\n", {}),
        ("---\na: b\n", {}),
        ("text\n---\na: b\n---\n", {}),
        ("", {}),
    ],
)
def test_front_matter(text: str, values: dict[str, str]) -> None:
    """The forms that skills and agents are written in are read; what never ends is none."""
    assert front_matter(text) == values


@given(st.text(alphabet="-ab:>|[]\"'# \n\t", max_size=120))
def test_no_front_matter_is_too_odd(text: str) -> None:
    """Whatever stands there is read without an error."""
    front_matter(f"---\n{text}\n---\n")


# -- counts ------------------------------------------------------------------------------------------


def test_counts_are_found_again(tmp_path: Path) -> None:
    """A count that was added is found by its content, in this process and in another one, and no other is."""
    add_counts(str(tmp_path), "o200k_base", {content_key(b"one"): 1, content_key(b"two"): 4_000_000_000})
    add_counts(str(tmp_path), "o200k_base", {content_key(b"three"): 0})
    known = Counts(str(tmp_path), "o200k_base")
    assert [known.get(content_key(text)) for text in (b"one", b"two", b"three", b"four")] == [
        1,
        4_000_000_000,
        0,
        None,
    ]
    assert Counts(str(tmp_path), "cl100k_base").get(content_key(b"one")) is None


@given(st.integers(0, 89), st.booleans())
def test_a_torn_line_is_no_count(tmp_path_factory: pytest.TempPathFactory, cut: int, again: bool) -> None:
    """Cut off anywhere, the counts that are whole are found, the others are missing, and none is wrong."""
    folder = str(tmp_path_factory.mktemp("c"))
    counts = {content_key(b"one"): 596, content_key(b"two"): 1234}
    add_counts(folder, "o200k_base", counts)
    path = Path(counts_path(folder, "o200k_base"))
    path.write_bytes(path.read_bytes()[:cut])
    if again:
        add_counts(folder, "o200k_base", {content_key(b"three"): 7})
    known = Counts(folder, "o200k_base")
    for key, count in counts.items():
        assert known.get(key) in (count, None)
    whole = cut >= 45 or (cut == 44 and again)  # the newline that it lacked is there again
    assert known.get(content_key(b"one")) == (596 if whole else None)
    assert known.get(content_key(b"three")) == (7 if again else None)


def test_what_is_wanted_is_taken_once(tmp_path: Path) -> None:
    """Names that were left come back once each, whatever they hold, and are gone then."""
    want(str(tmp_path), ["/a", "/b\nc"])
    want(str(tmp_path), ["/a", "/\udcff"])
    assert take_wanted(str(tmp_path)) == ["/a", "/b\nc", "/\udcff"]
    assert take_wanted(str(tmp_path)) == []


def test_all_of_an_event_is_by_one_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one content is not known, all are by the formula; a formula that was chosen is no miss."""
    add_counts(str(tmp_path), "o200k_base", {content_key(b"known"): 42})
    counts = KnownCounts(str(tmp_path))
    assert counts([b"known", b""]) == ([42, 0], "o200k_base")
    assert not counts.missed
    assert counts([b"known", b"new"])[1] == "script-estimate"
    assert counts.missed
    monkeypatch.setenv("MEMTALLY_TOKENIZER", "bytes/4")
    counts = KnownCounts(str(tmp_path))
    assert counts([b"known", b""]) == ([2, 0], "bytes/4")
    monkeypatch.setenv("MEMTALLY_TOKENIZER", "../../etc/passwd")
    assert KnownCounts(str(tmp_path))([b"known"])[1] == "script-estimate"


def test_a_large_file_is_estimated_by_its_head() -> None:
    """Of a file that is read in part the rest is taken to be like its beginning; unknown stays unknown."""
    listed = [
        Measured("a", "b", b"x" * 100, size=1000, injected=b"x" * 10),
        Measured("a", "b", b"again"),
        Measured("a", "c"),
    ]
    made, tokenizer = snapshots(listed, lambda texts: ([len(text) for text in texts], "t"))
    found = [
        (r.slug, r.file_bytes, r.file_tokens_estimate, r.injected_bytes, r.injected_tokens_estimate)
        for r in made
    ]
    assert (found, tokenizer) == ([("b", 1000, 1000, 10, 10), ("c", None, None, None, None)], "t")


# -- which file is which record ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/u/ws/CLAUDE.md", "instructions/CLAUDE.md"),
        ("/home/u/ws/a/AGENTS.md", "instructions/a/AGENTS.md"),
        ("/home/u/ws/GEMINI.md", "instructions/GEMINI.md"),
        ("/home/u/.claude/CLAUDE.md", "instructions/~/.claude/CLAUDE.md"),
        ("/home/u/.claude/rules/code-and-testing.md", "rule/~/code-and-testing"),
        ("/home/u/ws/.claude/rules/api/errors.md", "rule/api/errors"),
        ("/home/u/.agents/skills/find-bugs/SKILL.md", "skill/find-bugs"),
        ("/home/u/.codex/memories/MEMORY.md", "memory/MEMORY"),
        ("/home/u/.claude/projects/-home-u-ws/memory/topic-a.md", "memory/topic-a"),
        ("/home/u/ws/.serena/memories/core.md", "memory/core"),
        ("/home/u/ws/memory-bank/a.md", "memory/a"),
        ("/home/u/ws/README.md", None),
        ("/home/u/ws/.claude/skills/pdf/ref.md", None),
        ("/home/u/ws2/CLAUDE.md", None),
        ("/home/v/.claude/CLAUDE.md", None),
        ("CLAUDE.md", None),
        ("", None),
    ],
)
def test_records_of_another_machine(path: str, name: str | None) -> None:
    """Paths that are not of this machine are told by their names alone."""
    files = RecordFiles("/home/u/ws", "/home/u", Config(), "claude-code", here=False)
    found = files.find(path)
    assert (None if found is None else f"{found.kind}/{found.slug}") == name
    assert found is None or found.path is None  # nothing of it is measured here


def test_records_of_a_windows_machine() -> None:
    """Its paths are told in their own form, and called by ours."""
    files = RecordFiles("C:\\Users\\u\\ws", "C:\\Users\\u", Config(), "claude-code", here=False)
    found = files.find("C:\\Users\\u\\ws\\pkg\\CLAUDE.md")
    assert found is not None
    assert found.slug == "pkg/CLAUDE.md"
    assert files.relative("C:\\Users\\u\\.claude\\CLAUDE.md") == "~/.claude/CLAUDE.md"


# -- configuration -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tools = 1", "tools"),
        ("[tools]\na = 1", "which record"),
        ('[tools]\na = { kind = "memory" }', "which record"),
        ('[tools]\na = { kind = "Memory", argument = "x" }', "no kind"),
        ('[tools]\na = { kind = "memory", argument = "" }', "no text"),
        ('[tools]\nmcp__memtally__show = { kind = "memory", argument = "record" }', "figures and no record"),
        ('shell_reads = "yes"', "no truth value"),
    ],
)
def test_wrong_settings_of_hosts(tmp_path: Path, text: str, said: str) -> None:
    """A mapping that can be none, or a switch that is none, is named with its key."""
    from memtally.errors import ConfigError

    (tmp_path / ".memtally").mkdir()
    path = tmp_path / ".memtally" / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_config(path)


def test_a_cached_configuration_is_the_files(tmp_path: Path) -> None:
    """What is cached is what the file says now: a change, a replacement and damage of the cache are seen."""
    path = tmp_path / ".memtally" / "config.toml"
    path.parent.mkdir()
    for number, text in enumerate(
        ['preset = "yoi"', 'preset = "generic"', "seal_bytes = 5", "at = 2026-01-01"]
    ):
        path.write_text(text)
        if number == 3:
            from memtally.errors import ConfigError

            with pytest.raises(ConfigError, match="no such setting"):
                load_config(path, cached=True)
            continue
        for _ in range(2):
            assert load_config(path, cached=True) == load_config(path)
        cache = path.parent / "cache" / "config"
        for damage in (
            b"",
            b"{",
            b'{"of": [], "data": {}}',
            cache.read_bytes().replace(b'"data": {', b'"data": 7, "x": {'),
        ):
            cache.write_bytes(damage)
            assert load_config(path, cached=True) == load_config(path)
    replaced = path.with_name("new")
    replaced.write_text("seal_bytes = 6")
    time.sleep(0.01)
    replaced.replace(path)
    assert load_config(path, cached=True).seal_bytes == 6
    path.unlink()
    assert load_config(path, cached=True) == Config()
