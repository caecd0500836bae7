"""Some parameters never receive a gradient, though their module takes part in training.

Looks for:  parameters that ask for a gradient, in modules that ran in training with gradients on, and got none in any
            update while others of the model did.
Matters:    they stay as they were initialised: a detached path, a branch that is not used, a result that is thrown away.
Try:        follow the module's output to the loss; look for `.detach()`, `.data`, `torch.no_grad()` or a list of modules.
Not this:   frozen parameters (`requires_grad=False`), and networks that only run without gradients (targets, teachers).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import ParameterUse, Place
from netdyno.rules._base import rule

# A branch that is taken every second time is missed in eight updates with a chance of 1 in 256.
UPDATES = 8


@rule(suggests=())
def unreached_parameters(use: ParameterUse) -> Finding | None:
    if use.updates < UPDATES or not use.unreached_count or not use.received:
        return None
    return Finding(
        says=f"{use.unreached_count} of {use.unreached_count + use.received} trained parameters got no gradient in {use.updates} updates{_first(use)}",
        layer="optimisation",
        saves=Saving(low=0.0, high=0.0),  # it costs quality, not time
        because={
            "unreached": float(use.unreached_count),
            "received": float(use.received),
            "updates": float(use.updates),
            "unreached_elements": float(use.unreached_elements),
        },
        fix="connect them with the loss, or say `requires_grad_(False)` when they are meant to stay",
        where=Place(module=use.unreached[0].rpartition(".")[0] or use.unreached[0]) if use.unreached else None,
        confidence=0.8,  # a rare branch, an expert of many, needs more updates than a short look has
    )


def _first(use: ParameterUse) -> str:
    return f": `{use.unreached[0]}`{' and others' if use.unreached_count > 1 else ''}" if use.unreached else ""


def _use(*names: str, updates: int = 20, received: int = 10, frozen: int = 0) -> ParameterUse:
    return ParameterUse(
        updates=updates,
        received=received,
        frozen=frozen,
        unreached=names,
        unreached_count=len(names),
        unreached_elements=64 * len(names),
        elements=64 * (len(names) + received),
    )


SICK = ((_use("encoder.block.weight", "encoder.block.bias"),),)
# All reached; a frozen backbone; a target network, which never runs with gradients and is no part of the count;
# too few updates; manual training of which no gradient was seen.
WELL = (
    (_use(),),
    (_use(frozen=40),),
    (_use(received=6),),
    (_use("experts.3.weight", updates=3),),
    (_use("head.weight", received=0),),
)
