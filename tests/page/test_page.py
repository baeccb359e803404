"""The page in a real browser: its figures, its ways of use, and that it asks nobody for anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from page_support import AXE, HERE, NOW, ROOT, Run, Watched, line, many

View = Callable[..., Watched]
PageOf = Callable[..., Path]


def number(text: str) -> int | None:
    """A figure as the page writes it."""
    return None if text == "-" else int(text.replace(",", "").strip("*~"))


def test_the_figures_are_those_of_the_json_report(
    memory: Path, page_of: PageOf, view: View, run: Run
) -> None:
    """Read back from the page, every record's figures equal the JSON report of the same log."""
    shown = {row[0]: row for row in view(page_of()).rows()}
    said = json.loads(run("report", "--json", "--now", NOW).stdout)["records"]
    assert len(said) == len(shown) == 7
    for record in said:
        row = shown[f"{record['kind']}/{record['slug']}"]
        assert number(row[1]) == record["use_count"]
        assert row[2].replace(" ", "T") == (record["last_used_at"] or "-")[:16]
        assert row[3].replace("\u00a0", " ") == (
            ", ".join(f"{k} {v}" for k, v in record["source_breakdown"].items()) or "-"
        )
        assert number(row[4]) == record["resident_exposure_count"]
        assert number(row[5]) == record["estimated_tokens_per_injection"]
        assert number(row[6]) == record["estimated_total_resident_exposure_tokens"]
        assert row[8] == record["status"]


def test_the_headline_is_what_the_log_adds_up_to(memory: Path, page_of: PageOf, view: View) -> None:
    """The figures at the top are the sums by hand: 6 uses of 3 records, 5 exposures, 2 x 100 + 2 x 40 tokens."""
    watched = view(page_of())
    cards = watched.page.eval_on_selector_all(
        "[data-figure]",
        "all => all.map(one => [one.dataset.figure, one.querySelector('strong').textContent, one.querySelector('span').textContent])",
    )
    assert {key: (value, beside) for key, value, beside in cards} == {
        "uses": ("6", "of 3 records, read explicitly"),
        "exposures": ("5", "of 2 records"),
        "tokens": ("280", "without 1 placing of unknown size"),
        "unread": ("4", "of 6 records that exist now"),
        "maintenance": ("1", "counted apart, in no use"),
    }
    assert "9 events (1 by maintenance) in 1 session, 2026-05-01 08:00 to 2026-05-29 23:30 UTC." in (
        watched.page.inner_text(".coverage")
    )
    watched.picture("light")


def test_sorting(memory: Path, page_of: PageOf, view: View) -> None:
    """A heading sorts by its column, once more the other way; what is not known comes last both ways."""
    watched = view(page_of())
    head = watched.page.locator("#table thead")
    head.get_by_role("button", name="Uses").click()
    assert watched.names()[:3] == ["decision/adopt-otlp", "decision/late", "request/gone"]
    assert head.locator("th", has_text="Uses").get_attribute("aria-sort") == "descending"
    head.get_by_role("button", name="Uses").click()
    assert watched.names()[-1] == "decision/adopt-otlp"
    assert head.locator("th", has_text="Uses").get_attribute("aria-sort") == "ascending"
    for _ in range(2):
        head.get_by_role("button", name="Last used").click()
        assert watched.names()[:3] in (
            ["decision/late", "decision/adopt-otlp", "request/gone"],
            ["request/gone", "decision/adopt-otlp", "decision/late"],
        )
    head.get_by_role("button", name="Record").click()
    assert watched.names() == sorted(watched.names())
    assert head.locator("[aria-sort]").count() == 1


