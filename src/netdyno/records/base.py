"""The form that all records share."""

import msgspec


class Noun(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen record of scalars, strings, tuples and other records: JSON by construction.

    To change one, make another: `msgspec.structs.replace(record, field=value)`.
    """


class Evidence(Noun, tag_field="kind", tag=True, frozen=True, kw_only=True):
    """What every kind of evidence carries: `cost_s`, the seconds that collecting it took."""

    cost_s: float = 0.0


class Place(Noun, frozen=True, kw_only=True):
    """Where in the user's program: a source line, a module path, a sample, a step."""

    file: str | None = None
    line: int | None = None
    module: str | None = None
    sample: int | None = None
    step: int | None = None
