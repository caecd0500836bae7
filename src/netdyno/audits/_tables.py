"""A table of text as a View: numbers and categories, with a column to learn, and perhaps groups and times."""

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from netdyno.audits import _arrays as arrays
from netdyno.audits._base import Array, Part, View
from netdyno.errors import TargetError

MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-"}
# What a column to learn is called when nobody says.
TARGETS = ("target", "label", "class", "y")
# A column of words with more of them is a name, an id or a text, and no category: few rows share a value.
MOST_LEVELS, LEAST_SHARED = 100, 0.5
LEAST_COUNTED = 30  # fewer whole numbers may all differ by chance
WORDS = 4  # on average, from which a column of many values is a text


class Asked(NamedTuple):
    """What the user said about the table."""

    target_column: str | None = None
    test: str | None = None
    group_column: str | None = None
    time_column: str | None = None


class Sheet(NamedTuple):
    """A table as it was read: names, and the chosen rows of words with their places among all."""

    path: Path
    names: tuple[str, ...]
    rows: list[list[str]]
    indices: Array
    total: int

    def column(self, name: str) -> list[str]:
        """One column, in words."""
        at = self.names.index(name)
        return [row[at] for row in self.rows]


def opened(path: Path, asked: Asked, *, sample: int, seed: int) -> View:
    """The table as a View. Raises TargetError for columns that are not there, or rows that do not fit their header."""
    chance = np.random.default_rng(seed)
    sheets = {"train": _read(path, sample, chance)}
    if asked.test is not None:
        sheets["test"] = _read(Path(asked.test).expanduser(), sample, chance)
        _same_columns(sheets["train"], sheets["test"])
    for name in (asked.target_column, asked.group_column, asked.time_column):
        if name is not None:
            _known(sheets["train"], name)
    target = asked.target_column or next((name for name in TARGETS if name in sheets["train"].names), None)
    return _viewed(path, sheets, asked._replace(target_column=target), seed)


def _viewed(path: Path, sheets: Mapping[str, Sheet], asked: Asked, seed: int) -> View:
    apart = {asked.target_column, asked.group_column, asked.time_column}
    columns = [name for name in sheets["train"].names if name not in apart]
    kinds = {name: _kind_of(sheets, name) for name in columns}
    texts = [name for name in columns if kinds[name] == "text"]
    used = texts or [name for name in columns if kinds[name] in {"numbers", "levels"}]
    if not used:
        raise TargetError(
            f"cannot look at `{path}`",
            because="no column is left that holds numbers, categories or texts",
            hint="give a table with a header line and one sample a line",
        )
    levels = {name: _levels(sheets, name) for name in used if kinds[name] == "levels"}
    parts = {
        split: Part(
            name=split,
            x=_texts(sheet, texts) if texts else _numbers(sheet, used, levels),
            y=_target(sheet, sheets, asked.target_column),
            indices=sheet.indices,
            total=sheet.total,
            groups=None if asked.group_column is None else np.array(sheet.column(asked.group_column)),
            times=None if asked.time_column is None else _times(sheet, asked.time_column),
        )
        for split, sheet in sheets.items()
    }
    notes = {
        "source": "table",
        "categories": levels,
        "left out": tuple(name for name in columns if name not in used),
        "target column": asked.target_column,
    }
    names = {} if texts else {"columns": tuple(used)}
    return arrays.view_of(str(path), parts, seed=seed, hint="text" if texts else "table", notes=notes, **names)


def _read(path: Path, sample: int, chance: np.random.Generator) -> Sheet:
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
            rows = list(_lines(file.readline, file))
    except OSError as error:
        raise TargetError(
            f"cannot read `{path}`", because=str(error.strerror), hint="check the path and its rights"
        ) from error
    except csv.Error as error:
        raise TargetError(
            f"cannot read `{path}`", because=str(error), hint="write it as CSV with a header line"
        ) from error
    if len(rows) < 2:
        raise TargetError(
            f"cannot look at `{path}`",
            because=f"it has {max(0, len(rows) - 1)} rows below its header",
            hint="give a table with rows",
        )
    header, *body = rows
    _fit(path, header, body)
    chosen = arrays.chosen(len(body), sample, chance)
    return Sheet(path, tuple(name.strip() for name in header), [body[at] for at in chosen], chosen, len(body))


def _lines(first: Any, file: Any) -> Iterator[list[str]]:
    line = first()
    mark = "\t" if "\t" in line else max(",;", key=line.count)
    yield from (row for row in csv.reader([line], delimiter=mark) if row)
    yield from (row for row in csv.reader(file, delimiter=mark) if row)


def _fit(path: Path, header: list[str], body: list[list[str]]) -> None:
    twice = {name for name in header if header.count(name) > 1}
    if twice:
        raise TargetError(
            f"cannot look at `{path}`",
            because=f"two columns are called `{min(twice)}`",
            hint="give each column its own name",
        )
    if all(_number(name) is not None for name in header):
        raise TargetError(
            f"cannot look at `{path}`",
            because=f"its first line holds no names but numbers: {', '.join(header[:6])}",
            hint="put a header line with the names of the columns above the rows",
        )
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise TargetError(
                f"cannot look at `{path}`",
                because=f"line {number} has {len(row)} cells and the header has {len(header)}",
                hint="quote cells that hold the separator",
            )


