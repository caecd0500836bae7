"""Most units of a layer are dead: on no sample do they pass a signal or a gradient.

Looks for:  rows of a matrix that have weights, and exactly zero gradient in all of several looks, most of a layer, in a run
            that learnt little.
Matters:    a unit whose input is below zero for every sample never comes back.
Try:        a lower learning rate, another initialisation (of the bias above all), or leaky units.
Not this:   sparse activity in which every unit works for some sample, embeddings, pruned weights, and idle experts.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients, LossCurve, Weight
from netdyno.rules._base import rule
from netdyno.rules._learning import (
    FALLS,
    NOTHING,
    STAYS,
    curve,
    ends,
    longest,
    reference,
    seen,
    stepper_of,
    weight,
    weights_of,
)
from netdyno.rules._remedies import remedy

MOST = 0.8  # of a layer: networks learn well with half of their units
LEFT = 0.4  # of the loss of knowing nothing that is still there


@rule(suggests=(), stage="dynamics")
def dead_units(gradients: Gradients, curve: LossCurve) -> Finding | None:
    course = longest(curve)
    stepper = stepper_of(gradients, course) if course is not None else None
    if course is None or stepper is None:
        return None
    known, at = reference(course, stepper), ends(course)
    if known <= 0 or at.last < LEFT * known or course.broke is not None:
        return None
    mine = weights_of(gradients, stepper)
    dead = [one for one in mine if _is_dead(one)]
    if not dead or not any(one.gradient for one in mine):
        return None  # with no gradient anywhere it is another fault
    worst = _blamed(dead, mine)
    if worst is None:
        return None
    return Finding(
        says=f"{_share(worst):.0%} of the {worst.shape[0]} units of `{worst.name}` got no gradient in {worst.looks} looks, whatever the"
        f" samples: they are dead, and the loss ended at {at.last:.3g} of {known:.3g}",
        layer="optimisation",
        saves=NOTHING,
        because={
            "dead": _share(worst),
            "units": float(worst.shape[0]),
            "looks": float(worst.looks),
            "last_loss": at.last,
        },
        fix="initialise the layer anew (a bias far below zero kills it), lower the learning rate, or use leaky units",
        where=Place(module=worst.name.rpartition(".")[0] or worst.name),
        confidence=0.85,
        remedies=remedy("initialise-again") + remedy("scale-learning-rate", factor=0.1),
    )


def _blamed(dead: list[Weight], mine: tuple[Weight, ...]) -> Weight | None:
    """The layer that is most dead; of several the last: no gradient passes it, and what lies before gets none either.

    A layer whose bias gets a gradient lives: its weights have none where all that comes in is zero.
    """
    graded = {one.name.rpartition(".")[0] for one in mine if not one.is_matrix and one.gradient}
    own = [one for one in dead if one.zero < one.looks or one.name.rpartition(".")[0] not in graded]
    return max(own, key=lambda one: (_share(one), mine.index(one)), default=None)


def _share(one: Weight) -> float:
    return 1.0 if one.zero == one.looks else one.dead or 0.0


def _is_dead(one: Weight) -> bool:
    if not one.is_matrix or one.module.startswith("pruned") or one.looks < 3 or not one.norm_first or one.missing:
        return False
    return _share(one) >= MOST


SICK = (
    (seen(weight(dead=0.95), weight("head.weight", shape=(10, 96))), curve(*STAYS)),
    (seen(weight(zero=12, dead=None), weight("head.weight", shape=(10, 96))), curve(*STAYS)),
    (
        seen(
            weight(zero=12, gradient=None, dead=None),
            weight("fc2.weight", zero=12, gradient=None, dead=None),
            weight("head.weight", shape=(10, 96), zero=12, gradient=None, dead=None),
            weight("head.bias", shape=(10,)),
        ),
        curve(*STAYS),
    ),
)
# Half of them; it learns; an embedding; a pruned layer; an idle expert, which has no gradient.
WELL = (
    (seen(weight(dead=0.5), weight("head.weight")), curve(*STAYS)),
    (seen(weight(dead=0.95), weight("head.weight")), curve(*FALLS)),
    (seen(weight("table.weight", module="Embedding", dead=0.99), weight("head.weight")), curve(*STAYS)),
    (seen(weight(module="pruned Linear", dead=0.9), weight("head.weight")), curve(*STAYS)),
    (seen(weight("experts.3.weight", missing=12, looks=12, dead=None), weight("head.weight")), curve(*STAYS)),
)
