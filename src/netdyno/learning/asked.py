"""One question of optimisation and its answer: the rate, the optimizer, the batch size, the threshold to clip at.

Each is an experiment of its own and claims what it measured on fresh seeds; nothing is searched beside it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from netdyno.errors import NetdynoError
from netdyno.knobs._base import Setup
from netdyno.knobs._optimizers import KINDS, built, unavailable
from netdyno.knobs.batch_size import FACTORS
from netdyno.knobs.optimizer import OFFERED
from netdyno.learning import clip_advice
from netdyno.learning.range_test import first_rate, range_test
from netdyno.learning.rate_race import proven
from netdyno.learning.run import train
from netdyno.learning.sweep import FRESH, in_words
from netdyno.learning.tuned import AROUND, Row, bake_off, batch_sweep, turning_point
from netdyno.progress import Listener
from netdyno.records.measured import Interval
from netdyno.records.study import Curve, Run
from netdyno.records.trial import Change

# Seeds that tune a choice: they only choose its rate.
TUNING = (1, 2)
# What else an optimizer's name may cost: two are the fewest that can be compared.
LEAST = 2
# Of the first updates nothing is drawn beyond this many points of the norms.
DRAWN = 400

Cell = Interval | float | str | None


class Asked(NamedTuple):
    """An answer: a sentence, a table, and what is drawn beside it. `dots` are choices with the interval of their score."""

    says: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    curves: tuple[Curve, ...] = ()
    dots: tuple[tuple[str, Interval], ...] = ()


@dataclass(kw_only=True)
class Asking:
    """What an experiment needs. `runs_s` says how long the runs of a question may take together."""

    setup: Setup
    seeds: int
    budget_s: float
    listener: Listener
    clock: Callable[[], float]

    def trained(self, knob: str) -> Callable[[tuple[Change, ...], int], Run]:
        """Makes the runs of a question."""
        return lambda recipe, seed: train(self.setup, seed=seed, recipe=recipe, stage="optim", knob=knob)

    @property
    def fresh(self) -> tuple[int, ...]:
        """Seeds that tuned nothing."""
        return tuple(FRESH + seed for seed in range(1, self.seeds + 1))

    def affordable(self, runs_each: int) -> int:
        """How many choices of so many runs fit into the budget, by the time that one run takes. Raises NetdynoError for fewer than two."""
        began = self.clock()
        first = self.trained("start")((), 1)
        if first.failed is not None:
            raise NetdynoError(
                f"`{self.setup.workload.name}` does not train as it is written",
                because=first.failed,
                hint="`netdyno doctor` says what is wrong with it",
            )
        took = self.clock() - began
        count = int(self.budget_s / max(took * runs_each, 1e-9))
        if count < LEAST:
            raise NetdynoError(
                "cannot compare two choices in this budget",
                because=f"a run takes {took:.1f} s and each choice {runs_each} of them, {took * runs_each:.0f} s",
                hint=f"`--budget {LEAST * took * runs_each / 60 + 1:.0f}m`, or shorter runs with `--updates`",
            )
        return count


def rate(asking: Asking) -> Asked:
    """Which learning rate: a range test, and a race about what it suggests."""
    setup = asking.setup
    walked = range_test(setup, seeds=tuple(range(1, asking.seeds + 1)), listener=asking.listener)
    seeds = tuple(range(1, asking.seeds + 1))
    raced = proven(
        setup, walked, seeds=seeds[:2], more=seeds[2:], also=(first_rate(built(setup)),), trained=asking.trained("learning-rate"),
        listener=asking.listener,
    )  # fmt: skip
    curves = () if walked.curve is None else (walked.curve,)
    if raced is None:
        return Asked("no learning rate trains to its end", ("rate", "score", "seeds", ""), (), curves)
    rows = tuple(
        (float(f"{one:.3g}"), fmean(scores.values()) if scores else None, float(len(scores)), _beside(one, raced.rate, raced.alike))
        for one, scores in sorted(raced.tried.items())
    )  # fmt: skip
    points = [(one, mean) for one, mean, *_ in rows if isinstance(one, float) and isinstance(mean, float)]
    race = Curve(
        name="learning-rate race", x_name="learning rate", y_name="score", x=tuple(one for one, _ in points), log_x=True,
        lines={"score": tuple(mean for _, mean in points)}, marks={"best": raced.rate},
    )  # fmt: skip
    says = f"{raced.says} (the scores chose it, and flatter it); {walked.says}"
    return Asked(says, ("rate", "score", "seeds", ""), rows, (*curves, race))


def _beside(one: float, best: float, alike: Sequence[float]) -> str:
    return "best" if one == best else "not distinguishable" if one in alike else ""


def optimizer(asking: Asking) -> Asked:
    """Which optimizer: each tuned with as many runs, and then judged on fresh seeds."""
    names = [*OFFERED, *(name for name in KINDS if name not in OFFERED)]
    here = [name for name in names if unavailable(name, device=asking.setup.workload.device) is None]
    count = asking.affordable(len(AROUND) * len(TUNING) + asking.seeds)
    rows = bake_off(
        asking.setup, names=here[:count], tuning=TUNING, fresh=asking.fresh, trained=asking.trained("optimizer"),
        listener=asking.listener,
    )  # fmt: skip
    left = [name for name in names if name not in here[:count]]
    said = f"; not asked: {', '.join(left)} (not installed, not for this device, or beyond the budget)" if left else ""
    return _compared(rows, "optimizer", f"{_best(rows)}{said}")


def batch(asking: Asking) -> Asked:
    """How large a batch: each size at its own best rate, over the same data."""
    base = asking.setup.batch_size
    sizes = list(dict.fromkeys((base, *(max(2, round(base * factor)) for factor in FACTORS))))
    data, _ = asking.setup.workload.datasets()
    there = [size for size in sizes if not hasattr(data, "__len__") or size <= len(data)]
    count = asking.affordable(len(AROUND) * len(TUNING) + asking.seeds)
    rows = batch_sweep(
        asking.setup, sorted(there[:count]), tuning=TUNING, fresh=asking.fresh, trained=asking.trained("batch-size"),
        listener=asking.listener,
    )  # fmt: skip
    between = turning_point(rows)
    said = "no size trains to its end"
    if between is not None:
        said = f"from {between[0]} to {between[1]} samples" if between[0] != between[1] else f"{between[0]} samples"
        said += " an update: what is beyond stays behind; each size at its own best rate, over the same data"
    points = sorted((float(row.name), row.score.middle) for row in rows if row.score is not None)
    curve = Curve(
        name="batch size", x_name="samples an update", y_name="score", x=tuple(x for x, _ in points), log_x=True,
        lines={"score": tuple(y for _, y in points)},
    )  # fmt: skip
    return _compared(rows, "batch size", said)._replace(curves=(curve,))


def _best(rows: Sequence[Row]) -> str:
    best = next((row for row in rows if row.alike and row.behind is None and row.score is not None), None)
    if best is None:
        return "no optimizer trains to its end"
    alike = [row.name for row in rows if row.alike and row is not best]
    told = f"; not distinguishable from it: {', '.join(alike)}" if alike else ""
    return f"{best.name} was best in tuning, each at its own best rate{told}"


def _compared(rows: Sequence[Row], what: str, says: str) -> Asked:
    tailed = any(row.tail is not None for row in rows)
    columns = (what, "its best", "score", "behind", *(("rarest class",) if tailed else ()), "state, bytes", "")
    cells = tuple(
        (
            row.name,
            "; ".join(in_words(change) for change in row.recipe[-1:]) if row.recipe else "",
            row.score,
            row.behind,
            *((row.tail,) if tailed else ()),
            float(row.state_bytes),
            row.failed or ("not distinguishable" if row.alike and row.behind is not None else "best in tuning" if row.alike else ""),
        )
        for row in rows
    )  # fmt: skip
    return Asked(says, columns, cells, dots=tuple((row.name, row.score) for row in rows if row.score is not None))


def clip(asking: Asking) -> Asked:
    """Where to clip gradients: how long they are, and what each threshold would have cut."""
    norms, last = clip_advice.observed(asking.setup)
    found = clip_advice.advised(norms, last)
    rows = tuple((one.rule, one.value, one.rate, one.kept) for one in found.thresholds)
    every = max(1, len(norms) // DRAWN)
    x = tuple(float(at) for at in range(0, len(norms), every))
    seen = tuple(max(norms[at : at + every]) for at in range(0, len(norms), every))
    lines = {
        "norm of the gradients": seen,
        found.thresholds[0].rule: (found.recommended,) * len(x),
        "norm 1": (1.0,) * len(x),
    }
    curve = Curve(name="gradients", x_name="update", y_name="norm", x=x, lines=lines)
    return Asked(found.says, ("threshold", "at", "updates cut", "length kept"), rows, (curve,))


QUESTIONS: dict[str, Callable[[Asking], Asked]] = {"rate": rate, "optimizer": optimizer, "batch": batch, "clip": clip}


def as_data(answer: Asked) -> dict[str, Any]:
    """The answer for other programs: a row is a mapping by column."""
    return {
        "says": answer.says,
        "rows": [dict(zip(answer.columns, row, strict=True)) for row in answer.rows],
        "curves": answer.curves,
    }
