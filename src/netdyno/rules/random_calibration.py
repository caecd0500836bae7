"""A quantised model was calibrated on inputs that are nothing like the real ones.

Looks for:  an int8 model whose calibration inputs leave out a part of the real inputs' range, and answers that are ruined.
Matters:    ranges are taken from what was seen: real values beyond them are cut off.
Try:        calibrate on a few hundred real training samples, prepared as for the model.
Not this:   a layer that eight bits cannot hold (see `ruined-quantised-layer`); the small loss that int8 always has.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.shipping import Derived, ShippingUse
from netdyno.rules._base import rule
from netdyno.rules._shipping import effect, numbers, ruined, shipped

# A twentieth of the real numbers is cut off: more than outliers, which a calibration leaves out on purpose.
CUT = 0.05


@rule(stage="use")
def random_calibration(use: ShippingUse) -> Finding | None:
    sick = next((made for made in use.derived if _cut_off(made)), None)
    if sick is None or sick.example is None or sick.real is None:
        return None
    return Finding(
        says=f"`{sick.model}` was calibrated on inputs in {sick.example.low:.3g} … {sick.example.high:.3g}, and real ones lie in "
        f"{sick.real.low:.3g} … {sick.real.high:.3g}: {sick.outside or 0:.0%} of them are cut off, {effect(sick)}",
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because=numbers(sick) | {"outside": float(sick.outside or 0.0)},
        fix="calibrate on real training samples, prepared as for the model",
        where=sick.where,
        confidence=0.95,
    )


def _cut_off(made: Derived) -> bool:
    return made.how == "int8" and made.calibrated and (made.outside or 0.0) > CUT and ruined(made)


SICK = ((shipped(how="int8", calibrated=True, outside=0.6, error=0.8, agreement=0.52),),)
# Real samples; a range that leaves out a little and does no harm.
WELL = (
    (shipped(how="int8", calibrated=True, outside=0.0, error=0.03, agreement=0.995),),
    (shipped(how="int8", calibrated=True, outside=0.2, error=0.03, agreement=0.995),),
)
