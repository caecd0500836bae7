"""A regression is judged by how often it is exactly right.

Looks for:  numbers that a model gives in evaluation, compared by `==` with true values that are no whole numbers, and hardly
            any of them equal.
Matters:    the score stays at nothing however good the model is; what is chosen by it is chosen by chance.
Try:        a mean error, or R², or the share of answers within a tolerance.
Not this:   true values that are whole numbers, as ratings are; classes; answers that are equal because they are copied.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import ModeUse
from netdyno.rules._base import rule

# A handful may be a check by eye.
COMPARED = 64
# Where more are exactly equal they are answers from a table, and may well be counted.
EQUAL = 0.01


# It comes before what is chosen by such a score.
@rule(stage="loss")
def exact_hits_of_numbers(modes: ModeUse) -> Finding | None:
    if modes.hits_compared < COMPARED or modes.hits_equal > EQUAL * modes.hits_compared or not modes.updates:
        return None
    return Finding(
        says=f"of {modes.hits_compared} predicted numbers {modes.hits_equal} are exactly equal to the true ones: a score that counts "
        "them says nothing of how good a regression is",
        layer="generalisation",
        saves=Saving(low=0.0, high=0.0),
        because={"compared": float(modes.hits_compared), "equal": float(modes.hits_equal)},
        fix="judge it by a mean error or by R²",
        where=modes.hits_where,
        confidence=0.9,
        explains=("wrong-best-direction", "unused-best-weights"),
    )


def _case(compared: int, equal: int) -> tuple[ModeUse]:
    where = Place(file="train.py", line=40)
    return (ModeUse(updates=300, models=(), hits_compared=compared, hits_equal=equal, hits_where=where),)


SICK = (_case(2220, 0), _case(2220, 3))
# Nobody compares; a look at a few; answers out of a table.
WELL = (_case(0, 0), _case(12, 0), _case(2220, 2100))
