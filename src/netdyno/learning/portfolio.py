"""Recipes that the field trusts: where a search over many knobs begins. Each is a hypothesis, and a trial like any other.

A sampler needs some ten trials before it draws conclusions, and what others found out before is likelier to train than what a die says. That good starts
pay for small budgets is known from the configuration of whole pipelines (Feurer et al. 2022, Auto-sklearn 2.0).
"""

from collections.abc import Mapping
from typing import Any

from netdyno.knobs._base import Setup, written
from netdyno.learning.space import Recipe, distinct
from netdyno.records.trial import Change


def portfolio(kinds: Mapping[str, type[Any]], setup: Setup, rate: Recipe) -> tuple[Recipe, ...]:
    """Those that can be said with `kinds`; `rate` is what a range test suggests, or nothing. Settings that are refused are left to the search to leave out."""

    def first(knob: str) -> Recipe:
        offered = kinds[knob]().settings(setup) if knob in kinds else ()
        return tuple(written(one) for one in offered if one.refuses(setup) is None)[:1]

    recipes = (
        # One cycle at the rate of a range test (Smith 2018).
        (*rate, _schedule("one-cycle")),
        # As transformers and late convolutional networks are trained (Loshchilov & Hutter 2019; Liu et al. 2022).
        (_optimizer("adamw", 3e-3), _schedule("cosine"), WARM, DECAYED, SMOOTH),
        # As residual networks are trained for images (He et al. 2016; He et al. 2019), without what is only for images.
        (_optimizer("nesterov", 0.1), _schedule("cosine"), WARM, SMOOTH),
        # Smaller batches where data are few (Masters & Luschi 2018).
        (*first("batch-size"), *rate, _schedule("cosine")),
        # Rates that follow the size of the weights (Shazeer & Stern 2018).
        (_optimizer("adafactor", 0.03), _schedule("one-cycle")),
        # Rare classes count as much as common ones (Cui et al. 2019), where there are any.
        *((change, *rate) for name in ("class-weights", "weighted-sampler") for change in first(name)),
    )
    said = [tuple(change for change in recipe if change.id in kinds) for recipe in recipes]
    return distinct(*said)


def _schedule(course: str) -> Change:
    return Change(id="schedule", settings={"course": course, "peak": 1.0})


def _optimizer(name: str, rate: float) -> Change:
    return Change(id="optimizer", settings={"name": name, "rate": rate})


WARM = Change(id="warmup", settings={"form": "share", "amount": 0.1})
DECAYED = Change(id="weight-decay", settings={"value": 0.05})
SMOOTH = Change(id="label-smoothing", settings={"smoothing": 0.1})
