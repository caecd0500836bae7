"""Three trained models to ship: a ResNet-18 and a MobileNetV3-Small-like CNN at 224 x 224, and a four-layer encoder.

`netdyno deploy benchmarks/ship_models.py:ResNet18`. The first use trains the model for some minutes and keeps its weights below
`.netdyno/ship-models`; nothing is downloaded. Images are Fashion-MNIST's, doubled in size and tiled, so that a network that averages over
the picture can be trained on a part of it: a tile is 64 wide, a multiple of every stride. They are trained at half to whole size, as random
resized crops do, so that smaller pictures can be tried; doubling adds no detail, so half the size holds all there is. Texts are pieces of 128 bytes of Python's own library, and the question is
which package they are of.
"""

import json
import os
import random
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from netdyno.targets.garage import resnet as clothes
from netdyno.targets.release import Release, bilinear

WEIGHTS = Path(os.environ.get("NETDYNO_SHIP_MODELS", ".netdyno/ship-models"))
TRAIN, VAL, CALIBRATION = 4000, 4000, 300
PACKAGES = ("asyncio", "email", "encodings", "idlelib", "json", "lib2to3", "multiprocessing", "unittest")
LENGTH = 128
SIDES = (192, 160, 128, 112)


# --- models -------------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al. 2015)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))) + self.shortcut(x))


def resnet18() -> nn.Module:
    """11.2 million parameters, 1.8 GFLOP multiply-adds at 224 x 224."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    ]  # fmt: skip
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Squeeze(nn.Module):
    """Squeeze and excitation (Hu et al. 2017), as MobileNetV3 has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        narrow = max(8, (width // 4 + 7) // 8 * 8)
        self.down, self.up = nn.Conv2d(width, narrow, 1), nn.Conv2d(narrow, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    """An inverted residual with a depth-wise convolution (Howard et al. 2019)."""

    def __init__(
        self, inputs: int, wide: int, outputs: int, kernel: int, stride: int, *, squeeze: bool, hard: bool
    ) -> None:
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        layers: list[nn.Module] = []
        if wide != inputs:
            layers += [nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide), act()]
        layers += [
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            act(),
        ]
        if squeeze:
            layers.append(Squeeze(wide))
        layers += [nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*layers)
        self.same = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.same else self.layers(x)


def mobilenet() -> nn.Module:
    """The layers of MobileNetV3-Small: 1.5 million parameters, 56 million multiply-adds at 224 x 224."""
    rows = (
        (16, 16, 16, 3, 2, True, False), (16, 72, 24, 3, 2, False, False), (24, 88, 24, 3, 1, False, False),
        (24, 96, 40, 5, 2, True, True), (40, 240, 40, 5, 1, True, True), (40, 240, 40, 5, 1, True, True),
        (40, 120, 48, 5, 1, True, True), (48, 144, 48, 5, 1, True, True), (48, 288, 96, 5, 2, True, True),
        (96, 576, 96, 5, 1, True, True), (96, 576, 96, 5, 1, True, True),
    )  # fmt: skip
    blocks = [Inverted(i, w, o, k, s, squeeze=se, hard=hard) for i, w, o, k, s, se, hard in rows]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(), *blocks,
        nn.Conv2d(96, 576, 1, bias=False), nn.BatchNorm2d(576), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 10),
    )  # fmt: skip


class Encoder(nn.Module):
    """Four layers of a transformer encoder over bytes: width 256, 4 heads, 1,024 in the middle, 128 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, 256), nn.Parameter(torch.randn(LENGTH, 256) * 0.02)
        layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.1, F.gelu, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, norm=nn.LayerNorm(256), enable_nested_tensor=False)
        self.head = nn.Linear(256, len(PACKAGES))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.tokens(tokens) + self.places).mean(1))


# --- data ---------------------------------------------------------------------------------------------------------------


class Tiled(torch.utils.data.Dataset):
    """Pictures of 28 x 28, doubled and tiled `tiles` by `tiles`, as three channels, at most 224 wide."""

    def __init__(self, part: str, count: int, tiles: int, skip: int = 0) -> None:
        images, labels = clothes._part(part, skip + count)
        self.images, self.labels, self.tiles = images[skip:], labels[skip:], tiles

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, at: int) -> tuple[Tensor, Tensor]:
        return tiled(self.images[at : at + 1], self.tiles)[0], self.labels[at]


def tiled(images: Tensor, tiles: int) -> Tensor:
    """(N, 1, 28, 28) as (N, 3, 64 tiles, 64 tiles), at most 224 wide: with a margin of two, doubled and repeated."""
    wide = F.pad(images, (2, 2, 2, 2), value=-clothes.MEAN / clothes.SPREAD)
    return F.interpolate(wide, scale_factor=2.0, mode="nearest").repeat(1, 3, tiles, tiles)[:, :, :224, :224]


def texts(part: str) -> tuple[Tensor, Tensor]:
    """Pieces of the library's source, whole files apart: files whose number is a multiple of 4 are for validation."""
    library = Path(sysconfig.get_paths()["stdlib"])
    chance = random.Random(0)
    rows, labels = [], []
    for label, package in enumerate(PACKAGES):
        files = sorted((library / package).rglob("*.py"))
        chosen = [file for at, file in enumerate(files) if (at % 4 == 0) == (part == "val")]
        held = b"\n".join(file.read_bytes() for file in chosen)
        count = min(len(held) // LENGTH, 260 if part == "val" else 900)
        for _ in range(count):
            at = chance.randrange(len(held) - LENGTH)
            rows.append(np.frombuffer(held[at : at + LENGTH], dtype=np.uint8).astype(np.int64))
            labels.append(label)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    return torch.from_numpy(np.stack(rows))[order], torch.tensor(labels)[order]


# --- training -----------------------------------------------------------------------------------------------------------


def trained(name: str, make, learn) -> nn.Module:
    """The model with its weights: of the file, or trained now."""
    torch.manual_seed(0)
    model = make()
    file = WEIGHTS / f"{name}.pt"
    if not file.is_file():
        learn(model)
        WEIGHTS.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), file.with_suffix(".part"))
        file.with_suffix(".part").rename(file)
    model.load_state_dict(torch.load(file, weights_only=True))
    return model.eval()


