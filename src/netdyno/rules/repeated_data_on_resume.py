"""Training that goes on in the middle of a pass begins the pass again, with the same samples.

Looks for:  a loader that shuffles, weights loaded in the middle of a pass, and batches after it that are those of the very
            start, one by one.
Matters:    the first samples are seen twice as often, the last ones never.
Try:        save how far the pass had come (or the sampler's state) and skip that far; another seed for each pass.
Not this:   a loader with a fixed order, which repeats in each pass; a second run of the whole script with the same seed.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Loader, LoaderUse, Place
from netdyno.records.shipping import SaveUse, StateLoad
from netdyno.rules._base import rule

# So many shuffled batches in a row do not come again by chance.
IN_A_ROW = 4


@rule(stage="use")
def repeated_data_on_resume(use: SaveUse, loaders: LoaderUse) -> Finding | None:
    training = [loader for loader in loaders.loaders if loader.trains]
    if not training or any(loader.ordered for loader in training):
        return None
    again = next((load for load in use.loads if _again(load)), None)
    if again is None:
        return None
    passes = training[0].batches_per_pass or 0
    rest = (again.captured or 0) % passes if passes else 0
    return Finding(
        says=f"after weights were loaded at update {again.at} training took the same batches as at its start, {again.repeats} in a row"
        + (f", although the pass had come to batch {rest} of {passes}" if rest else ""),
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because={"batches_again": float(again.repeats), "batch_of_the_pass": float(rest)},
        fix="save the sampler's state, or the seed and the number of batches taken, and skip those on resuming",
        where=again.where,
        # At the end of a pass nothing is lost but the new order.
        confidence=0.85 if rest else 0.5,
    )


def _again(load: StateLoad) -> bool:
    # Weights that were trained before: a fresh start with the first weights takes the first batches on purpose.
    return load.repeats >= IN_A_ROW and load.trained > 0 and load.at > 0 and bool(load.captured)


def _case(*, captured: int = 130, ordered: bool = False, repeats: int = 12) -> tuple[SaveUse, LoaderUse]:
    load = StateLoad(
        model="Net",
        at=130,
        strict=True,
        keys=4,
        trained=100,
        captured=captured,
        repeats=repeats,
        where=Place(file="train.py", line=80),
    )
    loader = Loader(
        where=None, dataset="TensorDataset", trains=True, iterable=False, batch_size=32, batches_per_pass=50,
        sampler="SequentialSampler" if ordered else "RandomSampler", ordered=ordered, own_order=False, workers=0,
    )  # fmt: skip
    return SaveUse(updates=230, loads=(load,)), LoaderUse(loaders=(loader,), span_s=5.0)


# In the middle of a pass; at its end (a suspicion).
SICK = (_case(), _case(captured=100))
# A fixed order; other batches; the weights of the beginning once more.
WELL = (_case(ordered=True), _case(repeats=0), _case(captured=0))
