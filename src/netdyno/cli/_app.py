"""Finds the commands, one file each, and runs the one that is asked for."""

import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

from netdyno import __version__, plugins
from netdyno.cli import _endings
from netdyno.cli._declare import Command, accepts, first_sentence, run_command
from netdyno.errors import NetdynoError

HELP = """\
usage: netdyno [--store FOLDER] COMMAND ...

Put a PyTorch model on the dyno: measure it, find what holds it back, try reversible
changes in fair paired trials, and keep only what is proven.

Start with `netdyno init`, or with `netdyno tune garage:digits`.

commands:
{commands}

options:
  --store FOLDER  folder of the records (default: .netdyno)
  --version       say which netdyno this is
  --help          show this; `netdyno COMMAND --help` says more

Exit status: 0 done, 1 the answer is no, 2 something you can put right, 3 a bug of ours,
130 interrupted."""


class Words(NamedTuple):
    """The command line, taken apart: what stands before the command, the command, and the rest."""

    store: str | None
    command: str
    rest: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the answer is the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _endings.on_terminate():
            status = _ran(words)
            sys.stdout.flush()
            return status
    except BrokenPipeError:
        # Whoever read our output has seen enough (`netdyno runs | head`): not an error of anybody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _endings.DONE
    except BaseException as error:
        return _endings.status_of(error, words)


def _ran(words: list[str]) -> int:
    asked = taken_apart(words)
    if asked.command in {"", "-h", "--help"}:
        print(HELP.format(commands="\n".join(_lines())))
        return _endings.DONE
    if asked.command == "--version":
        print(f"netdyno {__version__}")
        return _endings.DONE
    command = commands().get(asked.command)
    if command is None:
        raise _unknown(asked.command)
    before = ("--store", asked.store) if asked.store is not None and accepts(command, "store") else ()
    return run_command(asked.command, command, (*before, *asked.rest))


def taken_apart(words: Sequence[str]) -> Words:
    """The command line in its parts. Raises NetdynoError for `--store` without a folder.

    >>> taken_apart(["--store", "lab", "show", "--json"])
    Words(store='lab', command='show', rest=('--json',))
    """
    if not words or not words[0].startswith("--store"):
        return Words(None, words[0] if words else "", tuple(words[1:]))
    flag, equals, folder = words[0].partition("=")
    rest = words[1:] if equals else words[2:]
    if flag != "--store":
        raise _unknown(flag)
    if not equals and len(words) < 2:
        raise NetdynoError(
            "cannot run `netdyno --store`",
            because="it names no folder",
            hint="write `--store FOLDER` before the command",
        )
    return Words(folder if equals else words[1], rest[0] if rest else "", tuple(rest[1:]))


def commands() -> dict[str, Command]:
    """The commands of this room and of other packages; one that cannot be imported is left out aloud."""
    found: dict[str, Command] = {}
    for name, module in plugins.modules("cli"):
        if isinstance(module, ModuleType):
            found[name] = getattr(module, name.replace("-", "_"))
        else:
            print(f"the command `{name}` is left out: {module.says}", file=sys.stderr)
    return found


def _lines() -> list[str]:
    found = commands()
    width = max(map(len, found))
    return [f"  {name:<{width}}  {first_sentence(command)}" for name, command in found.items()]


def _unknown(word: str) -> NetdynoError:
    import difflib

    known = sorted(commands())
    near = difflib.get_close_matches(word, known, n=1)
    return NetdynoError(
        f"cannot run `netdyno {word}`",
        because=f"there is no such {'option' if word.startswith('-') else 'command'}",
        hint=f"did you mean `netdyno {near[0]}`?" if near else f"the commands are: {', '.join(known)}",
    )
