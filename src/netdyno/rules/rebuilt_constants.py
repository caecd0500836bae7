"""The same constant tensors are made again in every update.

Looks for:  masks, ranges and matrices of ones made anew in each update, in a tenth of its time.
Matters:    they are the same each time: the memory is taken, filled and given back for nothing, and copied to the device.
Try:        make them once and keep them: `self.register_buffer("mask", torch.tril(torch.ones(n, n)))`.
Not this:   noise and dropout masks, which differ; a few small ones, which cost microseconds.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import LineCosts, Op, OpTable, Place, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

# What gives the same values for the same sizes. `fill_` stands for `ones` and `full`; a gradient's zeros are `zero_`.
CONSTANTS = ("aten::arange", "aten::triu", "aten::tril", "aten::linspace", "aten::eye", "aten::ones", "aten::full", "aten::tril_indices", "aten::triu_indices")  # fmt: skip
SHAPES = ("aten::triu", "aten::tril", "aten::arange", "aten::linspace", "aten::eye")
WORTH_A_WORD = 0.10
WORK = ("forward", "loss", "backward", "optimizer")


@rule(suggests=())
def rebuilt_constants(table: OpTable, timeline: StepTimeline, lines: LineCosts | None = None) -> Finding | None:
    made = [op for op in table.ops if op.name in CONSTANTS and op.calls >= 1]
    if not any(op.name in SHAPES for op in made):
        return None
    whole = table.operator_s + table.python_s
    seconds = sum(op.seconds for op in made)
    share = timeline.share(*WORK) * (seconds / whole if whole else 0.0)
    if share < WORTH_A_WORD:
        return None
    worst = max(made, key=lambda op: op.seconds)
    return Finding(
        says=f"constant tensors are made anew in every update: {sum(op.calls for op in made):.0f} calls, most of all"
        f" `{worst.name.removeprefix('aten::')}`, take {share:.0%} of the time",
        layer="compute",
        saves=Saving(low=share / 2, high=share),
        because={"calls": sum(op.calls for op in made), "seconds": seconds, "update_s": whole},
        where=_costliest(lines),
        fix="make the mask or range once and keep it as a buffer of the module",
        confidence=0.75,
        explains=("python-bound", "costly-line"),
    )


def _costliest(lines: LineCosts | None) -> Place | None:
    """The line of the forward pass that was met most often, where it stands out: what is made there takes the time."""
    met = lines.of("forward") if lines is not None else ()
    stands_out = bool(met) and (len(met) == 1 or met[0].samples >= 2 * met[1].samples)
    return met[0].where if stands_out else None


def _case(name: str, seconds: float) -> tuple[OpTable, StepTimeline]:
    step = Split(running=0.01)
    ops = (Op(name=name, calls=4, seconds=seconds), Op(name="aten::mm", calls=50, seconds=0.007))
    table = OpTable(ops=ops, dispatches=54, operator_s=0.007 + seconds, python_s=0.001)
    return table, StepTimeline(steps=100, step=step, phases={"forward": step})


SICK = (_case("aten::triu", 0.003),)
# A range of positions; noise; zeros for a sum.
WELL = (_case("aten::arange", 0.00001), _case("aten::normal_", 0.003), _case("aten::zero_", 0.003))
