"""The sides of a trial: a target under given changes that steps only when told."""

from collections.abc import Sequence

from netdyno.arms.base import Arm, steps_per_turn
from netdyno.arms.in_process import InProcessArm
from netdyno.arms.resident import LIMIT_S, ResidentArm
from netdyno.arms.zygote import close_shared as shut
from netdyno.errors import TargetError
from netdyno.records.trial import Change, Form
from netdyno.targets.workload import Workload, load

__all__ = ["Arm", "InProcessArm", "ResidentArm", "open_arm", "shut", "steps_per_turn"]


def open_arm(
    target: Workload | str,
    recipe: Sequence[Change] = (),
    *,
    form: Form,
    seed: int,
    limit_s: float | None = LIMIT_S,
    fresh: bool = False,
) -> Arm:
    """One side, built and warmed up: in this process, or a resident of its own. Raises ArmError.

    A resident is built from the target's reference (`work.py:Digits`). `fresh` starts it as a new interpreter: set it
    for all sides of a trial as soon as one recipe has environment variables, or a difference of birth is measured.
    """
    if form == "in-process":
        workload = load(target) if isinstance(target, str) else target
        return InProcessArm(workload, recipe, seed=seed, limit_s=limit_s)
    if not isinstance(target, str):
        raise TargetError(
            f"`{target.name}` cannot be put into a process of its own",
            because="it was given as an object, and a process builds its target from a name",
            hint="give its reference, as in `work.py:Digits`",
        )
    return ResidentArm(target, recipe, seed=seed, limit_s=limit_s, fresh=fresh)
