"""Records to JSON and back: nothing lost, no NaN, old versions read, newer ones refused with a hint."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from netdyno.errors import StoreError
from netdyno.records.record import SCHEMA_VERSION, Record

Raw = dict[str, Any]
Upgrade = Callable[[Raw], Raw]


def upgrade_1_to_2(raw: Raw) -> Raw:
    """Version 2 added kinds of evidence and a field with a default: every document of version 1 is one of version 2."""
    return raw


def upgrade_2_to_3(raw: Raw) -> Raw:
    """Version 3 added kinds of evidence and fields with defaults: every document of version 2 is one of version 3."""
    return raw


# `upgrade_1_to_2` comes first, `upgrade_2_to_3` second: place N brings version N+1 to N+2.
UPGRADES: tuple[Upgrade, ...] = (upgrade_1_to_2, upgrade_2_to_3)


class _Header(msgspec.Struct):
    """All that is read of a document before its version is known."""

    schema_version: int


def encode(record: Record, *, indent: int | None = None) -> bytes:
    """The record as UTF-8 JSON. Raises StoreError when a number in it is NaN or infinite."""
    for path in _not_finite(msgspec.to_builtins(record), ""):
        raise StoreError(
            f"cannot write the record: `{path}` is not a finite number",
            because="JSON has no NaN and no infinity, and a missing number must say why it is missing",
            hint="leave the field out and give the reason; if netdyno measured it, this is a bug worth reporting",
        )
    packed = msgspec.json.encode(record)
    return packed if indent is None else msgspec.json.format(packed, indent=indent) + b"\n"


def decode(data: bytes) -> Record:
    """The record that `data` holds, brought forward to today's form. Raises StoreError when it cannot be read."""
    try:
        version = msgspec.json.decode(data, type=_Header).schema_version
        if version == SCHEMA_VERSION:
            return msgspec.json.decode(data, type=Record)
        return msgspec.convert(upgraded(msgspec.json.decode(data), version), Record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            "this is not a record that netdyno wrote",
            because=f"reading it stopped at: {error}",
            hint="take the file as `netdyno tune` left it; `netdyno runs` lists the ones that can be read",
        ) from error


def upgraded(raw: Raw, version: int, *, upgrades: tuple[Upgrade, ...] = UPGRADES, to: int = SCHEMA_VERSION) -> Raw:
    """A document of `version` brought to version `to`, one step at a time. Raises StoreError for unknown versions."""
    if version > to:
        raise StoreError(
            f"cannot read a record of schema version `{version}`",
            because=f"this netdyno reads versions up to {to}; a newer one wrote the file",
            hint="upgrade netdyno, or open the record where it was written",
        )
    if version < 1:
        raise StoreError(
            f"cannot read a record of schema version `{version}`",
            because="the first version that was ever written is 1",
            hint="take the file as `netdyno tune` left it",
        )
    for step in upgrades[version - 1 : to - 1]:
        raw = step(raw)
    return raw | {"schema_version": to}


def schema() -> Raw:
    """The JSON schema (2020-12) of a record in today's form."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"netdyno record, version {SCHEMA_VERSION}",
        **msgspec.json.schema(Record),
    }


def _not_finite(value: Any, path: str) -> Iterator[str]:
    """The paths of all numbers below `value` that JSON cannot hold."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield path
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _not_finite(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _not_finite(inner, f"{path}[{place}]")
