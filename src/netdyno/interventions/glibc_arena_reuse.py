"""Keep freed memory in the process, so that the next step need not ask the kernel for it again.

glibc gives large blocks back to the kernel when they are freed. A training step frees all its activations, and the
next step faults them in again, page by page, each page zeroed first. Two settings of glibc end that.

Helps:      CPU training whose tensors are hundreds of kilobytes and more. Seen on 2 cores of a virtual machine,
            two whole processes each, in turns: 41 and 51 ms a step against 32 and 43 for a small CNN, 20 and 19
            against 15 and 15 for an MLP, 122 and 114 against 113 and 108 for a transformer; page faults per step
            from thousands to a hundred at most.
Costs:      the process keeps its peak between steps; with tensors of many sizes the heap can fragment.
            `huge_pages` asks for pages of 2 MB, which the kernel may have to clear at one go.
Parity:     the same bits.
Undo:       the variables belong to one process and end with it. In a running process it could not be undone:
            once a threshold has been set, glibc never adapts it again.
"""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import MemoryAccount, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

# Faulting in one page of 4 kB: 0.25 µs on bare metal, up to 2 µs in a virtual machine; the kernel's part of the step.
PAGE = 4096
FAULT_S = (0.1e-6, 2e-6)
NEVER = str(1 << 40)  # bytes at the top of the heap before any are given back
OTHER_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")


@dataclass(frozen=True, slots=True)
class GlibcArenaReuse:
    huge_pages: bool = False

    layers: ClassVar[tuple[str, ...]] = ("memory", "compute")
    numerics: ClassVar[Numerics] = "same-bits"
    form: ClassVar[Form] = "processes"
    stage: ClassVar[int] = 50
    effort: ClassVar[float] = 1.0
    memory_only: ClassVar[bool] = False

    @property
    def environment(self) -> dict[str, str]:
        """What must be set before Python starts."""
        settings = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": NEVER}
        if self.huge_pages:
            others = [part for part in os.environ.get("GLIBC_TUNABLES", "").split(":") if part and _HUGE not in part]
            settings["GLIBC_TUNABLES"] = ":".join([*others, f"{_HUGE}=1"])
        return settings

    def refuses(self, subject: Subject) -> str | None:
        if subject.device.type != "cpu":
            return f"tensors live on the device `{subject.device.type}`, whose allocator reuses memory already"
        library, version = platform.libc_ver()
        if library != "glibc":
            return f"these are settings of glibc; this Python uses `{library or platform.system()}`"
        if self.huge_pages and not _has_huge_pages(version):
            return "huge pages need glibc 2.35 and a kernel that hands them out on request (`madvise`)"
        preloaded = os.environ.get("LD_PRELOAD", "")
        for other in OTHER_ALLOCATORS:
            if other in preloaded:
                return f"memory comes from {other} (`LD_PRELOAD`), not from glibc"
        if "MALLOC_TRIM_THRESHOLD_" in os.environ or "mmap_threshold" in os.environ.get("GLIBC_TUNABLES", ""):
            return "the environment sets glibc's thresholds already"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        account: MemoryAccount | None = facts.get(MemoryAccount)
        if timeline is None or account is None or not timeline.step.own:
            return None
        freed = account.activations + account.gradients + account.workspace + account.batch
        low, high = (freed / PAGE * seconds / timeline.step.own for seconds in FAULT_S)
        if high < 0.01:
            return None
        return Prediction(
            low=0.0,
            high=min(high, 0.4),  # 0.22 was the most that was seen
            why=f"a step frees up to {freed / 1e6:.0f} MB; faulting them in again takes {min(low, 0.4):.1%} of it or more",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        both = (replace(self, huge_pages=False), replace(self, huge_pages=True))
        return tuple(one for one in both if one.refuses(subject) is None)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        yield subject  # the environment of the process is the whole change

    def code(self) -> str:
        settings = " ".join(f"{name}={value}" for name, value in self.environment.items())
        return f"{settings} python train.py  # in the shell, before Python starts"


_HUGE = "glibc.malloc.hugetlb"


def _has_huge_pages(version: str) -> bool:
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
            offered = "[madvise]" in file.read()
    except OSError:
        return False
    return offered and tuple(int(part) for part in version.split(".")[:2]) >= (2, 35)


EXAMPLES = (GlibcArenaReuse(), GlibcArenaReuse(huge_pages=True))
