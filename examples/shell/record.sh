#!/bin/sh
# Record from a shell: a script that puts a record into an agent's context says so. Recording must not stop it.
#
#     read_record decision adopt-otlp decisions/adopt-otlp.md | agent --context -
set -u

MEMTALLY="${MEMTALLY:-memtally}"

# kind, slug, file: show the file, and record that it was read. A file that is not there is no read.
read_record() {
    cat "$3" || return
    "$MEMTALLY" add use "$1/$2" --file "$3" --host shell --session "${SESSION:-}" 2>/dev/null || :
}

# Many at once, and in one append: a line of JSON each. "id" is the host's own id; it counts once.
placed() {
    for slug in "$@"; do
        printf '{"kind":"rule","slug":"%s","session_id":"%s","id":"%s:%s"}\n' "$slug" "$SESSION" "$SESSION" "$slug"
    done | "$MEMTALLY" add exposure 2>/dev/null || :
}

SESSION="${SESSION:-shell-$$}"
read_record decision adopt-otlp "${1:-decisions/adopt-otlp.md}"
placed style tests
placed style tests # the same ids again: nothing is added to the figures