def test_filtering_and_searching(memory: Path, page_of: PageOf, view: View) -> None:
    """Kind, state and words narrow the table, together, and the number of records is said."""
    watched = view(page_of())
    page = watched.page
    page.get_by_label("Search").fill("CLAUDE")
    assert watched.names() == ["instructions/CLAUDE.md"]
    assert page.inner_text("#count") == "1 of 7 records"
    page.get_by_label("Search").fill("adopt decision")
    assert watched.names() == ["decision/adopt-otlp"]
    page.get_by_label("Search").fill("")
    page.get_by_label("Kind").select_option("knowledge")
    assert sorted(watched.names()) == ["knowledge/policy", "knowledge/quiet"]
    show = page.locator("#which")
    show.select_option("placed")
    assert watched.names() == ["knowledge/policy"]
    page.get_by_label("Kind").select_option("")
    for state, names in {
        "read": ["decision/adopt-otlp", "decision/late", "request/gone"],
        "unread": ["instructions/CLAUDE.md", "knowledge/policy", "knowledge/quiet", "request/tidied"],
        "resident": ["instructions/CLAUDE.md"],
        "missing": ["request/gone"],
    }.items():
        show.select_option(state)
        assert sorted(watched.names()) == names, state
    page.get_by_label("Search").fill("no such record")
    assert watched.names() == []
    assert page.inner_text("#count") == "0 of 7 records"


def test_the_chart_over_time(memory: Path, page_of: PageOf, view: View) -> None:
    """Uses stand on their days by source, maintenance apart, in the chart and in the table beneath."""
    watched = view(page_of())
    assert watched.charted("#time-chart") == {
        "KnowledgeRef": {"2026-05-01": 1},
        "MemoryRead": {"2026-05-01": 1, "2026-05-02": 2, "2026-05-29": 2},
    }
    page = watched.page
    page.locator("#time-chart summary").click()
    assert page.inner_text("#time-chart tbody").split() == (
        ["2026-05-01", "1", "1", "2026-05-02", "0", "2", "2026-05-29", "0", "2"]
    )
    page.locator("#time-sort").select_option("exposures")
    assert watched.charted("#time-chart") == {
        "ResidentInjection": {"2026-05-01": 2, "2026-05-02": 2, "2026-05-29": 1}
    }
    page.locator("#time-sort").select_option("maintenance")
    assert watched.charted("#time-chart") == {"MemoryRead": {"2026-05-03": 1}}


def test_the_days_are_those_of_the_zone(memory: Path, page_of: PageOf, view: View) -> None:
    """In Berlin the read of 23:30 UTC is of the next day, and no total changes."""
    watched = view(page_of("report", "--timezone", "Europe/Berlin"))
    charted = watched.charted("#time-chart")
    assert charted["MemoryRead"] == {"2026-05-01": 1, "2026-05-02": 2, "2026-05-29": 1, "2026-05-30": 1}
    assert sum(sum(days.values()) for days in charted.values()) == 6
    assert ["decision/late", "1", "2026-05-30 01:30"] in [row[:3] for row in watched.rows()]


@pytest.mark.parametrize(
    ("days", "unit", "bars"),
    [
        (["2026-01-01", "2026-04-02"], "day", 92),
        (["2026-01-01", "2026-04-03"], "week", 14),  # Monday 2025-12-29 to Monday 2026-03-30
        (["2024-02-29", "2026-05-01"], "month", 28),
        (["1970-01-01", "2026-05-01"], "year", 57),
    ],
)
def test_bars_for_any_length_of_time(
    workspace: Path, page_of: PageOf, view: View, days: list[str], unit: str, bars: int
) -> None:
    """Days, weeks, months or years, by the time there is, and every one of them has its place."""
    (workspace / ".memtally").mkdir()
    log = [line(n, f"{day}T12:00:00Z", [("decision", "a", 1)]) for n, day in enumerate(days)]
    (workspace / ".memtally" / "usage.jsonl").write_text("".join(log), "utf-8")
    watched = view(page_of())
    chart = "Chart.getChart(document.querySelector('#time-chart canvas'))"
    assert watched.page.evaluate(f"{chart}.data.labels.length") == bars
    assert watched.page.evaluate(f"{chart}.options.scales.y.title.text") == f"uses, each bar a {unit}"
    assert sum(watched.charted("#time-chart")["MemoryRead"].values()) == 2


