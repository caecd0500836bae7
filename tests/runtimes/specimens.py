"""Small releases for the tests of runtimes, exported and loaded in fresh processes, and modules that an export ruins."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from netdyno.measure import host
from netdyno.records.deployment import Port, Running, Signature
from netdyno.runtimes import _base as base
from netdyno.runtimes._export import Spec, export
from netdyno.runtimes._process import Process
from netdyno.targets import release as releases
from netdyno.targets.release import Release

HERE = Path(__file__).resolve()
TIMEOUT_S = 540.0

# What answers may lose, in dB of signal to noise over all answers. fp32 differs in the order of sums only, which leaves 120 dB; bf16
# has eight bits of mantissa and leaves 40 to 50, int8 20 to 45 on data like the calibration set. Wrong strides or weights leave under 22.
LEAST_DB = {"fp32": 80.0, "fp16": 45.0, "bf16": 30.0, "int8": 15.0}


class Block(nn.Module):
    """Two convolutions with batch norm and a way around them."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, x):
        y = F.relu(self.norm1(self.first(x)))
        return F.relu(x + self.norm2(self.second(y)))


class Cnn(nn.Module):
    """A residual network with ten classes for images of 16 by 16."""

    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.Sequential(Block(width), nn.MaxPool2d(2), Block(width))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.drop(self.blocks(self.stem(x)).mean((2, 3))))


