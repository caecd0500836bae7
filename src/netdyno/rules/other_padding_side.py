"""Texts are padded at one end in training and at the other where the model is used.

Looks for:  rows of ids whose padding stands behind in training and in front in evaluation, or the other way round.
Matters:    every token stands at a position that the model has not learnt it at, behind or before ids it never saw there.
Try:        one tokenizer, with one `padding_side`, for both.
Not this:   rows that are padded at the same end, or not at all; generation of a model that masks its padding, and is as good.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.records.scores import Round, Scores
from netdyno.rules._base import rule
from netdyno.rules._samples import behind, healthy, wrong

# A twentieth of all positions is padding; at the other end there is next to none.
PADDED, NONE = 0.05, 0.01


@rule(stage="data")
def other_padding_side(samples: Samples, scores: Scores | None) -> Finding | None:
    ends = (samples.pad_front, samples.pad_back, samples.eval_pad_front, samples.eval_pad_back)
    if samples.floating or any(end is None for end in ends):
        return None
    front, back, eval_front, eval_back = (end or 0.0 for end in ends)
    turned = _only(back, front) and _only(eval_front, eval_back)
    if not turned and not (_only(front, back) and _only(eval_back, eval_front)):
        return None
    trained, used = ("behind", "in front") if turned else ("in front", "behind")
    return wrong(
        f"padding stands {trained} of the text in training ({max(front, back):.0%} of all positions) and {used} in evaluation"
        f" ({max(eval_front, eval_back):.0%})",
        layer="deployment",
        fix="pad at the same end in both: one collate function, one `padding_side`",
        because={"front": front, "back": back, "eval_front": eval_front, "eval_back": eval_back},
        # A model that masks its padding and counts positions from the text does not mind.
        confidence=0.85 if behind(samples) or _worse(samples, scores) else 0.6,
        where=samples.eval_where,
    )


def _worse(samples: Samples, scores: Scores | None) -> bool:
    """Whether the last evaluation's loss is half as large again as training's, as `behind` has it."""
    told = [each.loss for each in scores.rounds if each.loss is not None] if scores is not None else []
    return bool(told) and samples.last_loss is not None and told[-1] > 1.5 * samples.last_loss > 0


def _only(here: float, there: float) -> bool:
    return here >= PADDED and there <= NONE


def _texts(front: float, back: float, eval_front: float, eval_back: float, *, loss: float = 3.0) -> Samples:
    return healthy(
        floating=False, task="", pad_front=front, pad_back=back, eval_pad_front=eval_front, eval_pad_back=eval_back,
        last_loss=0.4, eval_loss=loss, train_score=None, eval_score=None,
    )  # fmt: skip


_FAR = Scores(measure="accuracy", rounds=(Round(at=400, score=0.4, loss=2.6, rows=5000),))
SICK = (
    (_texts(0.0, 0.3, 0.3, 0.0), None),
    (_texts(0.3, 0.0, 0.0, 0.3), None),
    (_texts(0.0, 0.3, 0.3, 0.0, loss=0.4), _FAR),
)
# The same end; no padding in evaluation, as for one text at a time; numbers.
WELL = ((_texts(0.0, 0.3, 0.0, 0.2), None), (_texts(0.0, 0.3, 0.0, 0.0), _FAR), (healthy(), None))
