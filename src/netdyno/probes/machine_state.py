"""The host at the time of the run.

Measures:         load of the last minute, CPU pressure of the last ten seconds, memory that is left (the container's limit counts),
                  swap in use, and free space for temporary files and for shared memory.
Costs:            a few small file reads.
Leaves no trace:  it only reads.
"""

import os

import psutil

from netdyno.measure import host
from netdyno.probes._base import probe
from netdyno.records.evidence import MachineState
from netdyno.targets.subject import Subject

SHARED_MEMORY = "/dev/shm"  # noqa: S108  where loader workers hand over batches; only its free space is read


@probe
def collect(_: Subject) -> MachineState:
    return MachineState(
        load=os.getloadavg()[0],
        cpu_pressure=host.pressure("cpu"),
        memory_available=host.memory_available(),
        memory_total=host.memory_capacity(),
        swap_used=int(psutil.swap_memory().used),
        temporary_free=host.free_space(host.temporary_folder()),
        shared_memory_free=host.free_space(SHARED_MEMORY),
    )
