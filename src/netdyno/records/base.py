"""The form that all records share."""

import msgspec


class Noun(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen record of scalars, strings, tuples and other records: JSON by construction.

    To change one, make another: `msgspec.structs.replace(record, field=value)`.
    """
