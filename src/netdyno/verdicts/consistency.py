"""Whether what is trained for and what is judged by go together.

They need not be the same: cross-entropy is trained and accuracy is judged, and both want the right class. But a loss that shifts
the answers away from what the metric counts works against it, however well it is trained.
"""

from collections.abc import Iterable
from typing import NamedTuple

from netdyno.records.trial import Change

# What counts every sample alike, and so the common classes most.
PLAIN = frozenset({"accuracy", "error", "top-1", "top1", "error-rate"})
# What asks whether probabilities mean what they say.
CALIBRATED = frozenset({"log-loss", "nll", "brier", "ece", "calibration", "calibration-error", "cross-entropy"})
# What is least for the mean, and what is least for the median.
SQUARED = frozenset({"mse", "rmse", "r2"})
ABSOLUTE = frozenset({"mae", "l1"})
# Losses whose best answer is a median.
MEDIAN_LOSSES = frozenset({"l1", "mae"})
SQUARED_LOSSES = frozenset({"mse", "l2"})


class Inconsistency(NamedTuple):
    """A loss, or a knob that changes it, that works against the metric: what happens, and what to do instead."""

    loss: str
    metric: str
    says: str
    instead: str


def inconsistencies(
    *, metric: str, loss: str = "cross-entropy", recipe: Iterable[Change] = ()
) -> tuple[Inconsistency, ...]:
    """What of the loss and of the recipe works against the metric. Nothing is said of names that are not known."""
    name, trained = _plain(metric), _plain(loss)
    found = [trained, *(change.id for change in recipe if _bites(change))]
    return tuple(one for each in found for one in _against(each, name))


def _against(loss: str, metric: str) -> tuple[Inconsistency, ...]:
    if loss in {"focal-loss", "focal"} and metric in PLAIN:
        says = "focal loss spends the gradient on hard and rare samples, while accuracy counts every sample alike"
        return (Inconsistency(loss, metric, says, "judge by average precision, F1 or the recall of each class"),)
    if loss in {"class-weights", "weighted-sampler"} and metric in PLAIN:
        says = "rare classes are made to count more than they occur, and accuracy counts them as often as they occur"
        return (
            Inconsistency(
                loss, metric, says, "judge by balanced accuracy or macro F1, or leave the classes as they are"
            ),
        )
    if loss in {"focal-loss", "focal", "label-smoothing", "class-weights", "weighted-sampler"} and metric in CALIBRATED:
        says = "it moves the probabilities away from how often answers are right, which is what the metric asks"
        return (Inconsistency(loss, metric, says, "train on plain cross-entropy, or calibrate on the validation data"),)
    if (loss in MEDIAN_LOSSES and metric in SQUARED) or (loss in SQUARED_LOSSES and metric in ABSOLUTE):
        kind, other = ("median", "mean") if loss in MEDIAN_LOSSES else ("mean", "median")
        says = (
            f"the loss is least for the {kind} and the metric for the {other}; they differ where the targets are skewed"
        )
        return (Inconsistency(loss, metric, says, f"train for the {other}, or judge by the {kind}"),)
    return ()


def _bites(change: Change) -> bool:
    """True unless its settings leave the loss as it is."""
    return (
        change.settings.get({"focal-loss": "gamma", "label-smoothing": "smoothing"}.get(change.id, "power"), 1.0) != 0.0
    )


def _plain(name: str) -> str:
    """A name as it is looked up.

    >>> _plain("Focal_Loss"), _plain("MSELoss"), _plain("F.cross_entropy")
    ('focal-loss', 'mse', 'cross-entropy')
    """
    last = name.rpartition(".")[2].strip()
    found = last.replace("_", "-").replace(" ", "-").lower()
    if found in {"focalloss", "focal"}:
        return "focal-loss"
    for ending in ("-loss", "loss"):
        stem = found.removesuffix(ending).strip("-")
        if stem in {"mse", "l1", "mae", "l2", "cross-entropy", "crossentropy", "nll"}:
            return "cross-entropy" if stem == "crossentropy" else stem
    return found
