"""The commands, and what becomes of their errors.

Data goes to stdout, notes to stderr. Exit 0: done; 1: findings, where asked for; 2: wrong use or input,
said in one line. Each command lives in a module of its own that is imported when it is called.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

from memtally._version import __version__
from memtally.errors import MemtallyError

__all__ = ["cli", "run"]

_COMMANDS = {
    "add": ("memtally.cli.adding", "append a use or an exposure from any language"),
    "check": ("memtally.cli.checking", "hold the figures against limits of your own"),
    "completion": ("memtally.cli.completion", "the shell's completion: bash, zsh, fish"),
    "demo": ("memtally.cli.demo", "the whole path on a sample workspace"),
    "hook": ("memtally.cli.hosts", "record one event of an agent host, by the host"),
    "import": ("memtally.cli.backfill", "backfill from transcripts and older logs"),
    "init": ("memtally.cli.setup", "write .memtally/config.toml with a preset"),
    "install": ("memtally.cli.hosts", "have an agent host record, by its hooks"),
    "log": ("memtally.cli.logs", "watch, check and seal the usage log"),
    "open": ("memtally.cli.reporting", "the report as a page in the browser"),
    "mcp": ("memtally.cli.mcp", "the figures as tools for agents (MCP)"),
    "report": ("memtally.cli.reporting", "the figures per record"),
    "review": ("memtally.cli.reporting", "ranked evidence for tidying"),
    "show": ("memtally.cli.reporting", "one record over time"),
    "status": ("memtally.cli.status", "workspace, log, faults, tokenizer"),
    "tokens": ("memtally.cli.setup", "fetch the token vocabulary, count with it"),
    "uninstall": ("memtally.cli.hosts", "take the hooks out again"),
}


class _LazyGroup(click.Group):
    """Imports a command's module when it is called, so that no command pays for another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name][0])
        command = getattr(module, f"{cmd_name}_" if cmd_name in ("import", "open") else cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="memtally")
def cli() -> None:
    """Which memory records were really read into an agent's context, how often, and at what cost."""


def run(arguments: list[str] | None) -> int:
    """Run the command line; its exit code."""
    if sys.stdout is None or sys.stderr is None:  # closed by the caller (>&-): there is nowhere to say it
        return 2
    for stream in (sys.stdout, sys.stderr):
        # a slug that the terminal's encoding lacks is written as an escape, not as a traceback
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    stdout = sys.stdout
    try:
        code = cli.main(args=arguments, prog_name="memtally", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        return _fail(error.format_message())
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "memtally"
        return _fail(f"{command}: {_one_line(error.format_message())} (see {command} --help)")
    except click.ClickException as error:
        return _fail(f"memtally: {_one_line(error.format_message())}")
    except MemtallyError as error:
        return _fail(f"memtally: {_one_line(str(error))}")
    except (click.Abort, KeyboardInterrupt):
        return 130
    except SystemExit as error:
        # click's answer to a reader that has gone (| head) is to wrap the streams and exit with 1, which
        # here means findings
        return 0 if sys.stdout is not stdout else error.code if isinstance(error.code, int) else 1
    except BrokenPipeError:
        _give_up_stdout()
        return 0
    except OSError as error:
        _give_up_stdout()
        return _fail(
            f"memtally: {_one_line(error.strerror or str(error))}; check the disk, the path and its mode"
        )


def _give_up_stdout() -> None:
    """Nothing more can be flushed: or the interpreter would fail at it once more on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> int:
    click.echo(message, err=True)
    return 2


def _one_line(text: str) -> str:
    from memtally.report._text import one_line  # noqa: PLC0415 - only once something is wrong

    return one_line(" ".join(text.split("\n")))
