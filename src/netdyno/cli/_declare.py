"""A command is a function: its keyword-only parameters are its arguments, and this makes a parser of them.

    def show(*, run: Annotated[str, Argument("A run.")] = "last", json: Annotated[bool, Option("As JSON.")] = False) -> int:

A parameter with `Argument` is positional, one with `Option` has a flag named like it, and `Rest` takes what stands after
`--`, word by word. `bool` is a switch, `list[X]` may
be repeated, flag or positional, an enumeration offers its values, and `X | None` may be absent. The docstring is the help.
"""

import argparse
import difflib
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, NoReturn

from netdyno.errors import NetdynoError

Command = Callable[..., int]


class Argument(NamedTuple):
    """A positional argument."""

    help: str
    metavar: str | None = None


class Option(NamedTuple):
    """A flag. `short` is a second name, `default` what the help says in place of the default, `least` a lower bound."""

    help: str
    metavar: str | None = None
    short: str | None = None
    default: str | None = None
    least: int | None = None


class Rest(NamedTuple):
    """Everything after `--`: the words of another program."""

    help: str


class _Parser(argparse.ArgumentParser):
    """Says in our three lines what it does not understand."""

    def error(self, message: str) -> NoReturn:
        raise NetdynoError(
            f"cannot run `{self.prog}` like that",
            because=message,
            hint=self._near(message) or f"`{self.prog} --help` lists what there is",
        )

    def _near(self, message: str) -> str | None:
        meant = [word for word in message.split() if word.startswith("--")]
        near = difflib.get_close_matches(meant[0], list(self._option_string_actions), n=1) if meant else []
        return f"did you mean `{near[0]}`?" if near and near[0] not in message else None


def run_command(name: str, command: Command, words: Sequence[str]) -> int:
    """Call the command with what `words` say. Raises NetdynoError for what it does not understand."""
    rest = _takes_the_rest(command)
    words = list(words)
    given: dict[str, Any] = {}
    if rest is not None and "--" in words:
        cut = words.index("--")
        given[rest] = tuple(words[cut + 1 :])
        words = words[:cut]
    return command(**vars(parser_of(name, command).parse_args(words)), **given)


def _takes_the_rest(command: Command) -> str | None:
    """The parameter that is given what stands after `--`."""
    hints = typing.get_type_hints(command, include_extras=True)
    return next((name for name, hint in hints.items() if any(isinstance(told, Rest) for told in _told(hint))), None)


def _told(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint)[1:]


def accepts(command: Command, parameter: str) -> bool:
    """True when the command has this parameter."""
    return parameter in inspect.signature(command).parameters


def parser_of(name: str, command: Command) -> argparse.ArgumentParser:
    """The parser of one command."""
    parser = _Parser(
        prog=f"netdyno {name}",
        description=inspect.getdoc(command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # An abbreviation that is unique today is ambiguous when a flag is added, in somebody's build script.
        allow_abbrev=False,
    )
    hints = typing.get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        kind, told = typing.get_args(hints[parameter.name])
        if isinstance(told, Rest):
            parser.epilog = f"after `--`: {told.help}"
            continue
        _add(parser, parameter, _bare(kind), told)
    if parser.epilog:
        parser.usage = f"{parser.format_usage().removeprefix('usage: ').strip()} [-- ...]"
    return parser


def first_sentence(command: Command) -> str:
    """What a list of commands says of this one."""
    return (inspect.getdoc(command) or "").partition("\n")[0]


def _bare(kind: Any) -> Any:
    """`X` for `X | None`."""
    if not isinstance(kind, types.UnionType):
        return kind
    (bare,) = (part for part in typing.get_args(kind) if part is not type(None))
    return bare


def _add(parser: argparse.ArgumentParser, parameter: inspect.Parameter, kind: Any, told: Argument | Option) -> None:
    needed = parameter.default is inspect.Parameter.empty
    given: dict[str, Any] = {"help": _help(parameter, told)}
    if not needed:
        given["default"] = parameter.default
    if isinstance(told, Argument):
        if typing.get_origin(kind) is list:
            (kind,) = typing.get_args(kind)
            given["nargs"] = "+" if needed else "*"
        elif not needed:
            given["nargs"] = "?"
        parser.add_argument(parameter.name, **given, **_value(kind, told))
        return
    # A word of Python's own is written with an underscore behind it: `for_` is `--for`.
    names = [f"--{parameter.name.rstrip('_').replace('_', '-')}", *([told.short] if told.short else [])]
    given["dest"] = parameter.name
    if kind is bool:
        parser.add_argument(*names, action="store_true", help=told.help, dest=parameter.name)
    elif typing.get_origin(kind) is list:
        (each,) = typing.get_args(kind)
        parser.add_argument(*names, action="append", **given, **_value(each, told))
    else:
        parser.add_argument(*names, **given, **_value(kind, told))


def _value(kind: Any, told: Argument | Option) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": _choice(kind), "metavar": told.metavar or "|".join(str(each.value) for each in kind)}
    if isinstance(told, Option) and told.least is not None:
        kind = _at_least(told.least)
    return {"type": kind, "metavar": told.metavar}


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.lstrip("-").isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"`{text}` is not a whole number from {least} on")
        return int(text)

    return number


def _choice(kind: type[Enum]) -> Callable[[str], Enum]:
    def read(text: str) -> Enum:
        try:
            return kind(text)
        except ValueError:
            values = ", ".join(str(each.value) for each in kind)
            raise argparse.ArgumentTypeError(f"`{text}` is not one of {values}") from None

    return read


def _help(parameter: inspect.Parameter, told: Argument | Option) -> str:
    default = told.default if isinstance(told, Option) else None
    if default is None and parameter.default not in {inspect.Parameter.empty, None}:
        default = str(getattr(parameter.default, "value", parameter.default))
    text = f"{told.help} (default: {default})" if default else told.help
    return text.replace("%", "%%")
