"""Where the memory of a training step goes.

Measures:         parameters, buffers, gradients, optimizer state, saved activations and the batch, each storage
                  once and to the byte; the peak from the allocator's own events; as workspace, what the peak holds
                  beyond them.
Costs:            three updates, the last of them under the profiler.
Leaves no trace:  the subject trains on, and is put back afterwards.
"""

from netdyno.measure.memory import memory_account
from netdyno.measure.step import one_batch
from netdyno.probes._base import probe
from netdyno.records.evidence import MemoryAccount
from netdyno.targets.subject import Subject


@probe
def collect(subject: Subject) -> MemoryAccount:
    return memory_account(subject, one_batch(subject))
