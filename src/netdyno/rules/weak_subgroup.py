"""One group of rows is answered far worse than the others.

Looks for:  rows that share a value of one feature and are right far less often in evaluation than the others, and than the mix
            of their classes lets expect, beyond what chance does among so many groups.
Matters:    the average hides it: for these rows the model is of little use.
Try:        look at where these rows come from; more or better data of that group, or a score for each group.
Not this:   a class that is hard (see `hidden-imbalance`), groups of a few rows, differences of a few points.
"""

from statistics import NormalDist

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import healthy, wrong

# One false alarm in ten thousand runs, however many groups there are.
LEVEL = 1e-4
# What is worth a word: a quarter of the group's rows is wrong that would be right in another.
GAP = 0.25


@rule(stage="outcome")
def weak_subgroup(samples: Samples) -> Finding | None:
    below, score, rest, expected = samples.slice_z, samples.slice_score, samples.slice_rest, samples.slice_expected
    if below is None or score is None or rest is None or expected is None or not samples.slices:
        return None
    if below > NormalDist().inv_cdf(LEVEL / samples.slices) or min(rest, expected) - score < GAP:
        return None
    return wrong(
        f"of the {samples.slice_rows} evaluated rows whose feature {samples.slice_feature} is {samples.slice_value:.3g} only {score:.0%} are"
        f" right, of the others {rest:.0%}",
        layer="generalisation",
        fix="look at the data of this group: fewer, noisier or other rows than the rest",
        because={
            "score": score,
            "rest": rest,
            "rows": float(samples.slice_rows),
            "groups": float(samples.slices),
            "z": below,
        },
        confidence=0.75,
        where=samples.eval_where,
    )


def _of(score: float, z: float, *, slices: int = 3, expected: float = 0.95) -> Samples:
    return healthy(
        slices=slices, slice_feature=0, slice_value=1.0, slice_rows=110, slice_score=score, slice_rest=0.97,
        slice_expected=expected, slice_z=z,
    )  # fmt: skip


SICK = ((_of(0.55, -12.0),), (_of(0.4, -9.0, slices=40),))
# No groups; a bit worse; chance among many groups; a group of a hard class.
WELL = (
    (healthy(),),
    (_of(0.85, -5.0),),
    (_of(0.6, -3.5, slices=60),),
    (_of(0.55, -5.0, expected=0.6),),
)
