"""What the rules about data share: how sure one may be, how a data finding looks, and healthy data to compare with."""

import math
from typing import Any

from netdyno.records.diagnosis import Finding, Layer, Saving
from netdyno.records.evidence import Place
from netdyno.records.samples import LoaderRows, Samples
from netdyno.records.trial import Change

# Found and suspected: a rule says why it is sure; what has an innocent reading stays a suspicion.
CERTAIN, SURE, SUSPECTED = 0.95, 0.8, 0.5
# Fewer rows than this say nothing about a distribution.
ENOUGH = 100


def wrong(
    says: str,
    *,
    fix: str,
    because: dict[str, float],
    confidence: float,
    where: Place | None,
    layer: Layer = "data",
    explains: tuple[str, ...] = (),
    remedies: tuple[Change, ...] = (),
) -> Finding:
    """A finding about what is wrong rather than slow."""
    return Finding(
        says=says,
        layer=layer,
        saves=Saving(low=0.0, high=0.0),
        because=because,
        fix=fix,
        where=where,
        confidence=confidence,
        explains=explains,
        remedies=remedies,
    )


def behind(samples: Samples, by: float = 0.05) -> bool:
    """Whether evaluation is so much worse than training, in score; where there is no score, in loss by half."""
    if samples.eval_score is not None and samples.train_score is not None:
        return samples.eval_score < samples.train_score - by
    if samples.eval_loss is not None and samples.last_loss is not None and samples.last_loss > 0:
        return samples.eval_loss > 1.5 * samples.last_loss
    return False


def changing(samples: Samples) -> bool:
    """Whether training rows are new each time they come: augmented, or drawn without end."""
    if any(one.dataset_rows and one.ever > 1.02 * one.dataset_rows for one in samples.loaders):
        return True
    return samples.eval_rounds > 1 and samples.train_distinct > 0.9 * samples.train_rows


# Most features must differ, and by so much, before it is the scale: two halves of one data set differ by some per cent.
MOST = 0.5
FACTOR = 1.6
# Spread of the logarithm of the factor over features: one factor for all. Of a large factor a tenth: where samples are augmented
# or few, spreads are known by some per cent only, while features that drift by themselves differ as much as they drift.
SAME, PART = 0.12, 0.1


def scaled_apart(samples: Samples) -> bool:
    """Whether a scale, and not another kind of samples, is between the two sides."""
    ratio = samples.scale_ratio
    if not samples.floating or samples.looked < ENOUGH or samples.eval_distinct < 40 or ratio is None:
        return False
    if samples.drifted_share < MOST:
        return False
    factor = max(ratio, 1 / ratio) if ratio > 0 else 1.0
    same = max(SAME, PART * math.log(factor))
    one_factor = samples.scale_spread is not None and samples.scale_spread < same and factor >= FACTOR
    return one_factor or (bool(samples.standardised) and factor >= FACTOR)


def healthy(**fields: Any) -> Samples:
    """A well-behaved training on standardised images, with what a specimen changes of it."""
    known: dict[str, Any] = {
        "updates": 440, "train_rows": 26940, "train_distinct": 1347, "eval_rows": 9000, "eval_distinct": 450, "eval_rounds": 20,
        "features": 64, "floating": True, "looked": 1347, "task": "classes", "classes": 10, "outputs": 10, "joint": False,
        "where": Place(file="train.py", line=81), "eval_where": Place(file="train.py", line=60), "loss_name": "cross_entropy",
        "first_loss": 2.28, "last_loss": 0.036, "guess_loss": 2.30, "eval_loss": 0.071, "train_score": 0.99, "train_guess": 0.1,
        "eval_score": 0.978, "eval_guess": 0.1, "rms": 1.0, "low": -0.8, "high": 1.85, "offset": 0.86, "spread_ratio": 239.0,
        "constant_features": 4, "levels": 16, "scale_ratio": 1.0, "scale_spread": 0.018,
        "train_labels": (133, 136, 133, 137, 136, 136, 136, 134, 131, 135), "eval_labels": (45, 46, 44, 46, 45, 46, 45, 45, 43, 45),
        "recall": (0.98,) * 10, "train_recall": (0.99,) * 10, "label_distance": 0.005, "neighbours": 0.977, "chance": 0.1,
        "eval_neighbours": 0.953, "disputed": 0.01, "eval_disputed": 0.016, "best_feature": 33, "alone": 0.61, "second": 0.6,
        "alone_eval": 0.63, "batch_spread": 0.97, "from_loader": True, "loaders": (loader(),),
    }  # fmt: skip
    return Samples(**(known | fields))


def loader(**fields: Any) -> LoaderRows:
    """A shuffled loader of which 20 whole passes were seen."""
    known: dict[str, Any] = {
        "where": Place(file="train.py", line=50), "dataset": "TensorDataset", "sampler": "RandomSampler", "workers": 0,
        "iterable": False, "dataset_rows": 1347, "passes": 20, "rows": 1347, "distinct": 1347, "ever": 1347, "covered": 1.0,
        "same_order": 0, "times_each": 1.0, "shuffles": True, "batch_size": 64,
    }  # fmt: skip
    return LoaderRows(**(known | fields))