def test_a_records_own_timeline(memory: Path, page_of: PageOf, view: View) -> None:
    """A click on a record opens its figures and its days; Escape closes it, and the focus is where it was."""
    watched = view(page_of())
    page = watched.page
    button = page.locator("#table").get_by_role("button", name="decision/adopt-otlp")
    button.click()
    assert page.locator("#record").is_visible()
    assert watched.charted("#record-time-chart") == {
        "KnowledgeRef": {"2026-05-01": 1},
        "MemoryRead": {"2026-05-01": 1, "2026-05-02": 1, "2026-05-29": 1},
    }
    assert page.inner_text("#record-evidence") == (
        "read 4 times, last on 2026-05-29 (KnowledgeRef 1, MemoryRead 3)"
    )
    facts = dict(
        page.eval_on_selector_all(
            "#record .facts > div", "all => all.map(one => [...one.children].map(c => c.textContent))"
        )
    )
    assert (facts["uses"], facts["first used"], facts["file"]) == ("4", "2026-05-01 09:00", "present")
    watched.picture("record", whole=False)
    page.keyboard.press("Escape")
    assert not page.locator("#record").is_visible()
    assert page.evaluate("document.activeElement.textContent") == "decision/adopt-otlp"
    page.locator("#table").get_by_role("button", name="instructions/CLAUDE.md").click()
    assert watched.charted("#record-time-chart") == {
        "ResidentInjection (exposure)": {"2026-05-01": 1, "2026-05-02": 1, "2026-05-29": 1}
    }


def test_by_keyboard_alone(memory: Path, page_of: PageOf, view: View) -> None:
    """Tab reaches the search, the headings and each record in the order of the page; Enter works them."""
    watched = view(page_of())
    page = watched.page
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.id || document.activeElement.textContent.trim().slice(0, 30)"
            )
        )
        if reached[-1] == "decision/late":
            break
    wanted = [
        "Skip to the figures",
        "theme",
        "Over time",
        "Records",
        "time-sort",
        "search",
        "kind",
        "which",
        "table-box",
        "Record",
        "decision/adopt-otlp",
        "decision/late",
    ]
    assert [name for name in reached if name in wanted] == wanted
    page.keyboard.press("Enter")
    assert page.inner_text("#record-name") == "decision/late"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "decision/late"


def test_the_cost_of_residents(memory: Path, page_of: PageOf, view: View) -> None:
    """Records that are placed stand by uses and cost; those without a use stand out; a click shows one."""
    watched = view(page_of())
    page = watched.page
    sets = page.evaluate(
        "Chart.getChart(document.querySelector('#cost-chart canvas')).data.datasets.map("
        "set => [set.label, set.pointStyle, set.data.map(p => [p.record.name, p.y])])"
    )
    assert sets == [
        [
            "always on or placed, no use here",
            "triangle",
            [["knowledge/policy", 200], ["instructions/CLAUDE.md", 80]],
        ],
        ["always on or placed, used", "circle", []],
    ]
    x, y = page.evaluate(
        "(() => { const c = Chart.getChart(document.querySelector('#cost-chart canvas')); const b = c.canvas.getBoundingClientRect();"
        " const p = c.getDatasetMeta(0).data[0]; scrollTo(0, b.top); const n = c.canvas.getBoundingClientRect(); return [n.left + p.x, n.top + p.y]; })()"
    )
    page.mouse.click(x, y)
    assert page.inner_text("#record-name") == "knowledge/policy"


def test_what_was_never_read(memory: Path, page_of: PageOf, view: View) -> None:
    """What exists without a use is listed with what else is known and how far the coverage goes."""
    watched = view(page_of())
    rows = watched.page.eval_on_selector_all(
        "#unread-table tbody tr",
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))",
    )
    support = "reads are recorded since 2026-05-01; how long the record has been there is not known"
    assert rows == [
        ["instructions/CLAUDE.md", "unknown", "always on, placed 3x", support],
        ["knowledge/policy", "unknown", "always on, placed 2x", support],
        ["knowledge/quiet", "unknown", "-", support],
        ["request/tidied", "unknown", "maintenance only", support],
    ]
    watched.page.locator("#unread-table").get_by_role("button", name="knowledge/quiet").click()
    assert watched.page.inner_text("#record-time-chart") == "No events in what the log covers."


