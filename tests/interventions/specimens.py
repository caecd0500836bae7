"""Small subjects for the tests of interventions: between them every change finds one that it fits."""

import contextlib
import functools
import random
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, IterableDataset

from netdyno.measure.step import Stepper
from netdyno.measure.stopwatch import Stopwatch
from netdyno.records.evidence import LayerTable, LoaderProfile, MemoryAccount, OpTable, StepTimeline, ThreadUse
from netdyno.records.measured import Split
from netdyno.targets.workload import Workload, seed_everything


class Decoded(Dataset):
    """Samples that are computed when they are read, like images that are decoded."""

    def __init__(self, count=48):
        self.count = count
        self.reads = 0

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.reads += 1
        image = torch.linspace(0, 1 + index, 64).sin().reshape(1, 8, 8)
        return image, index % 4


class Stream(IterableDataset):
    """Samples that can only be read in order."""

    def __iter__(self):
        dataset = Decoded()
        return (dataset[index] for index in range(len(dataset)))


def flipped(sample):
    """A random transform of one sample: mirrored, now and then, and moved in brightness."""
    image, label = sample
    if random.random() < 0.5:
        image = image.flip(-1)
    return image + 0.1 * torch.rand(1), label


def flipped_batch(batch):
    """The same for a whole batch, with a draw per sample."""
    images, labels = batch
    mirrored = torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, images.flip(-1), images)
    return [mirrored + 0.1 * torch.rand(len(images), 1, 1, 1), labels]


class Block(nn.Module):
    """Convolution, batch norm, dropout and a way around them."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(F.relu(self.norm(self.conv(x))))


class Images(nn.Module):
    """A small residual network with a stem that convolves, normalises and clips."""

    def __init__(self, channels=8):
        super().__init__()
        self.conv = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.blocks = nn.Sequential(*(Block(channels) for _ in range(3)))
        self.head = nn.Linear(channels, 4)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.norm(self.conv(x)))).mean((2, 3)))


class Sublayer(nn.Module):
    """Layer norm, a wide layer, dropout, and a way around them."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.wide(self.norm(x)))


class Words(nn.Module):
    """Looks words up, mixes them in blocks, averages, decides."""

    def __init__(self, words=50, width=16, depth=4):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Sublayer(width) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Lookup(nn.Module):
    """Looks words up, averages, decides: what an EmbeddingBag does in one go."""

    def __init__(self, words=50, width=16):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.embedding(x).mean(1))


def sentences(count=96):
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, 50, (count, 12), generator=generator), torch.arange(count) % 3


def with_momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


IMAGES = Workload(
    name="images",
    model=Images,
    train=Decoded,
    val=functools.partial(Decoded, 12),
    augment=flipped,
    batch_augment=flipped_batch,
    batch_size=8,
)
PLAIN_IMAGES = Workload(
    name="plain-images", model=Images, train=Decoded, val=functools.partial(Decoded, 12), batch_size=8
)
WORDS = Workload(
    name="words",
    model=Words,
    train=sentences,
    val=functools.partial(sentences, 8),
    optimizer=with_momentum,
    batch_size=4,
)
LOOKUP = Workload(name="lookup", model=Lookup, train=sentences, val=functools.partial(sentences, 8), batch_size=8)
WORKED = Workload(
    name="worked",
    model=Images,
    train=Decoded,
    val=functools.partial(Decoded, 12),
    batch_size=8,
    loader={"num_workers": 1},
)
STREAM = Workload(
    name="stream", model=Images, train=Stream, val=functools.partial(Decoded, 12), augment=flipped, batch_size=8
)

SPECIMENS = (IMAGES, WORDS, LOOKUP, WORKED, STREAM)


@contextlib.contextmanager
def one_thread():
    """Inside, operators run on the calling thread alone."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class Steps:
    """What some steps gave: their losses and what was learned."""

    losses: tuple[float, ...]
    weights: dict[str, bytes]


def stepped(subject, count=2, *, seed=7, model=None):
    """`count` training steps under `seed`; `model` is where to read the weights when it is not the subject's."""
    seed_everything(seed)
    stepper = Stepper(subject, Stopwatch())
    try:
        turn = stepper.take(count)
    finally:
        stepper.close()
    return Steps(turn.losses, bytes_of(model if model is not None else subject.model))


def bytes_of(model):
    """All parameters and buffers as bytes, by name."""
    return {name: tensor.detach().cpu().contiguous().numpy().tobytes() for name, tensor in model.state_dict().items()}


def trained(workload, count=2):
    """A subject that has taken some steps, so that optimizer state and running statistics exist."""
    subject = workload.fresh(0)
    stepped(subject, count)
    return subject


def timeline(**phases):
    """A step whose phases take so many milliseconds of running time; give a Split for anything else."""
    splits = {name: value if isinstance(value, Split) else Split(running=value / 1e3) for name, value in phases.items()}
    return StepTimeline(steps=10, step=sum(splits.values(), Split()), phases=splits)


def profile(**changes):
    """A loader profile: by default of samples that take 1 ms each, half of it a random transform."""
    known = {
        "sample": Split(running=1e-3),
        "augment": Split(running=0.5e-3),
        "collate": Split(running=1e-4),
        "batch_bytes": 8_000,
        "samples": 800,
        "dataset_bytes": 800_000,
        "deterministic": True,
        "stackable": True,
        "workers": 0,
        "first_batch_s": 0.01,
        "epoch_start_s": 0.01,
        "batch_size": 8,
    }
    return LoaderProfile(**(known | changes))


def account(**changes):
    """A memory account in which activations are most of the peak."""
    known = {
        "parameters": 10**6,
        "buffers": 0,
        "gradients": 10**6,
        "optimizer_state": 2 * 10**6,
        "activations": 6 * 10**6,
        "workspace": 10**6,
        "batch": 10**5,
        "peak": 11 * 10**6,
        "capacity": 10**9,
        "available": 10**9,
    }
    return MemoryAccount(**(known | changes))


def facts(*evidence):
    """Evidence by its type."""
    return {type(item): item for item in evidence}


EVERYTHING = facts(
    timeline(data=40, collate=5, copy=5, forward=20, loss=1, backward=40, optimizer=10, log=1, rest=2),
    profile(),
    account(),
    OpTable(ops=(), dispatches=400, operator_s=0.07, python_s=0.01),
    ThreadUse(
        torch_threads=2, interop_threads=1, cores=2, workers=0, worker_threads=0, waiting_share=0.0, others_share=0.0
    ),
    LayerTable(
        layers=(), forward_flops=1e9, step_flops=3e9, step_bytes=1e8, dtype="float32", ridge=10.0, compute_seconds=0.05
    ),
)
