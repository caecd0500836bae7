"""Targets that behave, and misbehave, in processes of their own."""

import os
import resource
import signal
import time

import torch
from torch import nn
from torch.utils.data import Dataset

from netdyno.targets.workload import Workload

WELL = 3  # steps that an arm takes when it is built: misbehaviour begins after them


class Rows(Dataset):
    """Writes one byte to a file for every sample read, whichever process reads it."""

    def __init__(self, rotten=-1, sticky=-1):
        self.rotten = rotten
        self.sticky = sticky
        self.file = os.environ.get("SAMPLES_READ")

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        if index == self.rotten:
            raise ValueError(f"sample {index} is rotten")
        if index == self.sticky:
            time.sleep(600)
        if self.file:
            with open(self.file, "ab", buffering=0) as file:
                file.write(b".")
        generator = torch.Generator().manual_seed(index)
        return torch.randn(4, generator=generator), torch.randn(1, generator=generator)


def after(steps, then):
    """A forward pass that does `then` once it was called `steps` times."""
    calls = []

    def forward(model, batch):
        calls.append(1)
        if len(calls) > steps:
            then()
        return model(batch[0])

    return forward


def workload(forward=None, rotten=-1, sticky=-1, **loader):
    return Workload(
        model=lambda: nn.Linear(4, 1),
        train=lambda: Rows(rotten, sticky),
        val=Rows,
        batch_size=10,
        loader={"shuffle": False} | loader,
        forward=forward,
        name="rows",
    )


def sleep():
    time.sleep(600)


def swallow():
    """Ask for more than the process may have."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), resource.RLIM_INFINITY))
    torch.ones(1 << 30)


def say_what_you_see():
    raise RuntimeError(f"threads {torch.get_num_threads()} wait {os.environ.get('OMP_WAIT_POLICY')}")


def talk():
    print("a word from inside")


def breathe_in():
    torch.ones(100 * (1 << 20) // 4)


Plain = workload()
Workers = workload(num_workers=2, prefetch_factor=16)
Spawned = workload(num_workers=1, multiprocessing_context="forkserver")
Rotten = workload(rotten=700)
RottenInWorker = workload(rotten=700, num_workers=2)
Exits = workload(after(WELL, lambda: os._exit(3)))
Leaves = workload(after(WELL, lambda: exit("enough")))
Hangs = workload(after(WELL, sleep))
HangsInWorker = workload(sticky=150, num_workers=2)
Crashes = workload(after(WELL, lambda: os.kill(os.getpid(), signal.SIGSEGV)))
Greedy = workload(after(WELL, swallow))
Talks = workload(after(0, talk))
Sees = workload(after(WELL, say_what_you_see))
Breathes = workload(after(WELL, breathe_in))
NotANumber = workload(lambda model, batch: model(batch[0]) * float("nan"))
