"""What a look at the data found: the document of `netdyno data`."""

from typing import Literal

import msgspec

from netdyno.records.base import Noun
from netdyno.records.diagnosis import Outcome

Modality = Literal["images", "table", "text", "series", "tensors"]

# History:
# 1  the first form
AUDIT_VERSION = 1


class Column(Noun, frozen=True, kw_only=True):
    """How one feature (or one channel of images, or the length of texts) is spread over a split.

    `histogram` counts values in bins of equal width from `low` to `high`. Of a column that holds no numbers only the counts and
    `common`, its commonest values, are known.
    """

    name: str
    count: int
    missing: int = 0
    distinct: int | None = None
    mean: float | None = None
    deviation: float | None = None
    skew: float | None = None
    low: float | None = None
    high: float | None = None
    histogram: tuple[int, ...] = ()
    common: dict[str, int] = msgspec.field(default_factory=dict)


class SplitProfile(Noun, frozen=True, kw_only=True):
    """One split: how many samples it has, how many were looked at, its classes and its columns."""

    name: str
    samples: int
    looked_at: int
    classes: dict[str, int] = msgspec.field(default_factory=dict)
    columns: tuple[Column, ...] = ()


class DataProfile(Noun, frozen=True, kw_only=True):
    """What the data are: `shape` is that of one input, `task` what the targets ask for.

    `mean` and `deviation` are the normalisation statistics, per channel or column, computed on the training split alone
    (ledger A-078).
    """

    modality: Modality
    shape: tuple[int, ...] = ()
    task: Literal["classes", "numbers", "none"]
    splits: tuple[SplitProfile, ...]
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()


class Audit(Noun, frozen=True, kw_only=True):
    """All that is known after a look at the data. `outcomes` has one line per audit, silence included.

    `pictures` are PNG files in base64 by their name ("splits" is a two-dimensional view of all splits: only a picture, no
    verdict rests on it).
    """

    schema_version: int = AUDIT_VERSION
    id: str
    made_by: str
    made_at: str
    command: str
    target: str
    seed: int = 0
    profile: DataProfile | None = None
    outcomes: tuple[Outcome, ...] = ()
    pictures: dict[str, str] = msgspec.field(default_factory=dict)
    finished: bool = False
    wall_s: float = 0.0
