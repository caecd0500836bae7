"""Let threads that wait for each other sleep instead of spin.

Helps:      several threads on a machine that others use too: a thread that spins keeps the core from the one it is
            waiting for. Seen: a script that did not finish in 280 s at load 20 with spinning threads did with
            sleeping ones.
Costs:      some microseconds at each parallel operator for waking up, so an idle machine loses a little.
Parity:     the same bits: the same threads do the same work.
Undo:       the variables belong to one process and end with it. OpenMP reads them once, when it is loaded.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import ThreadUse
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

BUSY = 0.10  # of a step, waiting for a core: below it spinning costs less than waking up


@dataclass(frozen=True, slots=True)
class WaitPolicy:
    layers: ClassVar[tuple[str, ...]] = ("compute",)
    numerics: ClassVar[Numerics] = "same-bits"
    form: ClassVar[Form] = "processes"
    stage: ClassVar[int] = 50
    effort: ClassVar[float] = 2.0
    memory_only: ClassVar[bool] = False
    # GNU's OpenMP reads the first, which the official builds of PyTorch for Linux use; Intel's and LLVM's the second.
    environment: ClassVar[dict[str, str]] = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}

    def refuses(self, subject: Subject) -> str | None:
        if subject.device.type != "cpu":
            return f"operators run on the device `{subject.device.type}`; waiting threads are the CPU's"
        if (subject.threads or torch.get_num_threads()) == 1:
            return "PyTorch uses one thread, so no thread waits for another"
        if os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE":
            return "`OMP_WAIT_POLICY` is `PASSIVE` already"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        use: ThreadUse | None = facts.get(ThreadUse)
        if use is None or use.torch_threads == 1:
            return None
        waiting = max(use.waiting_share, use.others_share / 2)
        if waiting < BUSY:
            return None
        return Prediction(
            low=0.0,
            high=min(waiting, 0.6),
            why=f"{waiting:.0%} of a step goes to waiting for a core while {use.torch_threads} threads spin",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        yield subject  # the environment of the process is the whole change

    def code(self) -> str:
        return "OMP_WAIT_POLICY=PASSIVE KMP_BLOCKTIME=0 python train.py  # in the shell, before Python starts"


EXAMPLES = (WaitPolicy(),)
