"""The way to an input is another one in use than in training.

Looks for:  the same raw record through both ways: channels reversed, another normalisation, another range, another size or way of
            resizing; the worst difference is told.
Matters:    a model that was judged on one kind of input answers on another: the score was never that of use.
Try:        use one function for both, and keep its numbers with the weights.
Not this:   rounding, random transforms of training (they are off here).
"""

from collections.abc import Callable

import numpy as np

from netdyno.audits._base import Array, Skip, View, audit, wrong
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Exhibit, Finding
from netdyno.verdicts.preprocessing import MOST, compared, differing

__all__ = ["compared", "differing", "serving_preprocess"]


@audit()
def serving_preprocess(view: View) -> Finding | None:
    serving, raw = view.notes.get("serving"), view.notes.get("raw")
    if serving is None or raw is None:
        raise Skip("no way of serving was named, or the raw records are not known")
    count = min(MOST, len(raw), len(view.train))
    training = view.notes.get("training")
    inputs = [training(raw[at]) if training is not None else view.train.x[at] for at in range(count)]
    found = compared(inputs, [serving(raw[at]) for at in range(count)])
    if not found.kinds:
        return None
    return wrong(
        f"the same record comes to another input in use than in training: {' and '.join(found.kinds)}{found.says}; values differ by up to "
        f"{found.worst:.4g}",
        fix="use one function for training and use, and keep its numbers with the weights",
        because={"worst": found.worst, "records": float(count), "record": float(found.record)},
        exhibits=(
            Exhibit(
                split="train", index=int(view.train.indices[found.record]), says="the worst of the records compared"
            ),
        ),
        layer="generalisation",
    )


def _served(serving: Callable[[Array], Array]) -> View:
    """Raw records are bytes; training divides them by 255."""
    view = specimen("images")
    raw = [np.rint(255 * image).astype(np.uint8) for image in view.train.x]
    return specimen("images", notes={"raw": raw, "serving": serving, "training": lambda one: one / 255})


SICK = (
    lambda: _served(lambda one: one[::-1] / 255),
    lambda: _served(lambda one: one.astype(np.float32)),
    lambda: _served(lambda one: (one / 255 - 0.45) / 0.22),
)
WELL = (lambda: _served(lambda one: (one / 255).astype(np.float32)), lambda: specimen("images"))
