"""One batch has inputs far outside of all others, in every epoch again.

Looks for:  a batch whose largest number is many times that of the median batch, whose rows come back each epoch, and a loss
            that jumps with it.
Matters:    each time it comes it throws the weights back.
Try:        find the rows and repair or drop them; clipping gradients limits the damage.
Not this:   heavy tails (many batches then have some), jumps of the loss without such inputs.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._samples import CERTAIN, SUSPECTED, healthy, wrong

# The loss of a batch varies by some tenths; ten times the median is that batch's doing.
JUMP = 5.0


@rule(stage="data")
def corrupt_batch(samples: Samples) -> Finding | None:
    ratio = samples.spike_ratio
    if ratio is None or not samples.spike_times:
        return None
    jump = samples.spike_loss
    harmful = jump is not None and jump >= JUMP
    if not harmful and not samples.losses_lost:
        return None
    again = f", {samples.spike_rounds} times the same rows" if samples.spike_rounds > 1 else ""
    loss = f": the loss is {jump:.0f} times the median there" if jump is not None else ""
    return wrong(
        f"{samples.spike_times} batches hold inputs up to {ratio:.0f} times as large as other batches{again}{loss}",
        fix="find those rows and repair or drop them",
        because={"times": float(samples.spike_times), "ratio": ratio, "loss_ratio": jump or 0.0},
        confidence=CERTAIN if samples.spike_rounds > 1 else SUSPECTED,
        where=samples.where,
        layer="optimisation",
        explains=("exploding-gradient", "exploding-learning-rate", "dead-units"),
    )


SICK = ((healthy(spike_ratio=1e4, spike_times=12, spike_rounds=12, spike_rows=64, spike_loss=5000.0),),)
# None; large and harmless.
WELL = ((healthy(),), (healthy(spike_ratio=40.0, spike_times=3, spike_rounds=1, spike_loss=1.2),))
