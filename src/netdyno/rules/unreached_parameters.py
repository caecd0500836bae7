"""Some parameters never receive a gradient, though their module takes part in training.

Looks for:  parameters that ask for a gradient, in modules that ran in training with gradients on, and got none in any
            update while others of the model did.
Matters:    they stay as they were initialised: a detached path, a branch that is not used, a result that is thrown away.
Try:        follow the module's output to the loss; look for `.detach()`, `.data`, `torch.no_grad()` or a list of modules.
Not this:   frozen parameters (`requires_grad=False`), and networks that only run without gradients (targets, teachers).
"""

from netdyno.records.calls import CallTraces
from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import ParameterUse, Place
from netdyno.rules._base import rule
from netdyno.rules._calls import first
from netdyno.rules._remedies import remedy

# A branch that is taken every second time is missed in eight updates with a chance of 1 in 256.
UPDATES = 8


@rule(suggests=(), stage="structure")
def unreached_parameters(use: ParameterUse, traces: CallTraces | None = None) -> Finding | None:
    if use.updates < UPDATES or not use.unreached_count or use.ran is False:
        return None
    return Finding(
        says=f"{use.unreached_count} of {use.parameters} parameters got no gradient in {use.updates} updates{_first(use)}",
        layer="optimisation",
        saves=Saving(low=0.0, high=0.0),  # it costs quality, not time
        because={
            "unreached": float(use.unreached_count),
            "parameters": float(use.parameters),
            "updates": float(use.updates),
        },
        fix="connect them with the loss, or say `requires_grad_(False)` when they are meant to stay",
        where=_cut(traces) or (Place(module=use.unreached[0]) if use.unreached else None),
        # Of a module that was seen to run only a rare branch, an expert of many, stays innocent. Nobody looked: it may be
        # a part that training does not need, such as a head for later.
        confidence=0.8 if use.ran else 0.5,
        remedies=remedy("keep-graph"),
    )


def _cut(traces: CallTraces | None) -> Place | None:
    """The one line that takes values out of the graph; of several nobody knows which."""
    trace = first(traces)
    lines = {call.where for call in trace.calls if call.name in ("detach", "detach_")} if trace is not None else set()
    return lines.pop() if len(lines) == 1 else None


def _first(use: ParameterUse) -> str:
    return f": `{use.unreached[0]}`{' and others' if use.unreached_count > 1 else ''}" if use.unreached else ""


def _use(*names: str, updates: int = 20, ran: bool | None = True) -> ParameterUse:
    return ParameterUse(
        updates=updates, parameters=10 + len(names), unreached=names, unreached_count=len(names), ran=ran
    )


# A detached block; one of which nobody knows whether it ran (a suspicion).
SICK = (
    (_use("encoder.block.weight", "encoder.block.bias"),),
    (_use("encoder.block.weight", ran=None),),
)
# All reached, as with a frozen backbone, whose parameters don't ask, and a target network, which never runs with
# gradients; too few updates; a head that only evaluation uses.
WELL = (
    (_use(),),
    (_use("experts.3.weight", updates=3),),
    (_use("auxiliary.weight", ran=False),),
)
