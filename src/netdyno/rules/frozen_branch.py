"""An exported model answers as its example did: a branch or a value of the example was frozen into it.

Looks for:  a trace or an export made in evaluation mode, whose answers to real inputs differ from the model's own.
Matters:    what Python decides in `forward`, and numbers that it reads from a tensor, are decided once, for the example.
Try:        `torch.where` and tensors instead of `if`, `.item()` and `int(...)`; `torch.jit.script`; an example like the real inputs.
Not this:   dropout that was still on (see `traced-in-training`); rounding; lower precision.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place, Warned, Warnings
from netdyno.records.shipping import Derived, ShippingUse
from netdyno.rules._base import rule
from netdyno.rules._shipping import differs, effect, numbers, shipped


@rule(stage="use")
def frozen_branch(use: ShippingUse, warnings: Warnings | None) -> Finding | None:
    worst = max((made for made in use.derived if _frozen(made)), key=lambda made: made.error or 0.0, default=None)
    if worst is None:
        return None
    warned = next((one for one in warnings.warnings if one.category == "TracerWarning"), None) if warnings else None
    return Finding(
        says=f"what was exported ({worst.how}) of `{worst.model}` keeps what its example decided{_ranges(worst)}: {effect(worst)}",
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because=numbers(worst),
        fix="decide with tensors in `forward` (`torch.where`, no `if`, no `.item()`), or `torch.jit.script` it; then compare on real inputs",
        where=worst.where if warned is None or warned.where is None else warned.where,
        confidence=0.9,
    )


def _frozen(made: Derived) -> bool:
    return made.how in ("trace", "export", "onnx") and not made.awake and differs(made)


def _ranges(made: Derived) -> str:
    if made.example is None or made.real is None or not made.outside:
        return ""
    return f" (it lay in {made.example.low:.3g} … {made.example.high:.3g}, real inputs in {made.real.low:.3g} … {made.real.high:.3g})"


TRACER = Warnings(
    warnings=(
        Warned(
            category="TracerWarning",
            message="Converting a tensor to a Python boolean",
            where=Place(file="net.py", line=9),
        ),
    )
)
# With the tracer's warning; without it, through another exporter.
SICK = ((shipped(error=1.3, agreement=0.8, outside=0.6), TRACER), (shipped(error=0.5, how="onnx"),))
# The same answers, warning or not; dropout; lower precision; nothing compared.
WELL = (
    (shipped(), TRACER),
    (shipped(awake=("drop1",), error=0.4),),
    (shipped(how="int8", error=0.05),),
    (shipped(error=None, rows=0),),
)
