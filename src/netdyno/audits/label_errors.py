"""Labels that contradict what the inputs say.

Looks for:  labels that three plain models contradict, out of sample, also where they are surest and agree. Where classes overlap,
            errors fade out as models get surer; wrong labels stay at their share.
Matters:    the model learns them by heart, and the score is measured against them.
Try:        look at the named samples first; label them again, leave them out, or use a loss that bears noise.
Not this:   classes that overlap, a few odd samples, models that are too weak to tell: then nothing is said. Targets that are random
            by nature at one rate everywhere (the next thing somebody chooses) look the same: above a third it is a suspicion.
"""

from typing import Any

import numpy as np

from netdyno.audits._base import MOST_EXHIBITS, Array, Skip, View, audit, wrong
from netdyno.audits._features import class_name
from netdyno.audits._learners import Answers, answers
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# Fewer rows have fewer than two wrong labels per per cent.
ENOUGH = 100
# Clean sets (digits, wine, iris, breast cancer, blobs) have at most 0.3 % contradicted in the surest half.
FLOOR = 0.015
# Weaker models err by themselves even where they are surest; clean tables of 240 rows had 2 % by this bound.
FLOOR_OF_WEAK = 0.05
# One false alarm in a thousand sets at the floor itself.
LEVEL = 1e-3
# Three models that agree so far beyond chance (a kappa) leave errors of their own only among the least sure rows.
STRONG = 0.85
# Below, labels that are random by nature (a logistic model of unit slope: 0.64) look like wrong ones.
LEAST = 0.66
# Overlapping classes have at most 0.6 of the errors in the surest quarter that they have in the next; wrong labels have as many.
FLAT, RISING = 0.68, 0.01
# With much noise the models agree less; then wrong labels are a suspicion, and only where errors hardly rise at all.
SUSPECTED, FLATTER, FLAT_YET = 0.56, 0.75, 0.65
# Models that hardly beat the commonest class contradict whatever is not of it.
SKILL = 0.15
# Nobody labels worse than one in three; a target may well be as random.
BY_NATURE = 1 / 3


@audit(stage="data", dear=True)
def label_errors(view: View) -> Finding | None:
    told = answers(view)
    if len(told.rows) < ENOUGH:
        raise Skip(f"{len(told.rows)} labelled samples are too few to tell wrong labels from hard ones")
    counting = _cleanlab()
    contradicted = _contradicted(told)
    sure, confidence, least = _surest(told)
    floor = _at_least(int(contradicted[sure].sum()), len(sure)) if len(sure) else 0.0
    if floor <= least:
        return None
    share = float(contradicted[sure].mean())
    named = _named(told, contradicted, counting)
    return wrong(
        f"about {share:.1%} of the training labels contradict their inputs: of the {len(sure)} samples of which three plain models "
        f"are surest, out of sample, {int(contradicted[sure].sum())} carry another label than all would give",
        fix="look at the samples named here and label them again, or train with a loss that bears wrong labels",
        because={
            "contradicted": share, "at_least": floor, "rows": float(len(told.rows)), "named": float(len(named)),
        },
        exhibits=tuple(_exhibit(view, told, place) for place in named[:MOST_EXHIBITS]),
        confidence=confidence if share < BY_NATURE else min(confidence, 0.6),
        explains=("weak-subgroup",),
    )  # fmt: skip


def _cleanlab() -> Any:
    try:
        from cleanlab import filter as counting
    except ImportError as error:
        raise Skip("cleanlab is not installed: `pip install netdyno[data]`") from error
    return counting


def _contradicted(told: Answers) -> Array:
    """The rows whose label none of the models gives, and all agree on another."""
    answered = told.each.argmax(2)
    return (answered != told.given).all(0) & (answered == answered[0]).all(0)


def _surest(told: Answers) -> tuple[Array, float, float]:
    """The rows in which a wrong label can be told from a hard sample, how sure one may be, and the share that says nothing yet.

    Strong models are asked about the surest half of the rows, others about the surest quarter only.
    """
    order = _surest_first(told)
    missed = told.together.argmax(1) != told.given
    alike = _agreement(told.each.argmax(2), len(told.kinds))
    if 1 - missed.mean() / max(told.guess, 1e-9) < SKILL:
        return order[:0], 0.0, FLOOR
    quarter = len(order) // 4
    first, second, third = (missed[order[at * quarter : (at + 1) * quarter]] for at in range(3))
    if alike >= STRONG and not _rising(first, second):
        return order[: 2 * quarter], 0.9, FLOOR
    if alike >= LEAST and first.mean() >= FLAT * second.mean():
        return order[:quarter], 0.85, FLOOR_OF_WEAK
    if alike >= SUSPECTED and first.mean() >= max(FLATTER * second.mean(), FLAT_YET * third.mean()):
        return order[:quarter], 0.6, FLOOR_OF_WEAK
    return order[:0], 0.0, FLOOR


def _rising(first: Array, second: Array) -> bool:
    """Whether the less sure rows are contradicted more often, beyond chance: as they are where classes overlap."""
    from scipy.stats import fisher_exact

    table = [[int(second.sum()), int((~second).sum())], [int(first.sum()), int((~first).sum())]]
    return float(fisher_exact(table, alternative="greater").pvalue) < RISING


def _surest_first(told: Answers) -> Array:
    """Rows by the distance of the two likeliest classes, whatever their label."""
    two = np.sort(told.together, axis=1)[:, -2:]
    return np.argsort(two[:, 0] - two[:, 1], kind="stable")


def _agreement(answered: Array, kinds: int) -> float:
    """How often the three models agree, beyond chance: 0 is chance, 1 is always."""
    shares = np.bincount(answered.ravel(), minlength=kinds) / answered.size
    by_chance = float((shares ** len(answered)).sum())
    agreed = float((answered == answered[0]).all(0).mean())
    return (agreed - by_chance) / max(1.0 - by_chance, 1e-9)


def _at_least(count: int, rows: int) -> float:
    """The exact lower bound of a share."""
    from scipy.stats import beta

    return float(beta.ppf(LEVEL, count, rows - count + 1)) if count else 0.0


def _named(told: Answers, contradicted: Array, counting: Any) -> Array:
    """Rows to look at, the likeliest first: what the confident joint names and all models contradict."""
    found = counting.find_label_issues(
        told.given, told.together, return_indices_ranked_by="normalized_margin", n_jobs=1
    )
    return np.array([place for place in found if contradicted[place]], dtype=int)


def _exhibit(view: View, told: Answers, place: int) -> Any:
    given, likely = told.kinds[told.given[place]], told.kinds[int(told.together[place].argmax())]
    sure = float(told.together[place].max())
    says = f"labelled {class_name(view, given)}, looks like {class_name(view, likely)} ({sure:.0%})"
    return shown(view, view.train, int(told.rows[place]), says)


def _flipped(share: float, **fields: Any) -> View:
    view = specimen("table", sizes=(600, 200), **fields)
    y = view.train.y
    assert y is not None
    chance = np.random.default_rng(7)
    wrong_ones = chance.random(len(y)) < share
    other = (y + chance.integers(1, y.max() + 1, len(y))) % (y.max() + 1)
    return specimen("table", sizes=(600, 200), train={"y": np.where(wrong_ones, other, y)}, **fields)


SICK = (lambda: _flipped(0.3), lambda: _flipped(0.1, seed=1))
# As it is; pictures; two classes that overlap by nature.
WELL = (
    lambda: specimen("table", sizes=(600, 200)),
    lambda: specimen("images", sizes=(400, 100)),
    lambda: specimen("table", sizes=(600, 200), classes=2, seed=3),
)