def test_dark_and_light(memory: Path, page_of: PageOf, view: View) -> None:
    """The page follows the system's colours, the choice at the top overrules it, and charts go along."""
    background = "getComputedStyle(document.body).backgroundColor"
    bar = "Chart.getChart(document.querySelector('#time-chart canvas')).data.datasets[0].backgroundColor"
    watched = view(page_of(), color_scheme="dark")
    dark, dark_bar = watched.page.evaluate(background), watched.page.evaluate(bar)
    assert sum(map(int, dark.removeprefix("rgb(").removesuffix(")").split(","))) < 150
    watched.picture("dark")
    watched.page.get_by_label("Colours").select_option("light")
    assert watched.page.evaluate(background) == "rgb(255, 255, 255)"
    assert watched.page.evaluate(bar) != dark_bar
    watched.page.get_by_label("Colours").select_option("")
    assert (watched.page.evaluate(background), watched.page.evaluate(bar)) == (dark, dark_bar)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("what", ["report", "open record", "review", "show", "empty"])
def test_no_fault_of_accessibility(
    memory: Path, page_of: PageOf, view: View, workspace: Path, scheme: str, what: str
) -> None:
    """The accessibility checker axe finds no fault, serious or not, in either colours."""
    if what == "empty":
        (workspace / ".memtally" / "usage.jsonl").unlink()
    arguments = {"review": ["review"], "show": ["show", "decision/adopt-otlp"]}.get(what, ["report"])
    watched = view(page_of(*arguments), color_scheme=scheme, bypass_csp=True)
    for part in ("", "#record "):
        if part and what == "open record":
            watched.page.locator("#table").get_by_role("button", name="decision/adopt-otlp").click()
        for summary in watched.page.locator(f"{part}summary:visible").all():
            summary.click()
    watched.page.evaluate(AXE.read_text("utf-8"))
    found = watched.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [(v["id"], v["impact"], [n["html"][:120] for n in v["nodes"]]) for v in found["violations"]] == []
    assert len(found["passes"]) > 15


HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "{{7*7}}{% raw %}",
    "javascript:alert(3)",
    "<!--<script>",
    "\u202egnihtyna\u2066",
    "__proto__",
    "constructor",
    "\ud800half",
    "a" * 5_000,
    "x\u0000y\u001b[31m",
)


def test_hostile_names_are_inert(workspace: Path, page_of: PageOf, view: View) -> None:
    """Names that would be markup, scripts or controls stand on the page as text, each its own record."""
    (workspace / ".memtally").mkdir()
    day = "2026-05-01T12:00:00Z"
    log = [line(n, day, [("decision", slug, 1)], slug[:200]) for n, slug in enumerate(HOSTILE)]
    log += [line(50 + n, day, [("decision", slug, 1)], exposure=True) for n, slug in enumerate(HOSTILE)]
    path = workspace / ".memtally" / "usage.jsonl"
    path.write_bytes("".join(log).encode("utf-8", "surrogatepass").replace(b"\xed\xa0\x80", b"\\ud800"))
    watched = view(page_of())
    page = watched.page
    names = watched.names()
    assert len(names) == len(set(names)) == len(HOSTILE)
    assert {f"decision/{slug}" for slug in HOSTILE[:5]} <= set(names)
    assert {"decision/\\u202egnihtyna\\u2066", "decision/\\ud800half", "decision/x\\x00y\\x1b[31m"} <= set(
        names
    )
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3
    for name in names:
        page.locator("#table").get_by_role("button", name=name, exact=True).click()
        assert page.text_content("#record-name") == name
        page.keyboard.press("Escape")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    watched.picture("hostile")


