"""A layer is divided by a norm that was never estimated.

Looks for:  a model that is evaluated with `torch.nn.utils.spectral_norm`, whose estimate of a layer's norm is far below the
            true one, after training, and that is not trained any more.
Matters:    the layer is several times too large, and all that comes after it gets inputs that it was not trained with.
Try:        load the buffers `weight_u` and `weight_v` beside the weights, or call the model a few times in training mode.
Not this:   an evaluation before training begins; an estimate that a few steps have brought near.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import ModelModes, ModeUse
from netdyno.rules._base import rule

# One step of the power iteration is taken in each training call; a few of them come nearer than this from anywhere.
FAR = 2.0


@rule(stage="use")
def unready_spectral_norm(modes: ModeUse) -> Finding | None:
    far = [one for one in modes.models if one.spectral_gain is not None and one.spectral_gain >= FAR and one.scored]
    if not far or not modes.updates:
        return None
    model = max(far, key=lambda one: one.spectral_gain or 0.0)
    gain = model.spectral_gain or 0.0
    return Finding(
        says=f"`{model.spectral_layer}` of {model.model} is evaluated {gain:.3g} times too large: spectral normalisation divides it by an "
        "estimate of its norm that no training call has brought up to date",
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={"times": gain, "training_calls": float(model.training_calls)},
        fix="load the whole state_dict, whose buffers hold the estimate, or call it a few times in training mode first",
        where=model.evaluation_where,
        confidence=0.9,
    )


def _case(gain: float | None, *, scored: bool = True, updates: int = 300) -> tuple[ModeUse]:
    model = ModelModes(
        model="Critic", evaluations=2, rounds=1, scored=scored, spectral_gain=gain, spectral_layer="fc1",
        evaluation_where=Place(file="train.py", line=60),
    )  # fmt: skip
    return (ModeUse(updates=updates, models=(model,)),)


SICK = (_case(11.0), _case(2.5))
# No such layer or trained since; a good estimate; a baseline before training; nothing made of the answers.
WELL = (_case(None), _case(1.05), _case(11.0, updates=0), _case(11.0, scored=False))
