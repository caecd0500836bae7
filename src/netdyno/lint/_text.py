"""A shell script, a workflow, a Dockerfile or a configuration as text, with the commands in it."""

import ast
import re
import shlex
from functools import cached_property
from typing import NamedTuple

from netdyno.lint._python import Python, argument, constant

SUFFIXES = (".sh", ".bash", ".yaml", ".yml", ".pbtxt", ".cpp", ".cc", ".cu")
NAMES = ("Dockerfile", "Makefile", "Containerfile", "requirements")


class Words(NamedTuple):
    """One command: its line and its words."""

    line: int
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def program(self, name: str) -> bool:
        """Whether the command runs this program, also behind `sudo`, `RUN`, `time` or a path."""
        return any(word.rpartition("/")[2] == name for word in self.words[:4])

    def flag(self, name: str) -> str | None:
        """The value of `--name=value` or `--name value`; empty for a bare flag, None where it is missing."""
        for index, word in enumerate(self.words):
            if word == name:
                after = self.words[index + 1] if index + 1 < len(self.words) else ""
                return "" if after.startswith("-") else after
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
        return None


class Text:
    """One file that is no Python, or the shell commands that a Python file runs."""

    def __init__(self, file: str, text: str, at: tuple[tuple[int, str], ...] = ()) -> None:
        self.file = file
        self.text = text
        self.lines = at or tuple(enumerate(text.split("\n"), start=1))

    @property
    def name(self) -> str:
        return self.file.replace("\\", "/").rpartition("/")[2]

    @cached_property
    def commands(self) -> tuple[Words, ...]:
        """The commands of the file: continued lines are joined, comments are left out, pipes are kept as words."""
        found: list[Words] = []
        start, waiting = 0, ""
        for number, line in self.lines:
            bare = "" if line.lstrip().startswith(("#", "//")) else line.strip()
            start = start or number
            if bare.endswith("\\"):
                waiting += bare[:-1] + " "
                continue
            found += _commands(start, waiting + bare)
            start, waiting = 0, ""
        return tuple(found)

    def search(self, pattern: str) -> list[tuple[int, str]]:
        """The lines in which a pattern stands outside of a comment, with their numbers."""
        seen = re.compile(pattern)
        return [
            (number, line)
            for number, line in self.lines
            if not line.lstrip().startswith(("#", "//")) and seen.search(line)
        ]


def _commands(line: int, text: str) -> list[Words]:
    text = re.sub(r"^\s*-?\s*(run|command|script|entrypoint)\s*:\s*", "", text)
    parts = re.split(r"&&|\|\||;", text)
    return [Words(line, words) for part in parts if (words := _words(part))]


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text, comments=True))
    except ValueError:  # a quotation that goes on in the next line
        return tuple(text.split())


def shell_of(source: Python) -> Text:
    """The commands that a Python file gives to a shell or to `subprocess`, where they are written out."""
    found: list[tuple[int, str]] = []
    for call in source.calls("os.system", "os.popen", "subprocess.*"):
        given = argument(call, "args", 0) or argument(call, "command", 0)
        if isinstance(words := constant(given), str):
            found.append((call.lineno, words))
        elif isinstance(given, ast.List | ast.Tuple):
            parts = [str(constant(each)) for each in given.elts if isinstance(constant(each), str)]
            found.append((call.lineno, shlex.join(parts)))
    return Text(source.file, "", tuple(found) or ((0, ""),))


def is_text(file: str) -> bool:
    """Whether a file is one that the rules about text read.

    >>> is_text("deploy/build.sh"), is_text("Dockerfile"), is_text("notes.md")
    (True, True, False)
    """
    name = file.replace("\\", "/").rpartition("/")[2]
    return name.endswith(SUFFIXES) or name.startswith(NAMES)