def learn_images(model: nn.Module) -> None:
    """Single tiles and 2 x 2 at half size by turns; then whole pictures at half to whole size, on running statistics that stand.

    A batch of one size has statistics of its own, and a running mean suits none of the sizes: weights have to learn with what they will run with.
    """
    chance = random.Random(0)

    def near_or_far(rows: Tensor) -> Tensor:
        if chance.random() < 0.5:
            return tiled(images[rows], 1)
        return bilinear(tiled(images[rows], 2), 64)

    def scaled(tiles: int) -> Callable[[Tensor], Tensor]:
        def pictures(rows: Tensor) -> Tensor:
            whole = tiled(images[rows], tiles)
            return bilinear(whole, round(whole.shape[-1] * chance.choice((224, *SIDES, 112, 112)) / 224 / 8) * 8)

        return pictures

    def learned(pictures: Callable[[Tensor], Tensor], steps: int, rate: float, size: int = 32, **told) -> None:
        _learn(
            model, lambda rows: (pictures(rows), labels[rows]), count=TRAIN, size=size, steps=steps, rate=rate, **told
        )

    images, labels = clothes._part("train", TRAIN)
    large = sum(parameter.numel() for parameter in model.parameters()) > 5e6
    model.to(memory_format=torch.channels_last)
    learned(near_or_far, 600 if large else 2000, 2e-3)
    if large:
        learned(scaled(2), 400, 1e-3)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        for at in range(0, 320, 32):
            model(scaled(4)(torch.arange(at, at + 32)))
    learned(scaled(4), 700 if large else 900, 2e-4 if large else 1e-3, size=16, frozen=norms)
    model.to(memory_format=torch.contiguous_format)
    for norm in norms:
        norm.momentum = 0.1


def learn_texts(model: nn.Module) -> None:
    """Three epochs of bytes."""
    rows, labels = texts("train")
    _learn(model, lambda at: (rows[at], labels[at]), count=len(rows), size=32, steps=3 * (len(rows) // 32), rate=5e-4)


def _learn(
    model: nn.Module, batch, *, count: int, size: int, steps: int, rate: float, frozen: Sequence[nn.Module] = ()
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    generator = torch.Generator().manual_seed(0)
    model.train()
    for module in frozen:
        module.eval()
    for step in range(steps):
        if step % (count // size) == 0:
            order = torch.randperm(count, generator=generator)
        at = step % (count // size) * size
        inputs, labels = batch(order[at : at + size])
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(f"{step}/{steps} loss {loss.item():.3f}", flush=True)


# --- releases -----------------------------------------------------------------------------------------------------------


def images_of(name: str, make) -> Release:
    return Release(
        name=name,
        model=lambda: trained(name, make, learn_images),
        example=lambda: torch.stack([Tiled("t10k", 4, 4)[at][0] for at in range(4)]),
        calibration=lambda: Tiled("train", CALIBRATION * 2, 4, skip=TRAIN),
        validation=lambda: Tiled("t10k", VAL, 4),
        classes=("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"),
        names=("image",),
        sizes=SIDES,
        licences={"data": "Fashion-MNIST, MIT"},
    )


ResNet18 = images_of("resnet18", resnet18)
MobileNet = images_of("mobilenet", mobilenet)
Bytes = Release(
    name="bytes",
    model=lambda: trained("bytes", Encoder, learn_texts),
    example=lambda: texts("val")[0][:4],
    calibration=lambda: tuple(part[:CALIBRATION] for part in texts("train")),
    validation=lambda: texts("val"),
    classes=PACKAGES,
    names=("tokens",),
    licences={"data": "Python's library, PSF-2.0"},
)
ALL = {"resnet18": ResNet18, "mobilenet": MobileNet, "bytes": Bytes}

if __name__ == "__main__":
    for release in ALL.values():
        model = release.module()
        data = release.validation_data()
        right = total = 0
        with torch.inference_mode():
            for inputs, labels in torch.utils.data.DataLoader(data, batch_size=32):
                right += int((model(inputs).argmax(1) == labels).sum())
                total += len(labels)
        print(json.dumps({"model": release.name, "accuracy": right / total, "rows": total}), flush=True)
