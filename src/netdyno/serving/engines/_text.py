"""Protobuf's text format, as much of it as configurations need: written from fields, and read back to be checked."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

# A field is a name and a value; a message is a sequence of fields, in which names may be repeated.
Field = tuple[str, Any]
Message = dict[str, list[Any]]

TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*("(?:[^"\\\n]|\\.)*"|[A-Za-z_][\w]*|-?\d+(?:\.\d+)?|[{}\[\]:,])')
DEEPEST = 20


class Word(NamedTuple):
    """The name of an enumeration's value, which stands without quotes."""

    text: str


def written(fields: Sequence[Field], indent: int = 0) -> str:
    """Fields as text.

    >>> print(written([("name", "m"), ("input", [("dims", 3), ("dims", 224)])]), end="")
    name: "m"
    input {
      dims: 3
      dims: 224
    }
    """
    pad, lines = "  " * indent, []
    for name, value in fields:
        if isinstance(value, list):
            lines.append(f"{pad}{name} {{\n{written(value, indent + 1)}{pad}}}\n")
        else:
            lines.append(f"{pad}{name}: {_value(value)}\n")
    return "".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, Word):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def read(text: str) -> Message:
    """Text as a message: every field's values in a list, enumerations as plain words. Raises ValueError for what is none.

    >>> read('name: "m" input { dims: 3 dims: 224 }')
    {'name': ['m'], 'input': [{'dims': [3, 224]}]}
    """
    tokens: list[str] = []
    at = 0
    while text[at:].strip():
        found = TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"`{text[at : at + 20].strip()}` is no part of a configuration")
        tokens.append(found[1])
        at = found.end()
    message, rest = _message(tokens, 0, depth=0)
    if rest != len(tokens):
        raise ValueError("a bracket is closed that was not opened")
    return message


def _message(tokens: list[str], at: int, *, depth: int) -> tuple[Message, int]:
    if depth > DEEPEST:
        raise ValueError("it is nested too deep")
    message: Message = {}
    while at < len(tokens) and tokens[at] != "}":
        name = tokens[at]
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"`{name}` is no name of a field")
        at += 1
        colon = at < len(tokens) and tokens[at] == ":"
        at += colon
        if at >= len(tokens):
            raise ValueError(f"`{name}` has no value")
        if tokens[at] == "{":
            value, at = _message(tokens, at + 1, depth=depth + 1)
            if at >= len(tokens):
                raise ValueError(f"`{name}` is not closed")
            at += 1
            message.setdefault(name, []).append(value)
        elif tokens[at] == "[":
            close = tokens.index("]", at) if "]" in tokens[at:] else -1
            if close < 0:
                raise ValueError(f"`{name}` is not closed")
            message.setdefault(name, []).extend(_scalar(one) for one in tokens[at + 1 : close] if one != ",")
            at = close + 1
        elif colon:
            message.setdefault(name, []).append(_scalar(tokens[at]))
            at += 1
        else:
            raise ValueError(f"`{name}` has no value")
    return message, at


def _scalar(token: str) -> Any:
    if token.startswith('"'):
        return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), token[1:-1])
    if token in {"true", "false"}:
        return token[0] == "t"
    if re.fullmatch(r"-?\d+", token):
        return int(token)
    if re.fullmatch(r"-?\d+\.\d+", token):
        return float(token)
    if re.fullmatch(r"[A-Za-z_]\w*", token):
        return token
    raise ValueError(f"`{token}` is no value")
