"""Names and places inside ``.memtally/``. Standard library only, and little of it: hooks import this."""

from __future__ import annotations

import os

from memtally.errors import is_the_systems

__all__ = [
    "DIRECTORY",
    "LOG_FILE",
    "ensure_directory",
    "is_segment",
    "led_out",
    "next_segment",
    "segments",
    "within",
]

DIRECTORY = ".memtally"
LOG_FILE = "usage.jsonl"

_GITIGNORE = """\
# The usage log and its cache stay on this machine; the configuration is shared.
*
!.gitignore
!config.toml
"""


def ensure_directory(directory: str) -> None:
    """Create ``.memtally/`` (mode 0700) with its ``.gitignore``, unless it is there.

    Raises ``OSError`` when it cannot be created.
    """
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = os.open(os.path.join(directory, ".gitignore"), flags, 0o644)
    except OSError as error:
        if not is_the_systems(error):
            raise
        return  # a log without its .gitignore is better than no log
    try:
        os.write(descriptor, _GITIGNORE.encode())
    finally:
        os.close(descriptor)


def segments(directory: str) -> list[str]:
    """The files of the log in a ``.memtally`` folder: sealed and imported ones by name, then the live one."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    workspace = os.path.dirname(os.path.abspath(directory))
    names = [
        name
        for name in names
        if is_segment(name) and within(os.path.join(directory, name), workspace)  # no link leads out
    ]
    names.sort(key=lambda name: (name == LOG_FILE, len(name), name))  # usage-10 after usage-9
    return [os.path.join(directory, name) for name in names]


def is_segment(name: str) -> bool:
    """Whether a file of this name is part of the log: the live one, sealed or imported."""
    return name == LOG_FILE or (name.startswith("usage-") and name.endswith(".jsonl"))


def next_segment(directory: str) -> str:
    """The path that the live log gets when it is sealed: ``usage-NUMBER.jsonl``, one above the highest."""
    middles = [name[6:-6] for name in os.listdir(directory) if name != LOG_FILE and is_segment(name)]
    number = 1 + max((int(middle) for middle in middles if middle.isdecimal()), default=0)
    return os.path.join(directory, f"usage-{number}.jsonl")


def led_out(path: str, folder: str) -> bool:
    """Whether a path that begins in a folder, under whatever name, is led out of it by a link."""
    if within(path, folder):
        return False
    above = os.path.abspath(path)
    while (parent := os.path.dirname(above)) != above:
        above = parent
        if within(above, folder):
            return True
    return False


def within(path: str, folder: str) -> bool:
    """Whether a path, all symbolic links resolved, lies in a folder (or is it)."""
    real, root = os.path.realpath(path), os.path.realpath(folder)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)
