"""Finds the commands, one file each, and runs the one that is asked for."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from netdyno import __version__, plugins
from netdyno.cli import _endings

HELP = """Put a PyTorch model on the dyno: measure it, find what holds it back, try reversible changes in fair paired
trials, and keep only what is proven.

Start with `netdyno init`, or with `netdyno tune garage:digits`. Exit status: 0 done, 1 the answer is no,
2 something you can put right, 3 a bug of ours, 130 interrupted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _endings.on_terminate():
            status = build()(words, standalone_mode=False, prog_name="netdyno")
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough (`netdyno runs | head`): not an error of anybody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException as error:
        return _endings.status_of(error, words)
    return status if isinstance(status, int) else 0


def build() -> typer.Typer:
    """The program with all commands of this room and of other packages."""
    # Plain help: boxes and colours would cost as much time as all the rest of `netdyno --help`.
    app = typer.Typer(name="netdyno", help=HELP, add_completion=False, rich_markup_mode=None)
    app.callback(invoke_without_command=True)(_before)
    for name, module in plugins.modules("cli"):
        if isinstance(module, plugins.Broken):
            print(f"the command `{name}` is left out: {module.says}", file=sys.stderr)
            continue
        app.command(name=name)(getattr(module, name.replace("-", "_")))
    return app


def _before(
    context: typer.Context,
    store: Annotated[Path | None, typer.Option(help="Folder of the records, for the command that follows.")] = None,
    version: Annotated[bool, typer.Option("--version", help="Say which netdyno this is.")] = False,
) -> None:
    if version:
        print(f"netdyno {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit
    if store is not None:
        names: Any = context.command.commands  # type: ignore[attr-defined]  # a group has them
        context.default_map = {name: {"store": str(store)} for name in names}
