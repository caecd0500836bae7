"""An averaged copy of the model gets weights and no running statistics.

Looks for:  a module that is only evaluated, whose weights move between evaluations while its normalisation layers stand
            at zero mean and unit variance as they were made, beside a trained model of the same kind whose statistics
            are far from that.
Matters:    the copy normalises by statistics of no data at all, so it scores far below the weights it holds.
Try:        copy (or average) the buffers too, `AveragedModel(use_buffers=True)`, or `update_bn`.
Not this:   a fixed random network, a copy whose buffers move, models without running statistics.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import BareCopy, ModeUse
from netdyno.rules._base import rule

# The copy's weights move in two rounds at least, and the trained statistics are a tenth of a unit from a new layer's.
MOVED, FAR = 2, 0.1


@rule(stage="use")
def unaveraged_buffers(use: ModeUse) -> Finding | None:
    bare = [copy for copy in use.copies if copy.moved >= MOVED and copy.trained_distance >= FAR]
    if not bare:
        return None
    worst = max(bare, key=lambda copy: copy.trained_distance)
    return Finding(
        says=f"a copy of `{worst.model}` is evaluated whose weights follow the trained ones and whose {worst.norms} normalisation layers never "
        f"got statistics: they stand as they were made, after {worst.rounds} rounds",
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={"norms": float(worst.norms), "moved": float(worst.moved), "trained_distance": worst.trained_distance},
        fix="copy the buffers along with the weights, or recompute them with `torch.optim.swa_utils.update_bn`",
        where=worst.where,
        confidence=0.9,
    )


def _use(**fields: object) -> ModeUse:
    known: dict[str, object] = {"model": "Net", "norms": 2, "rounds": 5, "moved": 4, "trained_distance": 9.4}
    return ModeUse(updates=100, models=(), copies=(BareCopy(**(known | fields)),))  # type: ignore[arg-type]


SICK = ((_use(),),)
WELL = ((_use(moved=0),), (_use(trained_distance=0.01),), (ModeUse(updates=100, models=()),))
