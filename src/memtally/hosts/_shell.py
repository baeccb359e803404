"""Which files a shell command has shown whole or in part: ``cat``, ``sed -n``, ``head`` and their like.

A lower confidence than a tool that reads: what is not certain to have come to the output is left out. A
search shows lines and reads no record; a file that goes into a program, a count or another file is not shown.
"""

from __future__ import annotations

import os
import re
import shlex

__all__ = ["files_read"]

_WHOLE = {"cat", "less", "more", "nl", "bat", "batcat"}
_PART = {"sed", "head", "tail"}
_PASS_ON = {
    "cat",
    "nl",
    "sed",
    "head",
    "tail",
    "less",
    "more",
    "bat",
    "batcat",
    "tee",
    "fold",
    "tr",
    "expand",
}
"""Behind a pipe these show the text that they are given; a search or a count does not."""

_TAKES_VALUE = {
    "bat": ["-r", "-l", "-H", "--line-range", "--language", "--style", "--theme", "--paging", "--color"],
    "head": ["-n", "-c"],
    "nl": ["-b", "-d", "-f", "-h", "-i", "-l", "-n", "-s", "-v", "-w"],
    "sed": ["-e", "-f", "-l", "--expression", "--file"],
    "tail": ["-n", "-c", "-s"],
}
_TAKES_VALUE["batcat"] = _TAKES_VALUE["bat"]
_BEFORE = {"do", "then", "else", "{", "!", "command", "sudo", "time", "builtin", "exec", "nohup"}
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_MOST_CHARACTERS = 262_144
_DEEPEST = 3


def files_read(
    command: str, folder: str, home: str | None = None, *, _depth: int = 0
) -> list[tuple[str, bool]]:
    """The files that a command has shown, each once, and whether as a whole.

    ``folder``: where it was run; ``home``: what ``~`` stands for, that of this machine by default.
    """
    if len(command) > _MOST_CHARACTERS or _depth > _DEEPEST:
        return []
    found: dict[str, bool] = {}
    for pipeline in _pipelines(_without_heredocs(command)):
        first, *behind = pipeline
        words = _command_words(first.words)
        if not words:
            continue
        name = os.path.basename(words[0])
        if name == "cd":
            folder = _path(words[1], folder, home) if len(words) == 2 else folder
            continue
        if name in ("bash", "sh", "zsh") and len(words) >= 3 and re.fullmatch(r"-[a-z]*c", words[1]):
            if not behind:
                for path, whole in files_read(words[2], folder, home, _depth=_depth + 1):
                    found[path] = found.get(path, False) or whole
            continue
        if name not in _WHOLE | _PART or any(part.redirected for part in pipeline):
            continue
        if not all(part.words and os.path.basename(part.words[0]) in _PASS_ON for part in behind):
            continue
        operands, ranged = _operands(name, words[1:])
        whole = name in _WHOLE and not behind and not ranged
        for operand in [*operands, *first.inputs]:
            if not set(operand) & set("*?[$`") and operand != "-":
                path = _path(operand, folder, home)
                found[path] = found.get(path, False) or whole
    return list(found.items())


class _Command:
    """One simple command of a pipeline: its words, the files it is given as input, whether its output goes
    into a file.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.inputs: list[str] = []
        self.redirected = False


def _pipelines(command: str) -> list[list[_Command]]:
    lexer = shlex.shlex(command.replace("\\\n", " "), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    lexer.whitespace_split = True
    try:
        tokens = list(lexer)
    except ValueError:  # a quote that is not closed
        return []
    made: list[list[_Command]] = [[_Command()]]
    redirect = ""
    inside = 0  # how deep in $(...), whose output goes into a word
    for token in tokens:
        current = made[-1][-1]
        if inside or ("(" in token and current.words and current.words[-1].endswith("$")):
            inside += 0 if token.strip("();<>|&\n") else token.count("(") - token.count(")")
        elif token.strip("();<>|&\n"):
            if redirect:
                if redirect == "<":
                    current.inputs.append(token)
                redirect = ""
            elif token.startswith("#") and not current.words:
                current.words = ["#"]
            else:
                current.words.append(token)
        elif set(token) & set("<>"):
            redirect = token
            if ">" in token and not _only_errors(current, token):
                current.redirected = True
        elif token in ("|", "|&"):
            made[-1].append(_Command())
        else:
            made.append([_Command()])
            redirect = ""
    return [pipeline for pipeline in made if any(part.words for part in pipeline)]


def _only_errors(command: _Command, token: str) -> bool:
    """Whether a redirection is of another stream than the output: ``2>file``, ``2>&1``."""
    if token.startswith("&"):
        return False
    if command.words and command.words[-1].isdecimal():
        return command.words.pop() != "1"
    return token == ">&"  # to another stream


def _command_words(words: list[str]) -> list[str]:
    """The words of a command from its name on."""
    at = 0
    while at < len(words) and (words[at] in _BEFORE or re.match(r"[A-Za-z_][A-Za-z0-9_]*=", words[at])):
        at += 1
    return words[at:]


def _operands(name: str, words: list[str]) -> tuple[list[str], bool]:
    """The files among a command's words, and whether an option asks for a part of them."""
    operands: list[str] = []
    script_given = ranged = skip = only_operands = False
    for word in words:
        if skip:
            skip = False
        elif word == "--" and not only_operands:
            only_operands = True
        elif len(word) > 1 and word.startswith("-") and not only_operands:
            if name == "sed":
                if word.startswith("--in-place") or re.match(r"-[a-zA-Z]*i", word):
                    return [], False  # it writes
                script_given = script_given or word.startswith(("-e", "-f", "--expression", "--file"))
            skip = word in _TAKES_VALUE.get(name, ())
            ranged = ranged or word.startswith(("-r", "--line-range"))
        else:
            operands.append(word)
    if name == "sed" and not script_given:
        operands = operands[1:]
    return operands, ranged and name in ("bat", "batcat")


def _path(word: str, folder: str, home: str | None) -> str:
    if word == "~" or word.startswith("~/"):
        return os.path.normpath((os.path.expanduser("~") if home is None else home) + word[1:])
    return os.path.normpath(os.path.join(folder, word))


def _without_heredocs(command: str) -> str:
    """The command without the bodies of its here-documents, which are text and no commands."""
    if "<<" not in command:
        return command
    kept: list[str] = []
    waiting: list[str] = []
    for line in command.split("\n"):
        if waiting:
            if line.strip() == waiting[0]:
                waiting.pop(0)
            continue
        waiting = [match[2] for match in _HEREDOC.finditer(line)]
        kept.append(_HEREDOC.sub("", line))
    return "\n".join(kept)
