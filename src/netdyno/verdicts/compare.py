"""Two records beside each other: what differs in how they were measured, and, if nothing does, in what was."""

from collections.abc import Callable, Collection
from statistics import median
from typing import Literal, NamedTuple

from netdyno.errors import ComparisonError
from netdyno.records.environment import Environment
from netdyno.records.measured import Measurement
from netdyno.records.record import Baseline, Record

# The most telling first. Threads lead: the commonest reason why a colleague is faster, and the quickest to put right.
ORDER = (
    "threads",
    "machine",
    "processor",
    "cores",
    "memory_bytes",
    "device",
    "driver",
    "system",
    "torch",
    "python",
    "seed",
)
# Keys that hold many: `packages.numpy` is one of them.
GROUPS = ("flags", "build", "packages")

# A 99th percentile of fewer samples is an extreme value under another name.
ENOUGH_FOR_P99 = 1000


class Difference(NamedTuple):
    """One key in which two environments differ, and both values; "absent" where one has none."""

    key: str
    a: str
    b: str


class Row(NamedTuple):
    """One quantity of two records. `change` is (after - before) / before; None, with a reason, where it can't be said."""

    quantity: str
    unit: str
    better: Literal["lower", "higher"]
    before: float | None
    after: float | None
    change: float | None
    reason: str = ""


def differences(a: Environment, b: Environment) -> tuple[Difference, ...]:
    """The keys in which two environments differ, the most telling first. When it was taken is not one of them."""
    plain = [Difference(key, str(getattr(a, key)), str(getattr(b, key))) for key in ORDER]
    found = [difference for difference in plain if difference.a != difference.b]
    found += _in_mapping("flags", a.flags, b.flags)
    if a.torch == b.torch and a.build != b.build:
        # Another version has another build anyway.
        found.append(Difference("build", *_first_unlike(a.build, b.build)))
    return (*found, *_in_mapping("packages", a.packages, b.packages))


def refuse_unequal(a: Environment, b: Environment, *, allow: Collection[str] = ()) -> None:
    """Raises ComparisonError, naming the keys that differ, unless all of them are in `allow`.

    `allow` takes keys as `differences` names them, or the group alone: "packages" allows every package.
    """
    found = [d for d in differences(a, b) if d.key not in allow and d.key.partition(".")[0] not in allow]
    if not found:
        return
    said = ", ".join(f"{d.key} (`{d.a}` against `{d.b}`)" for d in found[:4])
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    raise ComparisonError(
        f"two measurements may not be compared: {', '.join(f'`{d.key}`' for d in found[:4])} differ{'s' * (len(found) == 1)}",
        because=f"they differ in {said}{more}",
        hint=f"measure both on one machine with the same versions, threads and seed, or `--allow {found[0].key}`",
    )


def compare(before: Record, after: Record, *, allow: Collection[str] = ()) -> tuple[Row, ...]:
    """The baselines of two records, quantity by quantity, with changes worked out from the raw samples.

    The changes carry no interval and no verdict: the two were not taken in turns, so drift of the machine is in them.
    Raises ComparisonError for records of different workloads or environments, or without a baseline.
    """
    if before.target.name != after.target.name:
        raise ComparisonError(
            f"`{before.target.name}` and `{after.target.name}` may not be compared",
            because="they are two workloads",
            hint="compare two runs of one workload; `netdyno runs` lists them",
        )
    a, b = _baseline(before), _baseline(after)
    assert before.environment is not None
    assert after.environment is not None
    refuse_unequal(before.environment, after.environment, allow=allow)
    items = (before.target.items_per_step, after.target.items_per_step)
    return tuple(_row(quantity, a, b, items) for quantity in QUANTITIES)


class _Quantity(NamedTuple):
    """How a quantity is read off a baseline; `items` is the number of items in a step."""

    name: str
    unit: str
    better: Literal["lower", "higher"]
    read: Callable[[Baseline, int], float | None]
    absent: str = "not measured"


def _middle(measurement: Measurement) -> float | None:
    return median(measurement.samples) if measurement.samples else None


def _throughput(baseline: Baseline, items: int) -> float | None:
    step = _middle(baseline.step)
    return items / step if step else None


def _running_share(baseline: Baseline, _: int) -> float | None:
    wall = sum(split.wall for split in baseline.phases.values())
    return sum(split.running for split in baseline.phases.values()) / wall if wall else None


def _p99(baseline: Baseline, _: int) -> float | None:
    samples = sorted(baseline.step.samples)
    return samples[int(0.99 * (len(samples) - 1))] if len(samples) >= ENOUGH_FOR_P99 else None


def _over_epochs(baseline: Baseline, _: int) -> float | None:
    stability = baseline.stability
    return stability.over_epochs.middle if stability and stability.over_epochs else None


def _over_seeds(baseline: Baseline, _: int) -> float | None:
    stability = baseline.stability
    return stability.over_seeds.middle if stability and stability.over_seeds else None


QUANTITIES = (
    _Quantity("epoch", "s", "lower", lambda b, _: b.epoch_s),
    _Quantity("step", "s", "lower", lambda b, _: _middle(b.step)),
    _Quantity("step, 99th percentile", "s", "lower", _p99, f"fewer than {ENOUGH_FOR_P99} steps"),
    _Quantity("data", "s", "lower", lambda b, _: _middle(b.data)),
    _Quantity("forward", "s", "lower", lambda b, _: _middle(b.forward)),
    _Quantity("backward", "s", "lower", lambda b, _: _middle(b.backward)),
    _Quantity("optimizer", "s", "lower", lambda b, _: _middle(b.optimizer)),
    _Quantity("first batch", "s", "lower", lambda b, _: b.first_batch_s),
    _Quantity("throughput", "items/s", "higher", _throughput),
    _Quantity("share of a step spent running", "1", "higher", _running_share),
    _Quantity("peak memory", "B", "lower", lambda b, _: float(b.peak_bytes)),
    _Quantity("std of validation loss over rounds", "1", "lower", _over_epochs),
    _Quantity("std of validation loss over seeds", "1", "lower", _over_seeds),
)


def _row(quantity: _Quantity, a: Baseline, b: Baseline, items: tuple[int, int]) -> Row:
    before, after = quantity.read(a, items[0]), quantity.read(b, items[1])
    change, reason = None, ""
    if before is None or after is None:
        reason = quantity.absent
    elif before == 0:
        reason = "it was 0 before"
    else:
        change = (after - before) / before
    return Row(quantity.name, quantity.unit, quantity.better, before, after, change, reason)


def _baseline(record: Record) -> Baseline:
    if record.baseline is None or record.environment is None:
        raise ComparisonError(
            f"`{record.id}` has nothing to compare",
            because="it did not get as far as its baseline",
            hint="finish it with `netdyno tune --resume`, or choose another run from `netdyno runs`",
        )
    return record.baseline


def _in_mapping(group: str, a: dict[str, str], b: dict[str, str]) -> list[Difference]:
    names = sorted({*a, *b})
    every = [Difference(f"{group}.{name}", a.get(name, "absent"), b.get(name, "absent")) for name in names]
    return [difference for difference in every if difference.a != difference.b]


def _first_unlike(a: str, b: str) -> tuple[str, str]:
    """The first lines of two texts that are not the same."""
    for x, y in zip(a.splitlines(), b.splitlines(), strict=False):
        if x != y:
            return x.strip(), y.strip()
    return f"{len(a.splitlines())} lines", f"{len(b.splitlines())} lines"