def _known(sheet: Sheet, name: str) -> None:
    import difflib

    if name not in sheet.names:
        near = difflib.get_close_matches(name, sheet.names, n=1)
        raise TargetError(
            f"`{sheet.path}` has no column `{name}`",
            because=f"its columns are: {', '.join(sheet.names[:20])}{', …' if len(sheet.names) > 20 else ''}",
            hint=f"did you mean `{near[0]}`?" if near else "names are case-sensitive; the first line holds them",
        )


def _same_columns(train: Sheet, test: Sheet) -> None:
    missing = [name for name in train.names if name not in test.names]
    if missing:
        raise TargetError(
            f"`{test.path}` does not fit `{train.path}`",
            because=f"it has no column `{missing[0]}`",
            hint="both tables need the same columns, in any order",
        )


def _kind_of(sheets: Mapping[str, Sheet], name: str) -> str:
    # The rows of each table may be numbered from one.
    if all(_kind(sheet.column(name), sheet.total) == "identifier" for sheet in sheets.values()):
        return "identifier"
    everything = [word for sheet in sheets.values() for word in sheet.column(name)]
    return _kind(everything, sum(sheet.total for sheet in sheets.values()))


def _kind(words: Sequence[str], total: int) -> str:
    """numbers, levels, text, or what nothing can be learned from: "identifier"."""
    there = [word.strip() for word in words if word.strip().lower() not in MISSING]
    if not there:
        return "numbers"  # all missing: a constant column, and said so
    numbers = [_number(word) for word in there]
    distinct = len(set(there))
    if all(number is not None for number in numbers):
        return "identifier" if _counts_rows(numbers, total) else "numbers"
    shared = distinct <= MOST_LEVELS and distinct <= LEAST_SHARED * len(there)
    if shared or (distinct <= MOST_LEVELS and len(there) < 2 * MOST_LEVELS and distinct < len(there)):
        return "levels"
    lengths = [len(word.split()) for word in there]
    return "text" if sum(lengths) / len(lengths) >= WORDS else "identifier"


def _counts_rows(numbers: Sequence[Any], total: int) -> bool:
    """True for a column that numbers the rows: whole, each once, in any order, with few holes."""
    return (
        len(numbers) >= LEAST_COUNTED
        and len(set(numbers)) == len(numbers)
        and all(math.isfinite(number) and number == int(number) for number in numbers)
        and max(numbers) - min(numbers) < 4 * total
    )


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _levels(sheets: Mapping[str, Sheet], name: str) -> tuple[str, ...]:
    words = {word.strip() for sheet in sheets.values() for word in sheet.column(name)}
    return tuple(sorted(word for word in words if word.lower() not in MISSING))


def _numbers(sheet: Sheet, names: list[str], levels: Mapping[str, tuple[str, ...]]) -> Array:
    return np.stack([_cells(sheet.column(name), levels.get(name)) for name in names], axis=1)


def _cells(words: list[str], levels: tuple[str, ...] | None) -> Array:
    if levels is not None:
        place = {level: float(number) for number, level in enumerate(levels)}
        return np.array([place.get(word.strip(), math.nan) for word in words])
    return np.array([math.nan if word.strip().lower() in MISSING else float(word) for word in words])


def _texts(sheet: Sheet, names: list[str]) -> list[str]:
    return [" ".join(words) for words in zip(*(sheet.column(name) for name in names), strict=True)]


def _target(sheet: Sheet, sheets: Mapping[str, Sheet], name: str | None) -> Array | None:
    if name is None:
        return None
    words = [word.strip() for each in sheets.values() for word in each.column(name)]
    own = np.array([word.strip() for word in sheet.column(name)])
    numbers = [_number(word) for word in words]
    if any(number is None or not math.isfinite(number) for number in numbers):
        return own
    values = own.astype(np.float64)
    whole = all(number == int(number) for number in numbers if number is not None)
    return values.astype(np.int64) if whole and not any(re.search(r"[.eE]", word) for word in words) else values


def _times(sheet: Sheet, name: str) -> Array:
    found = [_moment(word.strip()) for word in sheet.column(name)]
    if any(moment is None for moment in found):
        bad = next(word for word, moment in zip(sheet.column(name), found, strict=True) if moment is None)
        raise TargetError(
            f"cannot read `{bad}` in the column `{name}`",
            because="it is neither a number nor a date such as 2024-05-31 or 2024-05-31T12:00:00",
            hint="write times as ISO dates or as seconds",
        )
    return np.array(found, dtype=np.float64)


def _moment(word: str) -> float | None:
    number = _number(word)
    if number is not None:
        return number
    try:
        return datetime.fromisoformat(word).timestamp()
    except ValueError:
        return None
