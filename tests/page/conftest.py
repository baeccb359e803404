"""What the tests of the page share: a real browser, pages out of the real command, and everything watched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from page_support import NOW, PICTURES, Run, Watched, line
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or whichever is here."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert path is not None, "no Chromium here: tests/page/install-chromium"
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir()
    with sync_playwright() as playwright:
        # the sandbox does not work for root, nor in most containers
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def view(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Opens a file in the browser; at the end nothing may have been complained about, or asked for."""
    opened: list[Watched] = []

    def show(path: Path, **context: Any) -> Watched:
        page = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context}).new_page()
        opened.append(Watched(page))
        page.goto(path.as_uri())
        return opened[-1]

    yield show
    for watched in opened:
        watched.page.context.close()
    assert [one for watched in opened for one in watched.complaints] == []


@pytest.fixture
def memory(workspace: Path, run: Run) -> Path:
    """A workspace with five records that exist, and a log with figures to be worked out by hand.

    decision/adopt-otlp: read on 2026-05-01 (twice), 05-02, 05-29; decision/late: 05-29 23:30 UTC;
    knowledge/policy: placed twice with 100 tokens; CLAUDE.md: placed twice with 40, once of unknown size;
    request/gone: read on 05-02, no file; request/tidied: by maintenance only; knowledge/quiet: nothing.
    """
    for name in (
        "decisions/adopt-otlp",
        "decisions/late",
        "knowledge/policy",
        "knowledge/quiet",
        "requests/tidied",
    ):
        path = workspace / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text("# a record\n", "utf-8")
    (workspace / "CLAUDE.md").write_text("# house rules\n", "utf-8")
    assert run("init", "--preset", "generic").returncode == 0
    otlp, house, policy = (
        ("decision", "adopt-otlp", 10),
        ("instructions", "CLAUDE.md", 40),
        ("knowledge", "policy", 100),
    )
    log = [
        line(1, "2026-05-01T08:00:00Z", [house, policy], exposure=True),
        line(2, "2026-05-01T09:00:00Z", [otlp]),
        line(3, "2026-05-01T10:00:00Z", [otlp], "KnowledgeRef"),
        line(4, "2026-05-02T08:00:00Z", [house, policy], exposure=True),
        line(5, "2026-05-02T09:00:00Z", [otlp, ("request", "gone", 5)]),
        line(6, "2026-05-03T09:00:00Z", [("request", "tidied", 5)], actor="maintenance"),
        line(7, "2026-05-29T09:00:00Z", [otlp]),
        line(8, "2026-05-29T10:00:00Z", [("instructions", "CLAUDE.md", None)], exposure=True),
        line(9, "2026-05-29T23:30:00Z", [("decision", "late", 7)]),
    ]
    (workspace / ".memtally" / "usage.jsonl").write_text("".join(log), "utf-8")
    return workspace


@pytest.fixture
def page_of(run: Run, workspace: Path) -> Callable[..., Path]:
    """Has the command write a page; its file."""

    def write(*arguments: str) -> Path:
        path = workspace / "page.html"
        done = run(*(arguments or ("report",)), "--format", "html", "--now", NOW, "--output", str(path))
        assert done.returncode == 0, done.stderr
        assert done.stdout == done.stderr == ""
        return path

    return write
