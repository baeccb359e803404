"""``#slug`` and ``/workflow``: what is a reference and what only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtally import Invocation, find_references, parse_invocation

KNOWN = {"retry-policy", "retry", "api/errors", "設計", "caf\u00e9", "fff", "6699CC", "123", "v1.2", "Foo"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see #retry-policy", ["retry-policy"]),
        ("#retry-policy at the start", ["retry-policy"]),
        ("(#retry), #retry-policy!", ["retry", "retry-policy"]),
        ("#retry. New sentence", ["retry"]),
        ("twice #retry and #retry", ["retry"]),
        ("#api/errors and #api", ["api/errors"]),
        ("#v1.2 released", ["v1.2"]),
        ("日本語の#設計を読む", []),  # exact: the word goes on in the slug's own script
        ("日本語の #設計、次", ["設計"]),
        ("英語の#retryを読む", ["retry"]),
        ("#cafe\u0301 decomposed", ["caf\u00e9"]),
        ("#Foo not #foo", ["Foo"]),
        ("#retry-policies", []),
        ("#retrying", []),
        ("#retry_two #retry-2", []),
        ("#retry.md and #retry/x", []),
        ("#unknown", []),
        ("# retry", []),
        ("## retry", []),
        ("##retry", []),
        ("a#retry", []),
        ("file.md#retry", []),
        ("docs/#retry", []),
        ("https://host/page#retry", []),
        ("https://host/#retry and #retry", ["retry"]),
        ("[text](page#retry)", []),
        ("[text](#retry)", []),
        ("www.host/#retry", []),
        ("`#retry` in code", []),
        ("``a ` #retry`` in code", []),
        ("`open #retry", ["retry"]),
        ("```\n#retry\n```\n", []),
        ("```sh\n#retry\n```\n#retry-policy", ["retry-policy"]),
        ("~~~\n#retry\n```\n#retry\n~~~", []),
        ("```\n#retry never closed", []),
        ("```x``` then #retry", ["retry"]),
        ("1. ```\n   #retry\n   ```\n\n#v1.2", ["v1.2"]),
        ("- ```\n  #retry\n  ```\n\nread #v1.2", ["v1.2"]),
        ("> ```\n> #retry\n> ```\n> #v1.2", ["v1.2"]),
        ("a ` key\n\n#retry\n\nThen ` again", ["retry"]),
        ("color: #fff; #6699CC", []),
        ("fixes #123", []),
        ("&#123; &#retry", []),
        ("#", []),
        ("", []),
        ("#../../etc/passwd", []),
        ("a\n#retry\nb", ["retry"]),
    ],
)
def test_references(text: str, found: list[str]) -> None:
    """Exact known slugs outside code, URLs, headings, colours and numbers, each once, in order."""
    assert list(find_references(text, KNOWN)) == found


@given(st.text(alphabet="#`~ \n/aretyr-policy.設計", max_size=80))
def test_only_known_slugs_are_ever_found(text: str) -> None:
    """Whatever the text, what is found is known and stands in it after a sign."""
    for slug in find_references(text, KNOWN):
        assert slug in KNOWN
        assert f"#{slug}" in text


def test_a_hostile_text_takes_linear_time() -> None:
    """A long text of ticks, fences and signs is done in no time worth measuring."""
    assert find_references("`#" * 100_000 + "\n```\n" * 20_000, KNOWN) == ()
    assert find_references("``` `` ` " * 50_000, KNOWN) == ()
    assert find_references("a" * 300_000, KNOWN) == ()
    assert find_references("](" * 100_000, KNOWN) == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/deploy", Invocation("deploy", "")),
        ("/deploy staging now ", Invocation("deploy", "staging now")),
        ("/deploy\nstaging", Invocation("deploy", "staging")),
        ("/plugin:name x", Invocation("plugin:name", "x")),
        ("/login page broken", Invocation("login", "page broken")),
        ("see /deploy", None),
        (" /deploy", None),
        ("/usr/bin/env", None),
        ("/tmp", None),
        ("/deploy/now", None),
        ("/deploys", None),
        ("/deploy.", None),
        ("//deploy", None),
        ("/ deploy", None),
        ("/", None),
        ("", None),
        ("deploy", None),
    ],
)
def test_invocations(text: str, found: Invocation | None) -> None:
    """A registered name, whole, at the very start; paths are no commands."""
    assert parse_invocation(text, {"deploy", "plugin:name", "login"}) == found
