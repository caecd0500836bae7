"""The room's own machinery: what an audit is, what it looks at, and how all of them run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from netdyno import plugins
from netdyno.progress import Event, Listener, silent
from netdyno.records.audit import Modality
from netdyno.records.diagnosis import Exhibit, Finding, Outcome, Saving, Stage

# A finding this sure is called found; below it, it is suspected.
SURE = 0.7
MOST_EXHIBITS = 8

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One split, as arrays. `x` are images (N, C, H, W), a table (N, F), series (N, T) or (N, T, F), or a list of texts.

    `y` is (N,) class numbers or numbers, or None. `indices` says which sample of the data set each row is, `total` how many the data
    set has. `groups` (a patient, a speaker) and `times` are there where the user named a column for them.
    """

    name: str
    x: Any
    y: Array | None
    indices: Array
    total: int
    groups: Array | None = None
    times: Array | None = None

    def __len__(self) -> int:
        return len(self.indices)

    @cached_property
    def rows(self) -> Array:
        """The inputs as numbers, one row per sample, float64. Texts have none: use `View.features`."""
        return np.asarray(self.x, dtype=np.float64).reshape(len(self), -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """The data as an audit sees them. Live, never stored.

    `columns` are the names of a table's features. `classes` are the names of the classes. `augment` and `batch_augment` are the declared
    random transforms; `serving` is a second way from the raw record to an input, if one was named, and `raw` gives the raw
    records. `workload` is the declared workload where there is one.

    `notes` hold what else a user named, and an audit that needs one of them skips without it: "policy" (the path of an augmentation
    policy, or what it holds), "vocabulary" (the known words), "raw" (the raw records of the training rows, in their order) with
    "serving" and, where the rows themselves are not what training makes of them, "training" (each from a raw record to an input).
    """

    target: str
    modality: Modality
    task: Literal["classes", "numbers", "none"]
    parts: Mapping[str, Part]
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    augment: Callable[[Any], Any] | None = None
    batch_augment: Callable[[Any], Any] | None = None
    workload: Any = None
    seed: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def train(self) -> Part:
        """The split that is learned from."""
        return self.parts["train"]

    @property
    def others(self) -> tuple[Part, ...]:
        """The splits that are judged on: "val", "test"."""
        return tuple(part for name, part in self.parts.items() if name != "train")


class Skip(Exception):
    """Raised by an audit that does not apply: the reason, in a sentence."""


Check = Callable[[View], Finding | None]


class Audited(NamedTuple):
    """An audit found in the room: its id is its file's name."""

    id: str
    check: Check
    modalities: tuple[Modality, ...]
    stage: Stage
    dear: bool


def audit(
    *, modalities: tuple[Modality, ...] = (), stage: Stage = "data", dear: bool = False
) -> Callable[[Check], Check]:
    """Marks the function of an audit's file: `def near_duplicates(view: View) -> Finding | None`.

    `modalities` it looks at (none named: all). `dear` ones run last. It may raise Skip with the reason why it does not apply.
    """

    def mark(check: Check) -> Check:
        check.audit = (modalities, stage, dear)  # type: ignore[attr-defined]
        return check

    return mark


def audits() -> tuple[Audited | plugins.Broken, ...]:
    """All audits of the room and of other packages, cheap ones first."""
    found = [_from(name, module) for name, module in plugins.modules("audits")]
    return tuple(sorted(found, key=lambda one: (isinstance(one, Audited) and one.dear, one.id)))


def _from(name: str, module: ModuleType | plugins.Broken) -> Audited | plugins.Broken:
    if isinstance(module, plugins.Broken):
        return module
    check = getattr(module, name.replace("-", "_"), None)
    if check is None or not hasattr(check, "audit"):
        return plugins.Broken(name, f"its file declares no function `{name.replace('-', '_')}` marked with @audit")
    return Audited(name, check, *check.audit)


def audited(view: View, *, listener: Listener = silent) -> Iterator[Outcome]:
    """What every audit concludes, one after the other, silence included."""
    everything = audits()
    for done, one in enumerate(everything):
        listener(Event(f"looking for {one.id.replace('-', ' ')}", done, len(everything)))
        yield judged(one, view)


def judged(one: Audited | plugins.Broken, view: View) -> Outcome:
    """What became of one audit."""
    if isinstance(one, plugins.Broken):
        return Outcome(rule=one.id, state="failed", reason=f"it cannot be imported: {one.says}")
    if one.modalities and view.modality not in one.modalities:
        return Outcome(rule=one.id, state="skipped", reason=f"the data are {view.modality}")
    try:
        finding = one.check(view)
    except Skip as why:
        return Outcome(rule=one.id, state="skipped", reason=str(why))
    except Exception as error:
        return Outcome(rule=one.id, state="failed", reason=f"{type(error).__name__}: {error}")
    if finding is None:
        return Outcome(rule=one.id, state="clear")
    named = msgspec.structs.replace(finding, id=one.id, stage=one.stage)
    return Outcome(rule=one.id, state="found" if finding.confidence >= SURE else "suspected", finding=named)


def wrong(
    says: str,
    *,
    fix: str,
    because: dict[str, float],
    exhibits: tuple[Exhibit, ...] = (),
    confidence: float = 0.95,
    layer: Literal["data", "generalisation"] = "data",
    explains: tuple[str, ...] = (),
) -> Finding:
    """A finding about data: nothing is saved by it, something is mended."""
    return Finding(
        says=says, layer=layer, saves=Saving(low=0.0, high=0.0), because=because, fix=fix, confidence=confidence,
        explains=explains, exhibits=exhibits[:MOST_EXHIBITS],
    )  # fmt: skip
