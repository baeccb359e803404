"""Which files a shell command has shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtally.hosts._shell import files_read

WHOLE, PART = True, False


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("cat a.md", {"/w/a.md": WHOLE}),
        ("cat a.md b.md", {"/w/a.md": WHOLE, "/w/b.md": WHOLE}),
        ("cat /x/a.md", {"/x/a.md": WHOLE}),
        ("cat ~/a.md", {"/h/a.md": WHOLE}),
        ("cat ../a.md", {"/a.md": WHOLE}),
        ("cat 'my file.md' \"b c.md\"", {"/w/my file.md": WHOLE, "/w/b c.md": WHOLE}),
        ("cat x#y.md", {"/w/x#y.md": WHOLE}),
        ("cat -n a.md", {"/w/a.md": WHOLE}),
        ("cat -- -a.md", {"/w/-a.md": WHOLE}),
        ("nl -ba a.md", {"/w/a.md": WHOLE}),
        ("nl -b a a.md", {"/w/a.md": WHOLE}),
        ("less a.md", {"/w/a.md": WHOLE}),
        ("bat a.md", {"/w/a.md": WHOLE}),
        ("bat -r 1:3 a.md", {"/w/a.md": PART}),
        ("sed -n '1,20p' a.md", {"/w/a.md": PART}),
        ("sed -n -e 1p a.md", {"/w/a.md": PART}),
        ("head -n 5 a.md", {"/w/a.md": PART}),
        ("head -5 a.md", {"/w/a.md": PART}),
        ("tail -n +3 a.md 2>/dev/null", {"/w/a.md": PART}),
        ("cat a.md | head -3", {"/w/a.md": PART}),
        ("cat a.md | sed -n 2p | tail -1", {"/w/a.md": PART}),
        ("cat a.md 2>&1", {"/w/a.md": WHOLE}),
        ("cat < a.md", {"/w/a.md": WHOLE}),
        ("cat a.md; cat a.md | head -1", {"/w/a.md": WHOLE}),
        ("cat a.md && echo --- && cat b.md", {"/w/a.md": WHOLE, "/w/b.md": WHOLE}),
        ("cat a.md\ncat b.md", {"/w/a.md": WHOLE, "/w/b.md": WHOLE}),
        ("cat \\\n  a.md", {"/w/a.md": WHOLE}),
        ("cd sub && cat a.md", {"/w/sub/a.md": WHOLE}),
        ("cd /x; cat a.md", {"/x/a.md": WHOLE}),
        ("bash -lc 'cat a.md'", {"/w/a.md": WHOLE}),
        ("sudo cat a.md", {"/w/a.md": WHOLE}),
        ("LANG=C cat a.md", {"/w/a.md": WHOLE}),
        ("(cat a.md)", {"/w/a.md": WHOLE}),
        ("cat a.md || true", {"/w/a.md": WHOLE}),
        ("if true; then cat a.md; fi", {"/w/a.md": WHOLE}),
        ("cat > a.md <<'E'\ncat b.md\nE\ncat c.md", {"/w/c.md": WHOLE}),
        # searches, counts, programs and other files get it, not the context
        ("grep -n x a.md", {}),
        ("rg x a.md", {}),
        ("wc -l a.md", {}),
        ("find . -name a.md", {}),
        ("git diff a.md", {}),
        ("git show HEAD:a.md", {}),
        ("cat a.md | grep x", {}),
        ("cat a.md | wc -l", {}),
        ("cat a.md | python3 -", {}),
        ("cat a.md > b.md", {}),
        ("cat a.md >> b.md", {}),
        ("cat a.md &> b.md", {}),
        ("cat a.md 1> b.md", {}),
        ("cat a.md | tee b.md > c.md", {}),
        ("sed -i s/a/b/ a.md", {}),
        ("sed --in-place=.bak s/a/b/ a.md", {}),
        ("x=$(cat a.md)", {}),
        ("./run.sh a.md", {}),
        ("ssh host cat a.md", {}),
        ("# cat a.md", {}),
        ("echo 'cat a.md'", {}),
        ("for f in a b; do cat $f; done", {}),
        ("cat *.md", {}),
        ('cat "unclosed', {}),
        ("python3 - <<PY\ncat a.md\nPY", {}),
        ("", {}),
    ],
)
def test_only_what_came_to_the_output_was_shown(command: str, shown: dict[str, bool]) -> None:
    """Readers show their files, whole or in part; what goes elsewhere, or is searched, is not shown."""
    assert dict(files_read(command, "/w", "/h")) == shown


@given(st.text(alphabet="cat sedhn$()<>|&;'\"\\\n/~.-#*`{}md EOF", max_size=200))
def test_no_command_is_too_odd(command: str) -> None:
    """Whatever stands there, it is looked at without an error, and each file is named once."""
    found = files_read(command, "/w", "/h")
    assert len(found) == len({path for path, _ in found})