class Encoder(nn.Module):
    """Token numbers and a mask through one layer of attention: two inputs, two outputs."""

    def __init__(self, words=50, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, 5)

    def forward(self, words, mask):
        x = self.embed(words)
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        far = (1.0 - mask)[:, None, None, :] * -1e4
        weights = ((q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5 + far).softmax(-1)
        x = self.norm1(x + self.out((weights @ v).transpose(1, 2).flatten(2)))
        x = self.norm2(x + self.narrow(F.gelu(self.wide(x))))
        return self.head((x * mask[..., None]).mean(1)), x


def settled(model, images):
    """The model in eval mode, with the statistics of batch norms taken from some images."""
    model.train()
    with torch.no_grad():
        for norm in model.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.momentum = None
        for _ in range(3):
            model(images)
    return model.eval()


def images(rows=64, seed=1):
    """Pictures of ten classes: a plane wave each, under noise."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 10
    place = torch.linspace(0, 6.0, 16)
    waves = torch.stack([torch.sin(place[:, None] * (1 + k % 5) + place * (k // 5) * 2) for k in range(10)])
    pictures = waves[labels, None].expand(rows, 3, 16, 16)
    return pictures + 0.3 * torch.randn(rows, 3, 16, 16, generator=draw), labels


def sentences(rows=16, seed=2):
    """Token numbers with a mask that hides the end of some rows."""
    draw = torch.Generator().manual_seed(seed)
    words = torch.randint(0, 50, (rows, 12), generator=draw)
    lengths = torch.randint(4, 13, (rows, 1), generator=draw)
    return words, (torch.arange(12) < lengths).float()


def trained_cnn():
    return settled(Cnn(), images()[0])


def fine_tuned(model):
    """Three short epochs: what a user declares as `train`."""
    inputs, labels = images(256, seed=3)
    draw = torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model.train()
    for _ in range(4):
        for at in torch.randperm(256, generator=draw).split(32):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs[at]), labels[at]).backward()
            optimizer.step()


def fine_tuned_cnn():
    torch.manual_seed(0)
    model = trained_cnn()
    fine_tuned(model)
    return model.eval()


Pictures = Release(
    model=trained_cnn,
    example=lambda: images(8)[0],
    calibration=lambda: images(64, seed=3),
    validation=lambda: images(100, seed=4),
)
Learned = Release(
    model=fine_tuned_cnn,
    example=lambda: images(8)[0],
    calibration=lambda: images(64, seed=3),
    validation=lambda: images(100, seed=4),
    train=fine_tuned,
)
Sentences = Release(model=lambda: Encoder().eval(), example=lambda: sentences(8), names=("words", "mask"))


# What an export ruins, or what no export can save (ledger A-242).


class Branching(nn.Module):
    """Looks at the numbers to choose a way: a trace keeps only the way its example took."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        y = self.layer(x)
        if x.sum() > 0:
            return y
        return -2.0 * y


class BakedBatch(nn.Module):
    """Reads the number of rows as a Python number while it is built, so a trace keeps that of its example."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x).reshape(int(x.shape[0]), 2, 2).flatten(1)


class FixedBatch(nn.Module):
    """Holds a tensor with one row per row of the example: other numbers of rows fail, or, one, are spread out."""

    def __init__(self, rows=2):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.register_buffer("state", torch.linspace(-1, 1, rows * 4).reshape(rows, 4))

    def forward(self, x):
        return self.layer(x) + self.state


class Squeezed(nn.Module):
    """Drops every dimension of one, so a single row loses the dimension that counts rows."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 16)

    def forward(self, x):
        return self.layer(x).squeeze()


class AlwaysDropping(nn.Module):
    """Functional dropout whose `training` is True by default: `eval` does not reach it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return F.dropout(self.layer(x), 0.5)


class BatchStatistics(nn.Module):
    """Normalises with the statistics of the batch, in whatever mode: a row's answer hangs on its neighbours."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.layer(x)
        return F.batch_norm(y, None, None, self.norm.weight, self.norm.bias, training=True)


class Dropping(nn.Module):
    """A healthy module with dropout, for `traced_in_training`."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.layer(x))


def traced_in_training(model=None, example=None):
    """A TorchScript trace that was made in training mode: it stays random after `eval()`."""
    model = Dropping() if model is None else model
    example = rows(2) if example is None else example
    return torch.jit.trace(model.train(), example, check_trace=False).eval()


def rows(count, seed=5):
    """Rows of eight numbers whose sum is above zero for some and below for others, the first two above."""
    draw = torch.Generator().manual_seed(seed)
    found = torch.randn(count, 8, generator=draw)
    found[:2] = found[:2].abs()
    return found


def of_rows(model, **more):
    """A release of a module that takes rows of eight numbers."""
    return Release(model=model, example=lambda: rows(4), calibration=lambda: (rows(64), torch.arange(64) % 4), **more)


BranchingRows = of_rows(lambda: Branching().eval())
BakedRows = of_rows(lambda: BakedBatch().eval())
FixedRows = Release(model=lambda: FixedBatch().eval(), example=lambda: rows(2), calibration=lambda: rows(2))
SqueezedPictures = Release(
    model=lambda: Squeezed().eval(), example=lambda: images(4)[0], calibration=lambda: images(16, seed=3)
)
AlwaysDroppingRows = of_rows(lambda: AlwaysDropping().eval())
BatchStatisticsRows = of_rows(lambda: BatchStatistics().eval())
TracedInTrainingRows = of_rows(traced_in_training)
RUINED = {
    "a traced branch": "BranchingRows",
    "a number of rows kept as a Python number": "BakedRows",
    "a tensor with a fixed number of rows": "FixedRows",
    "a squeezed batch of one": "SqueezedPictures",
    "functional dropout": "AlwaysDroppingRows",
    "batch norm with the statistics of the batch": "BatchStatisticsRows",
    "a trace made in training mode": "TracedInTrainingRows",
}


def reference(name):
    """How the release of that name is found in another process; one of another file has its own reference for a name."""
    return name if ":" in name else f"{HERE}:{name}"


def release(name):
    return releases.load(reference(name))


def signature_of(found):
    """What a release's module takes and gives."""
    example, model = found.sample(), found.module().eval()
    with torch.inference_mode():
        output = model(*example)
    outputs = output if isinstance(output, tuple) else (output,)
    names = found.names or tuple(f"input{at}" if len(example) > 1 else "input" for at in range(len(example)))
    return Signature(
        inputs=tuple(map(port, names, example)),
        outputs=tuple(port(f"output{at}", tensor) for at, tensor in enumerate(outputs)),
    )


def port(name, tensor):
    return Port(name=name, dtype=str(tensor.dtype).removeprefix("torch."), shape=tuple(tensor.shape[1:]))


def arrays_of(tensors):
    return tuple(np.ascontiguousarray(tensor.numpy()) for tensor in tensors)


def expected(found, tensors):
    """What the module itself answers, in eager PyTorch."""
    model = found.module().eval()
    with torch.inference_mode():
        output = model(*tensors)
    return arrays_of(output if isinstance(output, tuple) else (output,))


def exported(runtime, name, folder, *, batches=(1,), dynamic=True):
    """Export in a fresh process; gives what was built."""
    spec = Spec(
        reference=reference(name),
        change=base.written(runtime),
        folder=str(folder),
        signature=signature_of(release(name)),
        batches=batches,
        dynamic=dynamic,
        rows=32,
    )
    return export(spec, timeout_s=TIMEOUT_S)


def loaded(runtime, name, folder, *, running=None):
    """Load in another fresh process."""
    signature = signature_of(release(name))
    return Process(base.written(runtime), folder, running or Running(), signature, timeout_s=TIMEOUT_S)


def exportable(name, **more):
    """The release of that name, ready to be exported in this process."""
    found = release(name)
    example = found.sample()
    return base.Exportable(
        reference=reference(name),
        model=found.module().eval().requires_grad_(requires_grad=False),
        example=example,
        signature=signature_of(found),
        calibration=lambda: [tuple(tensor[at : at + 1] for tensor in example) for at in range(len(example[0]))],
        **more,
    )


def decibels(mine, theirs):
    """Signal to noise of some answers against those of the module itself, over all outputs."""
    assert [one.shape for one in mine] == [one.shape for one in theirs]
    mine, theirs = (np.concatenate([np.asarray(one, np.float64).ravel() for one in each]) for each in (mine, theirs))
    noise = float(np.square(mine - theirs).sum())
    return 10 * np.log10(float(np.square(theirs).sum()) / noise) if noise else np.inf


def traits_of(found, *, flags=None, calibration=None):
    """What is known of a release before anything is exported."""
    model, layers = found.module(), {}
    for module in model.modules():
        layers[type(module).__name__] = layers.get(type(module).__name__, 0) + 1
    return base.Traits(
        layers=layers,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        dynamic=found.dynamic,
        flags=base.processor_flags() if flags is None else flags,
        cores=host.cores(),
        calibration=found.calibration is not None if calibration is None else calibration,
    )


def printed(source, *arguments):
    """What a fresh process prints that runs some Python."""
    done = subprocess.run(
        (sys.executable, "-c", source, *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