def test_five_thousand_records(workspace: Path, page_of: PageOf, view: View) -> None:
    """Of 5,000 records some stand in the table, all are found, and the last can be shown."""
    many(workspace, 5_000)
    watched = view(page_of())
    page = watched.page
    # read n % 7 times: 714 rounds of 0 + 1 + ... + 6, then records 4,998 (0) and 4,999 (1); never: each 7th
    # without a placing is in no event, so that the log does not know it: n % 21 == 0, 239 of them
    assert page.locator("[data-figure=uses] strong").inner_text() == f"{714 * 21 + 1:,}"
    assert page.inner_text("#count") == "4,761 of 4,761 records, 200 shown"
    assert len(watched.rows()) == 200
    page.get_by_label("Search").fill("r4999")
    assert watched.rows()[0][:2] == ["request/r4999", "1"]
    page.get_by_label("Search").fill("")
    page.locator("#table thead").get_by_role("button", name="Tokens total").click()
    # placed twice are n % 3 == 2, the greatest of them 4,997; 4,999 is placed once
    assert watched.rows()[0][0] == "knowledge/r4997"
    assert watched.rows()[0][6] == f"{2 * 4_997:,}"
    page.get_by_role("button", name="Show more").click()
    assert len(watched.rows()) == 400
    page.get_by_role("button", name="Show all 4,761").click()
    assert len(watched.rows()) == 4_761
    assert page.locator("#more").is_hidden()


def test_a_narrow_window(memory: Path, page_of: PageOf, view: View) -> None:
    """On a phone nothing but the tables themselves scrolls sideways."""
    watched = view(page_of(), viewport={"width": 360, "height": 740})
    assert watched.page.evaluate("document.documentElement.scrollWidth") == 360
    watched.picture("narrow")


def test_on_paper(memory: Path, page_of: PageOf, view: View) -> None:
    """Printed out of dark colours, the page is light, without controls, and dark again afterwards."""
    watched = view(page_of(), color_scheme="dark")
    page = watched.page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#search").is_visible()
    assert page.locator("#table").is_visible()
    watched.picture("paper")
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") is None


def test_without_scripts(memory: Path, page_of: PageOf, view: View) -> None:
    """Without JavaScript the headline, the coverage, the unread records and the review are there all the same."""
    watched = view(page_of(), java_script_enabled=False)
    text = watched.page.locator("main").text_content() or ""
    for part in (
        "of 3 records, read explicitly",
        "9 events",
        "knowledge/quiet",
        "read 4 times, last on 2026-05-29",
    ):
        assert part in text, part


def test_review_and_one_record_as_pages(memory: Path, page_of: PageOf, view: View) -> None:
    """The review has its three lists; one record's page its figures and its timeline."""
    watched = view(page_of("review"))
    items = watched.page.eval_on_selector_all(
        "section ol",
        "all => all.map(one => [...one.children].map(item => item.textContent.trim().replace(/\\s+/g, ' ')))",
    )
    assert (
        items[0]
        == items[1]
        == [
            "decision/adopt-otlp read 4 times, last on 2026-05-29 (KnowledgeRef 1, MemoryRead 3)",
            "decision/late read once, last on 2026-05-29 (MemoryRead 1)",
            "request/gone read once, last on 2026-05-02 (MemoryRead 1); no file of it in the inventory",
        ]
    )
    assert [item.split()[0] for item in items[2]] == ["knowledge/policy", "instructions/CLAUDE.md"]
    watched = view(page_of("show", "decision/adopt-otlp"))
    assert watched.page.inner_text("h1").startswith("decision/adopt-otlp")
    assert watched.charted("#single")["MemoryRead"] == {"2026-05-01": 1, "2026-05-02": 1, "2026-05-29": 1}


def test_the_library_is_the_packages_own() -> None:
    """The chart library in the package is the file that its own package ships, byte for byte."""
    vendored = ROOT / "src" / "memtally" / "report" / "formats" / "html" / "vendor"
    package = HERE / "node_modules" / "chart.js"
    assert (vendored / "chart.umd.min.js").read_bytes() == (
        package / "dist" / "chart.umd.min.js"
    ).read_bytes()
    assert (vendored / "chart.LICENSE.md").read_bytes() == (package / "LICENSE.md").read_bytes()
