"""How much work each layer does, and how near it comes to what the machine can do.

Measures:         per module that does work of its own: floating-point operations, bytes it must move, forward
                  seconds, and its share of the roofline; the operations, bytes and seconds of a whole update.
Costs:            one update to warm up, a forward pass and an update that are counted operator by operator, and a few
                  of each that are timed.
Leaves no trace:  forward hooks come and go, the subject trains on, and is put back afterwards.
"""

from netdyno.measure.step import one_batch
from netdyno.measure.stopwatch import Clock
from netdyno.measure.work import layer_table
from netdyno.probes._base import probe
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import LayerTable
from netdyno.targets.subject import Subject

REPEATS = 9  # enough for a median; more says nothing new about layers


@probe
def collect(
    subject: Subject, *, ceilings: Ceilings | None = None, clock: Clock | None = None, steps: int = 5
) -> LayerTable:
    # A repeat is a forward pass and an update: a little more than one step.
    repeats = max(2, min(REPEATS, steps // 2))
    return layer_table(subject, one_batch(subject), ceilings=ceilings, clock=clock, repeats=repeats)
