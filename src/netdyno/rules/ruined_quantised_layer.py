"""Eight bits are too few for one layer of a quantised model.

Looks for:  an int8 model whose answers are ruined, and a layer whose noise is far above that of all others.
Matters:    one scale for all weights of a layer follows the largest one; the small ones become 0.
Try:        keep that layer in float, or give each channel a scale of its own.
Not this:   calibration on unreal inputs (see `random-calibration`); the small loss that int8 always has.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.shipping import Derived, ShippingUse
from netdyno.rules._base import rule
from netdyno.rules._shipping import effect, numbers, ruined, shipped

# Eight bits give a layer 30 to 45 dB. At 15 dB a fifth of the signal is noise.
NOISY = 15.0


@rule(stage="use")
def ruined_quantised_layer(use: ShippingUse) -> Finding | None:
    sick = next((made for made in use.derived if _noisy(made)), None)
    if sick is None:
        return None
    name, ratio = sick.layers[0]
    return Finding(
        says=f"layer `{name}` of `{sick.model}` is {ratio:.0f} dB above its noise in int8{_others(sick)}: {effect(sick)}",
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because=numbers(sick) | {"layer_db": ratio},
        fix=f"keep `{name}` in float, or quantise its weights per channel",
        where=sick.where,
        confidence=0.9,
    )


def _noisy(made: Derived) -> bool:
    return made.how == "int8" and bool(made.layers) and made.layers[0][1] < NOISY and ruined(made)


def _others(made: Derived) -> str:
    return f", the others {made.layers[1][1]:.0f} dB and more" if len(made.layers) > 1 else ""


SICK = ((shipped(how="int8", error=0.9, agreement=0.6, layers=(("fc1", 2.0), ("fc2", 38.0))),),)
# Noise that does no harm; healthy layers.
WELL = (
    (shipped(how="int8", error=0.02, agreement=0.995, layers=(("fc1", 12.0), ("fc2", 38.0))),),
    (shipped(how="int8", error=0.03, agreement=0.99, layers=(("fc1", 33.0), ("fc2", 38.0))),),
)
