"""Accuracy hides that the rare class is never found.

Looks for:  one class that makes up most rows, an accuracy that equals its share, and a rare class hardly ever answered.
Matters:    the model has learnt which answer is common, and nothing about the other one.
Try:        weigh the loss by class, or draw rare rows more often; watch recall per class instead of accuracy.
Not this:   rare classes that are found; a loss with weights; too few rare rows to tell.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy
from netdyno.rules._samples import SURE, healthy, wrong

# Below this share an accuracy that equals it would look bad at once.
MAJORITY = 0.8
# Who always gives the common answer is right as often as it is common; sorted data may end in one class and know nothing of it.
LEANS = 0.9
# A tenth of the rare rows found is what guessing by shares would find.
FOUND = 0.15
# Of fewer rows none may be found by chance.
ROWS = 8


@rule(stage="data")
def hidden_imbalance(samples: Samples) -> Finding | None:
    if samples.task != "classes" or samples.joint or samples.weighted:
        return None
    sides = (
        ("evaluation", samples.eval_labels, samples.recall, samples.eval_score, samples.eval_guess),
        ("training", samples.train_labels, samples.train_recall, samples.train_score, samples.train_guess),
    )
    for side, labels, recall, score, guess in sides:
        rare = _unfound(labels, recall)
        if rare is None or score is None or guess is None or guess < MAJORITY or score > guess + 0.25 * (1 - guess):
            continue
        if score < LEANS * guess:
            continue  # it does not lean on the common class either
        kind, found = rare
        return wrong(
            f"class {kind} is {labels[kind] / sum(labels):.1%} of the rows and {found:.0%} of them are found, while accuracy is "
            f"{score:.1%} because the common class alone is {guess:.1%}",
            fix="weigh the loss by inverse class frequency or sample rare rows more often, and report recall",
            because={"majority": guess, "accuracy": score, "recall": found, "share": labels[kind] / sum(labels)},
            confidence=SURE,
            where=(samples.targets_where if side == "training" else samples.eval_targets_where)
            or (samples.where if side == "training" else samples.eval_where),
            layer="generalisation",
            remedies=remedy("weight-classes"),
        )
    return None


def _unfound(labels: tuple[int, ...], recall: tuple[float | None, ...]) -> tuple[int, float] | None:
    """The most frequent of the rare classes that are hardly found."""
    kinds = [
        (count, kind, found)
        for kind, (count, found) in enumerate(zip(labels, recall, strict=False))
        if found is not None and count >= ROWS and count < 0.2 * sum(labels) and found <= FOUND
    ]
    return max(kinds)[1:] if kinds else None


SICK = (
    (healthy(classes=2, outputs=2, train_labels=(2716, 84), eval_labels=(1164, 36), recall=(1.0, 0.03), train_recall=(1.0, 0.02),
             eval_score=0.971, eval_guess=0.97, train_score=0.971, train_guess=0.97),),
)  # fmt: skip
# Balanced; rare rows that are found; a weighted loss; three rare rows; sorted data, whose last batches are all of one class.
WELL = (
    (healthy(),),
    (healthy(eval_labels=(900, 90), recall=(0.98, 0.8), eval_score=0.96, eval_guess=0.91),),
    (healthy(eval_labels=(900, 90), recall=(1.0, 0.05), eval_score=0.91, eval_guess=0.91, weighted=True),),
    (healthy(eval_labels=(100, 3), recall=(1.0, 0.0), eval_score=0.97, eval_guess=0.97),),
    (healthy(train_recall=(1.0, *(0.0,) * 9), train_score=0.0, train_guess=1.0, eval_score=None),),
)
