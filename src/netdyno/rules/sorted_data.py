"""Each batch holds one kind of samples only, and the next batches the next kind.

Looks for:  batches in a row whose labels hardly vary while those of the whole data do, and a score that shows it.
Matters:    each batch teaches its own class and unlearns the others.
Try:        shuffle the samples before they are cut into batches, anew in each epoch.
Not this:   mixed batches; a loader that reads in order (`sequential-sampler` says so); several calls to one update.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.evidence import LoaderUse
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy
from netdyno.rules._samples import SURE, SUSPECTED, healthy, wrong

# Mixed batches hold nine tenths of the labels' variety even when small; a third of it leaves most classes out.
VARIETY = 0.35
# A score above this shows that no harm was done.
GOOD = 0.9


@rule(stage="data")
def sorted_data(samples: Samples, use: LoaderUse | None) -> Finding | None:
    spread = samples.batch_spread
    if spread is None or spread > VARIETY or samples.joint or not samples.task:
        return None
    if use is not None and any(one.trains and one.ordered and one.labels_vary is False for one in use.loaders):
        return None
    score = samples.eval_score if samples.eval_score is not None else None
    harmed = score is None or score < GOOD
    if not harmed:
        return None
    return wrong(
        f"a batch holds {spread:.0%} of the variety of labels: samples come sorted",
        fix="shuffle before cutting batches (torch.randperm, or shuffle=True in the loader)",
        because={"variety": spread, "score": score or 0.0},
        confidence=SURE if score is not None else SUSPECTED,
        where=samples.where,
        layer="generalisation",
        explains=("overfitting",),
        remedies=remedy("shuffle") if samples.from_loader else (),
    )


SICK = ((healthy(batch_spread=0.06, eval_score=0.2, from_loader=False),),)
# Mixed; several calls to an update; sorted by design, without harm.
WELL = ((healthy(),), (healthy(batch_spread=0.0, joint=True),), (healthy(batch_spread=0.2, eval_score=0.97),))
