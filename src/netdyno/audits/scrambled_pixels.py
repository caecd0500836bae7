"""A view changed the order of axes by name only: pixels lie in places where they don't belong.

Looks for:  pictures whose neighbouring pixels differ far more than they do once the values are read as height, width, channel.
Matters:    neighbours are torn apart and colours are mixed: what is left to learn from is nearly noise.
Try:        `permute(2, 0, 1)` (NumPy: `transpose`) instead of `view` or `reshape`.
Not this:   pictures of noise, in which no order is smoother than another.
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# Natural neighbours differ by a fraction of what others do: read rightly, less than two thirds of the differences are left. Of healthy
# pictures this reading makes more of them, never less.
LEFT = 0.65
MOST = 200


@audit(modalities=("images",))
def scrambled_pixels(view: View) -> Finding | None:
    if np.asarray(view.train.x).shape[1] != 3:
        raise Skip("the pictures have no three channels")
    for part in view.parts.values():
        x = np.asarray(part.x[:MOST], dtype=np.float64)
        if not len(x) or not np.isfinite(x).all():
            continue
        torn, whole = _differences(x), _differences(_unscrambled(x))
        if torn == 0 or whole > LEFT * torn:
            continue
        return wrong(
            f"the pixels of {part.name} are scrambled: read as height, width, channel, neighbours differ {torn / max(whole, 1e-12):.1f} "
            f"times less",
            fix="use `permute(2, 0, 1)` instead of `view` or `reshape` to put the channels first",
            because={"difference": torn, "difference_put_right": whole},
            exhibits=(shown(view, part, 0),),
            confidence=0.95,
            explains=("covariate-shift",),
        )
    return None


def _unscrambled(x: Array) -> Array:
    count, channels, height, width = x.shape
    return x.reshape(count, height, width, channels).transpose(0, 3, 1, 2)


def _differences(x: Array) -> float:
    return float(np.abs(np.diff(x, axis=-1)).mean() + np.abs(np.diff(x, axis=-2)).mean())


def _scrambled(part: Part) -> Part:
    x = np.asarray(part.x)
    return replace(part, x=x.transpose(0, 2, 3, 1).reshape(x.shape))


def _noise(part: Part) -> Part:
    return replace(part, x=np.random.default_rng(0).random(part.x.shape).astype(np.float32))


SICK = (lambda: specimen("images", train=_scrambled, val=_scrambled), lambda: specimen("images", val=_scrambled))
WELL = (lambda: specimen("images"), lambda: specimen("images", train=_noise), lambda: specimen("images", channels=1))
