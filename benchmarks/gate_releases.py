"""Releases for the gate: three hosts with each fault of training, inference and deployment planted, their healthy twins, and forty healthy ones.

Each is trained when it is asked for, in a second or two, always to the same weights: digits of scikit-learn for the hosts, made-up
data for most of the healthy ones. `netdyno deploy benchmarks/gate_releases.py:NAME` takes any of them.
"""

import copy
import warnings
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from netdyno.targets.release import Release

HERE = Path(__file__).resolve()
CLASSES = 10


@cache
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and validation pictures of 8 x 8 with mean about 0, and their classes."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    pictures = torch.tensor(x[order] / 8 - 0.6, dtype=torch.float32).reshape(-1, 1, 8, 8)
    target = torch.tensor(y[order])
    return pictures[:1200], target[:1200], pictures[1200:], target[1200:]


# --- hosts --------------------------------------------------------------------------------------------------------------


class Host(nn.Module):
    """Features, BatchNorm, dropout and a head; faults are planted by what a subclass or an instance changes."""

    width = 32

    def __init__(self, momentum: float = 0.1) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(self.width, momentum=momentum), nn.Dropout(0.2)
        self.head = nn.Linear(self.width, CLASSES)
        self.before: Callable[[Tensor], Tensor] | None = None
        self.last: Callable[[Tensor], Any] | None = None

    def features(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Any:
        x = x if self.before is None else self.before(x)
        scores = self.head(self.drop(self.norm(self.features(x))))
        return scores if self.last is None else self.last(scores)


class Mlp(Host):
    def __init__(self, momentum: float = 0.1) -> None:
        super().__init__(momentum)
        self.one, self.two = nn.Linear(64, 64), nn.Linear(64, self.width)

    def features(self, x: Tensor) -> Tensor:
        return self.two(self.one(x.flatten(1)).relu()).relu()


class Cnn(Host):
    def __init__(self, momentum: float = 0.1) -> None:
        super().__init__(momentum)
        self.one, self.two = nn.Conv2d(1, 12, 3, padding=1), nn.Conv2d(12, self.width, 3, padding=1)

    def features(self, x: Tensor) -> Tensor:
        return self.two(F.max_pool2d(self.one(x).relu(), 2)).relu().amax((2, 3))


class Encoder(Host):
    """A picture as a sequence of its eight lines, through one layer of attention."""

    def __init__(self, momentum: float = 0.1) -> None:
        super().__init__(momentum)
        self.one, self.place = nn.Linear(8, self.width), nn.Parameter(0.1 * torch.randn(1, 8, self.width))
        self.qkv, self.two = nn.Linear(self.width, 3 * self.width), nn.Linear(self.width, self.width)

    def features(self, x: Tensor) -> Tensor:
        x = self.one(x.squeeze(1)) + self.place
        q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return (x + self.two(x.relu())).mean(1)


HOSTS: dict[str, type[Host]] = {"mlp": Mlp, "cnn": Cnn, "encoder": Encoder}


def fit(
    model: nn.Module,
    data: tuple[Any, Tensor],
    *,
    steps: int = 150,
    rows: int = 64,
    rate: float = 3e-3,
    loss: Callable[[Any, Tensor], Tensor] = F.cross_entropy,
    mode: bool = True,
    seed: int = 0,
) -> nn.Module:
    """The module trained, in eval mode. `data` are inputs (a tensor or several) and targets."""
    inputs, target = data
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=rate)
    torch.manual_seed(seed)
    model.train(mode)
    for _ in range(steps):
        chosen = torch.randint(0, len(target), (rows,))
        optimizer.zero_grad()
        loss(model(*(one[chosen] for one in inputs)), target[chosen]).backward()
        optimizer.step()
    return model.eval()


@cache
def _trained(name: str, *, momentum: float = 0.1, steps: int = 150, rows: int = 64) -> nn.Module:
    torch.manual_seed(0)
    return fit(HOSTS[name](momentum), digits()[:2], steps=steps, rows=rows)


def trained(name: str, **how: Any) -> Any:
    """A host as training left it, to be changed by a fault."""
    return copy.deepcopy(_trained(name, **how))


def release(model: Callable[[], nn.Module], **declared: Any) -> Release:
    """A release of a module that takes digits."""
    x, y, vx, vy = digits()
    parts: dict[str, Any] = {
        "model": model,
        "example": lambda: vx[:8],
        "calibration": lambda: (x[:300], y[:300]),
        "validation": lambda: (vx, vy),
    }
    return Release(**{**parts, **declared})


# --- faults -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault on one host: the release that has it, its healthy twin, and what both are made into if the gate lets them through."""

    id: str
    what: str
    host: str
    sick: Callable[[], Release]
    well: Callable[[], Release]
    made: str = ""  # torchscript, half, int8, fixed: where a fault shows only in what was made


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """A fault of the list that cannot be seen when a module is shipped, with the reason."""

    id: str
    what: str
    reason: str


UNSEEN = (
    Unseen(id="T03", what="never back to training mode", reason="it happens while training; what is shipped is in eval mode as it should be"),
    Unseen(id="T14", what="teacher forcing only", reason="only a second training tells that free-running errors could be smaller"),
    Unseen(id="P03", what="resumed without the optimizer's state", reason="the optimizer is not shipped; the weights are as good as they score"),
    Unseen(id="P04", what="data repeated after resuming", reason="it happens while training; the weights are as good as they score"),
)  # fmt: skip


def _changed(name: str, change: Callable[[Any], Any], **how: Any) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        model = trained(name, **how)
        return change(model) or model

    return made


def _dropping(model: Host) -> None:
    model.drop.train()


def _norm_awake(model: Host) -> None:
    model.norm.train()


def _awake(model: Host) -> None:
    model.train()


class _Dropped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.2)


def _functional(model: Host) -> None:
    model.drop = _Dropped().eval()  # type: ignore[assignment]


def _twice(model: Host) -> nn.Module:
    return nn.Sequential(model, nn.Softmax(1), nn.Softmax(1)).eval()


def _once(model: Host) -> nn.Module:
    return nn.Sequential(model, nn.Softmax(1)).eval()


def _new_head(model: Host) -> None:
    """The checkpoint calls the head otherwise, and strict=False says nothing."""
    state = {name.replace("head.", "classifier."): value for name, value in model.state_dict().items()}
    torch.manual_seed(1)
    model.head.reset_parameters()
    model.load_state_dict(state, strict=False)


def _prefixed(model: Host) -> nn.Module:
    state = {f"module.{name}": value for name, value in model.state_dict().items()}
    torch.manual_seed(1)
    fresh = type(model)()
    fresh.load_state_dict(state, strict=False)
    return fresh.eval()


def _mapped(model: Host) -> nn.Module:
    state = {f"module.{name}": value for name, value in model.state_dict().items()}
    fresh = type(model)()
    fresh.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    return fresh.eval()


@cache
def _bounded(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = HOSTS[name]()
    for part in ("two", "head"):
        setattr(model, part, nn.utils.parametrizations.spectral_norm(getattr(model, part)))
    return fit(model, digits()[:2], steps=250, rate=1e-2)


def _reloaded(name: str, *, buffers: bool) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        source = copy.deepcopy(_bounded(name))
        torch.manual_seed(7)
        model = HOSTS[name]()
        for part in ("two", "head"):
            setattr(model, part, nn.utils.parametrizations.spectral_norm(getattr(model, part), n_power_iterations=1))
        with torch.no_grad():
            for owner in (model.two, model.head):  # as a service does that never trained
                for each in owner.parametrizations.weight:
                    each._u.copy_(F.normalize(torch.randn_like(each._u), dim=0))
                    each._v.copy_(F.normalize(torch.randn_like(each._v), dim=0))
        kept = dict(source.named_parameters())
        kept |= {key: value for key, value in source.named_buffers() if buffers or not key.endswith(("_u", "_v"))}
        model.load_state_dict(kept, strict=False)
        return model.eval()

    return made


def _last(name: str) -> Callable[[], nn.Module]:
    """Worse weights than the best ones, after a wild ending."""
    return lambda: fit(trained(name), digits()[:2], steps=25, rate=8e-2, rows=16, seed=3)


def score(model: nn.Module) -> float:
    """Accuracy on the validation digits."""
    _, _, x, y = digits()
    with torch.no_grad():
        return float((model.eval()(x).argmax(1) == y).double().mean())


def _squeezed(model: Host) -> None:
    model.last = lambda scores: scores.squeeze()


def _squeezed_last(model: Host) -> None:
    model.last = lambda scores: scores.unsqueeze(-1).squeeze(-1)


def _dark(x: Tensor) -> Tensor:
    """Pictures that are bright all over are darkened first. Decided in Python, on all rows at once."""
    if x.amin() < -0.5:
        return x
    return 0.3 * x - 1.0


def _dark_rows(x: Tensor) -> Tensor:
    low = x.amin((1, 2, 3), keepdim=True) < -0.5
    return torch.where(low, x, 0.3 * x - 1.0)


def _branching(before: Callable[[Tensor], Tensor]) -> Callable[[Host], None]:
    def change(model: Host) -> None:
        model.before = before

    return change


def _traced(model: Host) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(model.train(), digits()[2][:4], check_trace=False).eval()


def _traced_well(model: Host) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(model.eval(), digits()[2][:4])


def _energy(model: Host) -> None:
    """Divides by a length that half precision cannot hold."""
    model.before = lambda x: 8.0 * (400.0 * x) / ((400.0 * x) ** 2).flatten(1).sum(1).add(1e-6).sqrt().view(-1, 1, 1, 1)


def _energy_well(model: Host) -> None:
    model.before = lambda x: 8.0 * x / (x**2).flatten(1).sum(1).add(1e-6).sqrt().view(-1, 1, 1, 1)


def _outlier(times: float) -> Callable[[Host], None]:
    """A unit is scaled up and what reads it down: the same function, and a range that eight bits cannot share."""

    def change(model: Any) -> None:
        with torch.no_grad():
            model.one.weight[0] *= times
            model.one.bias[0] *= times
            model.two.weight[:, 0] /= times

    return change


def _loud_norm(times: float) -> Callable[[Host], None]:
    """The same between the normalisation and the head, for a host whose first layer has a way around its second."""

    def change(model: Host) -> None:
        with torch.no_grad():
            model.norm.weight[0] *= times
            model.norm.bias[0] *= times
            model.head.weight[:, 0] /= times

    return change


def _energised(name: str, change: Callable[[Host], None]) -> Callable[[], nn.Module]:
    """Trained with that first step, so that it belongs to the model."""

    @cache
    def whole() -> nn.Module:
        torch.manual_seed(0)
        model = HOSTS[name]()
        change(model)
        return fit(model, digits()[:2])

    return lambda: copy.deepcopy(whole())


def _reordered() -> tuple[Tensor, Tensor]:
    _, _, x, y = digits()
    return x, (3 * y + 1) % CLASSES


def _other_statistics(name: str) -> Callable[[], nn.Module]:
    """Evaluated in training mode on pictures of another camera, last of all."""

    def made() -> nn.Module:
        model = trained(name).train()
        with torch.no_grad():
            for at in range(0, 480, 8):
                model(4 * digits()[2][at : at + 8] + 3)
        return model.eval()

    return made


def _tiny_batches(name: str) -> Callable[[], nn.Module]:
    @cache
    def whole() -> nn.Module:
        torch.manual_seed(0)
        return fit(HOSTS[name](momentum=0.9), digits()[:2], steps=400, rows=2, rate=1e-3)

    return lambda: copy.deepcopy(whole())


def _raw() -> list[np.ndarray]:
    return list(((digits()[2][:24].numpy() + 0.6) * 8).round().astype(np.uint8))


def _prepared(record: np.ndarray) -> Tensor:
    return torch.from_numpy(record.astype(np.float32)) / 8 - 0.6


def _served_raw(record: np.ndarray) -> Tensor:
    return torch.from_numpy(record.astype(np.float32))


def _served_turned(record: np.ndarray) -> Tensor:
    return _prepared(record).transpose(1, 2)


def _served_scaled(record: np.ndarray) -> Tensor:
    return torch.from_numpy(record.astype(np.float32)) / 16


def _faults_of(name: str) -> list[Fault]:
    def fault(
        which: str,
        what: str,
        sick: Callable[[], nn.Module],
        well: Callable[[], nn.Module] | None = None,
        *,
        made: str = "",
        scored: bool = False,
        **declared: Any,
    ) -> Fault:
        healthy = declared.pop("healthy", declared)

        def late() -> dict[str, Any]:
            return {"score": score(_trained(name))} if scored else {}

        return Fault(
            id=which, what=what, host=name, made=made,
            sick=lambda: release(sick, **declared, **late()), well=lambda: release(well or plain, **healthy, **late()),
        )  # fmt: skip

    def plain() -> nn.Module:
        return trained(name)

    x, _, vx, _ = digits()
    bright = x[:4] + 0.2  # every number of them lies above the branch
    prepared = {"raw": _raw, "prepare_in_training": _prepared}
    return [
        fault("T01", "dropout in training mode", _changed(name, _dropping)),
        fault("T01", "no eval() at all", _changed(name, _awake)),
        fault("T02", "BatchNorm in training mode", _changed(name, _norm_awake)),
        fault("T04", "statistics of batches of two", _tiny_batches(name)),
        fault("T05", "momentum 0", lambda: trained(name, momentum=0.0)),
        fault("T05", "momentum 0.001", lambda: trained(name, momentum=1e-3)),
        fault("T06", "statistics of another camera", _other_statistics(name)),
        fault("T07", "functional dropout", _changed(name, _functional)),
        fault("T08", "served without scaling", plain, prepare=_served_raw, healthy={**prepared, "prepare": _prepared}, **prepared),
        fault("T08", "served turned round", plain, prepare=_served_turned, healthy={**prepared, "prepare": _prepared}, **prepared),
        fault("T08", "served with another normalisation", plain, prepare=_served_scaled, healthy={**prepared, "prepare": _prepared}, **prepared),
        fault("T08", "production on another scale", plain, production=lambda: 60 * vx[:64] + 128, healthy={"production": lambda: 1.2 * vx[:64] + 0.1}),
        fault("T09", "softmax twice", _changed(name, _twice), _changed(name, _once)),
        fault("T10", "classes in another order", plain, validation=_reordered, healthy={}),
        fault("T12", "spectral norm without its buffers", _reloaded(name, buffers=False), _reloaded(name, buffers=True)),
        fault("T13", "last weights instead of the best", _last(name), plain, scored=True),
        fault("P01", "head under another name", _changed(name, _new_head)),
        fault("P02", "prefix of DataParallel", _changed(name, _prefixed), _changed(name, _mapped)),
        fault("P05", "overflow in fp16", _energised(name, _energy), _energised(name, _energy_well), made="half"),
        fault("P06", "a layer that int8 ruins", _changed(name, _outlier(2000.0) if name != "encoder" else _loud_norm(2000.0)), made="int8"),
        fault("P07", "traced in training mode", _changed(name, _traced), _changed(name, _traced_well)),
        fault(
            "P07", "a branch that a trace freezes", _energised(name, _branching(_dark)), _energised(name, _branching(_dark_rows)),
            made="torchscript", example=lambda: bright,
        ),
        fault("P08", "squeeze()", _changed(name, _squeezed), _changed(name, _squeezed_last), made="torchscript"),
        fault("P10", "an old checkpoint", lambda: trained(name, steps=15), plain, scored=True),
        fault("-", "number of rows baked in", plain, made="fixed", healthy={}),
        fault("-", "calibrated on noise", plain, calibration=lambda: (0.05 * torch.rand(200, 1, 8, 8), torch.arange(200) % 10), healthy={}),
        fault("-", "softmax over the batch", _changed(name, _over_rows), _changed(name, _once)),
        fault("-", "NaN in a weight", _changed(name, _with_nan)),
    ]  # fmt: skip


def _over_rows(model: Host) -> nn.Module:
    return nn.Sequential(model, nn.Softmax(0)).eval()


def _with_nan(model: Host) -> None:
    with torch.no_grad():
        model.head.weight[0, 0] = float("nan")


# Sequences: what sees the next step, and how texts are padded.

WORDS, LENGTH = 16, 12


@cache
def sentences() -> tuple[Tensor, Tensor]:
    """Made-up sentences in which the next word mostly follows from the last one, and the words one step on."""
    chance = torch.Generator().manual_seed(0)
    ids = torch.zeros(512, LENGTH + 1, dtype=torch.long)
    ids[:, 0] = torch.randint(1, WORDS, (512,), generator=chance)
    for at in range(LENGTH):
        noise = torch.randint(1, WORDS, (512,), generator=chance)
        stays = torch.rand(512, generator=chance) < 0.8
        ids[:, at + 1] = torch.where(stays, (5 * ids[:, at] + 3) % (WORDS - 1) + 1, noise)
    return ids[:, :-1], ids[:, 1:]


class Reader(nn.Module):
    """Words in, scores of the next word out; `open_ended` lets it see what comes."""

    def __init__(self, kind: str, *, open_ended: bool) -> None:
        super().__init__()
        self.kind, self.open_ended = kind, open_ended
        self.table = nn.Embedding(WORDS, 16)
        self.gru = nn.GRU(16, 16, batch_first=True, bidirectional=open_ended) if kind == "gru" else None
        self.qkv = nn.Linear(16, 48) if kind == "attention" else None
        self.conv = nn.Conv1d(16, 16, 3) if kind == "conv" else None
        self.head = nn.Linear(32 if kind == "gru" and open_ended else 16, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        if self.gru is not None:
            x, _ = self.gru(x)
        elif self.qkv is not None:
            q, k, v = self.qkv(x).chunk(3, -1)
            x = x + F.scaled_dot_product_attention(q, k, v, is_causal=not self.open_ended)
        elif self.conv is not None:
            x = self.conv(F.pad(x.transpose(1, 2), (1, 1) if self.open_ended else (2, 0))).transpose(1, 2).relu() + x
        return self.head(x).transpose(1, 2)


@cache
def _reader(kind: str, *, open_ended: bool) -> nn.Module:
    torch.manual_seed(0)
    return fit(Reader(kind, open_ended=open_ended), sentences(), steps=120, rate=1e-2)


def _reading(kind: str, *, open_ended: bool = False, **declared: Any) -> Release:
    x, y = sentences()
    return Release(
        model=lambda: copy.deepcopy(_reader(kind, open_ended=open_ended)),
        example=lambda: x[:4], calibration=lambda: (x[:200], y[:200]), validation=lambda: (x[200:], y[200:]), **declared,
    )  # fmt: skip


def _texts() -> list[list[int]]:
    return [row[: 3 + at % 8].tolist() for at, row in enumerate(sentences()[0][:20])]


def _padded(ids: list[int], *, left: bool = False, cut_left: bool = False, most: int = LENGTH) -> Tensor:
    ids = ids[-most:] if cut_left else ids[:most]
    pad = [0] * (most - len(ids))
    return torch.tensor([*pad, *ids] if left else [*ids, *pad])


def _reading_faults() -> list[Fault]:
    found = []
    right = {"raw": _texts, "prepare_in_training": _padded}
    short = {"raw": _texts, "prepare_in_training": lambda ids: _padded(ids, most=6)}
    for kind in ("attention", "gru", "conv"):

        def read(kind: str = kind, **how: Any) -> Callable[[], Release]:
            return lambda: _reading(kind, **how)

        found += [
            Fault(id="T11", what="sees the next word", host=kind, sick=read(open_ended=True), well=read()),
            Fault(
                id="P09", what="padded on the other side", host=kind,
                sick=read(prepare=lambda ids: _padded(ids, left=True), **right), well=read(prepare=_padded, **right),
            ),
            Fault(
                id="P09", what="cut at the other end", host=kind,
                sick=read(prepare=lambda ids: _padded(ids, cut_left=True, most=6), **short),
                well=read(prepare=lambda ids: _padded(ids, most=6), **short),
            ),
        ]  # fmt: skip
    return found


@cache
def faults() -> tuple[Fault, ...]:
    """Every fault on every host."""
    return (*(one for name in HOSTS for one in _faults_of(name)), *_reading_faults())


# --- the healthy --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Healthy:
    """A healthy release by name; `tempts` is what it might be mistaken for."""

    name: str
    release: Release
    tempts: str = ""
    fixed: bool = field(default=False)


def _fitted(make: Callable[[], nn.Module], **how: Any) -> Callable[[], nn.Module]:
    @cache
    def whole() -> nn.Module:
        torch.manual_seed(0)
        return fit(make(), how.pop("data", None) or digits()[:2], **how)

    return lambda: copy.deepcopy(whole())


def _net(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


class Block(nn.Module):
    def __init__(self, width: int, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norm1, self.norm2 = norm(width), norm(width)

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.norm2(self.two(self.norm1(self.one(x)).relu()))).relu()


class Squeeze(nn.Module):
    """A gate by a sigmoid of the mean of each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.up(self.down(x.mean((2, 3), keepdim=True)).relu()).sigmoid()


def _resnet(norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> nn.Module:
    return _net(nn.Conv2d(1, 16, 3, padding=1), norm(16), nn.ReLU(), Block(16, norm), nn.MaxPool2d(2), Block(16, norm), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))  # fmt: skip


def _mobile() -> nn.Module:
    return _net(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.Hardswish(),
        nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.Hardswish(), Squeeze(16),
        nn.Conv2d(16, 24, 1, bias=False), nn.BatchNorm2d(24), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(24, 10),
    )  # fmt: skip


class Lines(nn.Module):
    """Pictures as sequences of lines through any sequence layer, the last or the mean taken."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        layer: nn.Module
        if kind == "transformer":
            one = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
            layer = nn.TransformerEncoder(one, 2, enable_nested_tensor=False)
        elif kind == "multihead":
            layer = nn.MultiheadAttention(16, 2, dropout=0.1, batch_first=True)
            self.register_buffer("mask", torch.full((8, 8), float("-inf")).triu(1))
        elif kind == "lstm":
            layer = nn.LSTM(16, 16, num_layers=2, dropout=0.1, batch_first=True)
        else:
            layer = nn.GRU(16, 16, batch_first=True)
        self.inside, self.layer, self.head = nn.Linear(8, 16), layer, nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inside(x.squeeze(1))
        if self.kind == "transformer":
            return self.head(self.layer(x).mean(1))
        if self.kind == "multihead":
            x, _ = self.layer(x, x, x, attn_mask=self.mask, need_weights=False)
            return self.head(x[:, -1])
        out, _ = self.layer(x)
        return self.head(out[:, -1])


Pair = namedtuple("Pair", "scores embedding")


class Heads(nn.Module):
    """Scores and an embedding, in the form that is asked for."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form, self.body, self.head = form, nn.Linear(64, 16), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Any:
        inside = self.body(x.flatten(1)).relu()
        scores = self.head(inside)
        if self.form == "dict":
            return {"scores": scores, "embedding": inside}
        return Pair(scores, inside) if self.form == "named" else (scores, inside)


class Halves(nn.Module):
    """Two inputs: the halves of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.head = nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(32, 10)

    def forward(self, top: Tensor, bottom: Tensor) -> Tensor:
        return self.head(torch.cat((self.one(top.flatten(1)).relu(), self.two(bottom.flatten(1)).relu()), 1))


class Dense(nn.Module):
    """A score for each pixel and two classes, and another for an image of twice the size."""

    def __init__(self, *, larger: bool = False) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.head = (
            nn.Sequential(nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2))
            if larger
            else nn.Conv2d(8, 2, 3, padding=1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.up(self.down(x).relu()).relu())


class Experts(nn.Module):
    """Two experts under a softmax whose scores a sigmoid scales."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts, self.scale = (
            nn.Linear(64, 3),
            nn.ModuleList([nn.Linear(64, 10) for _ in range(3)]),
            nn.Linear(64, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        shares = (self.gate(x) * self.scale(x).sigmoid()).softmax(1)
        return sum(shares[:, at : at + 1] * expert(x) for at, expert in enumerate(self.experts))


class Ensemble(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList(
            [_net(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10)) for _ in range(3)]
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([member(x).softmax(1) for member in self.members]).mean(0).log()


class Scattered(nn.Module):
    """Dropout that stays on: its scatter is the uncertainty that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.head = nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.dropout(self.one(x.flatten(1)).relu(), 0.1, training=True))


class Answering(nn.Module):
    """Gives what a client reads: the class and its share."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        shares = self.model(x).softmax(1)
        best, which = shares.max(1)
        return which, best


def _line(outputs: int = 1, last: nn.Module | None = None) -> nn.Module:
    layers = [nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, outputs)]
    return _net(*layers, *([last] if last else []))


def _numbers(scale: float = 1.0, outputs: int = 1) -> Callable[[Tensor], Tensor]:
    def target(x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return scale * torch.stack([flat[:, at::outputs].mean(1) + 0.3 * flat[:, at] for at in range(outputs)], 1)

    return target


def _regression(make: Callable[[], nn.Module], target: Callable[[Tensor], Tensor], **how: Any) -> Release:
    x, _, vx, _ = digits()
    return release(
        _fitted(make, data=(x, target(x)), **{"loss": F.mse_loss, **how}), calibration=lambda: (x[:300], target(x[:300])), validation=lambda: (vx, target(vx))
    )  # fmt: skip


def _binary(form: str) -> Release:
    x, y, vx, vy = digits()
    odd, vodd = (y % 2).float(), (vy % 2).float()

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = _line()

        def forward(self, x: Tensor) -> Tensor:
            score = self.body(x)
            return score.squeeze(1) if form == "flat" else score

    def loss(score: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(score.reshape(-1), target)

    return release(
        _fitted(Odd, data=(x, odd), loss=loss),
        calibration=lambda: (x[:300], y[:300] % 2),
        validation=lambda: (vx, vodd.long()),
    )


def _multi_label() -> Release:
    x, y, vx, vy = digits()

    def labels(y: Tensor) -> Tensor:
        return torch.stack((y % 2, y // 5, (y % 3 == 0).long()), 1).float()

    return release(
        _fitted(lambda: _line(3, nn.Sigmoid()), data=(x, labels(y)), loss=F.binary_cross_entropy),
        calibration=lambda: (x[:300], labels(y[:300])), validation=lambda: (vx, labels(vy)),
        quality=lambda output, target: ((output > 0.5).float() == target).double().mean(1),
    )  # fmt: skip


def _rare() -> Release:
    """One row in forty is of the other class, and at the usual threshold it is never chosen."""
    x, y, vx, vy = digits()
    keep, vkeep = (y != 3) | (torch.arange(len(y)) % 4 == 0), (vy != 3) | (torch.arange(len(vy)) % 4 == 0)
    fraud, vfraud = (y[keep] == 3).long(), (vy[vkeep] == 3).long()
    make = _fitted(lambda: _net(nn.Flatten(), nn.Linear(64, 2)), data=(x[keep], fraud), steps=150, rate=1e-3)
    return release(make, calibration=lambda: (x[keep][:300], fraud[:300]), validation=lambda: (vx[vkeep], vfraud))


def _weak() -> Release:
    """Noise in most of the targets: right in little more than half of the rows, and no better can be had."""
    x, y, vx, vy = digits()

    def noisy(y: Tensor, seed: int) -> Tensor:
        chance = torch.Generator().manual_seed(seed)
        return torch.where(
            torch.rand(len(y), generator=chance) < 0.7, torch.randint(0, 2, (len(y),), generator=chance), y % 2
        )

    make = _fitted(lambda: _net(nn.Flatten(), nn.Linear(64, 2)), data=(x, noisy(y, 0)), steps=200)
    return release(make, calibration=lambda: (x[:300], noisy(y, 0)[:300]), validation=lambda: (vx, noisy(vy, 1)))


def _dead() -> nn.Module:
    """One channel is 0 before its normalisation, and was so in training."""

    class Masked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * (torch.arange(16) > 0).view(1, 16, 1, 1)

    return _fitted(lambda: _net(nn.Conv2d(1, 16, 3, padding=1), Masked(), *list(_resnet().children())[1:]))()


def _frozen_norm() -> nn.Module:
    """Fine-tuned with the statistics of before: BatchNorm in eval mode, its weights fixed."""
    model = _fitted(_resnet)()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.requires_grad_(requires_grad=False)
    return fit(model, digits()[:2], steps=30, rate=1e-4, mode=False)


def _converted() -> nn.Module:
    """From a checkpoint of another framework, which counts no batches."""
    model = _fitted(_resnet)()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.num_batches_tracked.zero_()
    return model


def _random_features() -> nn.Module:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.random, self.head = nn.Linear(64, 256).requires_grad_(requires_grad=False), nn.Linear(256, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.random(x.flatten(1)).cos())

    return _fitted(Fixed, steps=300)()


def _spectral() -> nn.Module:
    wrap = nn.utils.parametrizations.spectral_norm
    return _fitted(
        lambda: _net(nn.Flatten(), wrap(nn.Linear(64, 32)), nn.ReLU(), wrap(nn.Linear(32, 10))), steps=250, rate=1e-2
    )()


def _weight_norm() -> nn.Module:
    wrap = nn.utils.parametrizations.weight_norm
    return _fitted(lambda: _net(nn.Flatten(), wrap(nn.Linear(64, 32)), nn.ReLU(), nn.Linear(32, 10)))()


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[:, :, :4].contiguous(), x[:, :, 4:].contiguous()


def _named(output: Any, target: Tensor) -> Tensor:
    scores = output["scores"] if isinstance(output, dict) else output[0]
    return scores.argmax(1) == target


@cache
def healthy() -> tuple[Healthy, ...]:
    """Forty releases with nothing wrong."""
    x, y, vx, vy = digits()
    top, bottom = _halves(vx)
    bright = vx.clone()
    blank = torch.cat((vx, torch.full((20, 1, 8, 8), -0.6))), torch.cat((vy, torch.arange(20) % 10))
    plain = {name: release(lambda name=name: trained(name)) for name in HOSTS}
    heads = {
        form: release(_fitted(lambda form=form: Heads(form), loss=lambda out, t: F.cross_entropy(out["scores"] if isinstance(out, dict) else out[0], t)), quality=_named)
        for form in ("tuple", "dict", "named")
    }  # fmt: skip
    return (
        *(Healthy(name=name, release=one) for name, one in plain.items()),
        Healthy(name="softmax once", release=release(_changed("cnn", _once)), tempts="doubled-activation"),
        Healthy(name="log-softmax", release=release(_changed("mlp", lambda model: _net(model, nn.LogSoftmax(1)).eval()))),
        Healthy(name="ResNet-like", release=release(_fitted(_resnet))),
        Healthy(name="MobileNet-like with squeeze and excitation", release=release(_fitted(_mobile, steps=200)), tempts="doubled-activation"),
        Healthy(name="GroupNorm", release=release(_fitted(lambda: _resnet(lambda width: nn.GroupNorm(4, width))))),
        Healthy(name="InstanceNorm", release=release(_fitted(lambda: _resnet(nn.InstanceNorm2d))), tempts="batch-mates"),
        Healthy(name="dead channel", release=release(_dead), tempts="batchnorm-statistics"),
        Healthy(name="fine-tuned with frozen BatchNorm", release=release(_frozen_norm), tempts="stale-statistics"),
        Healthy(name="BatchNorm of a converted checkpoint", release=release(_converted), tempts="batchnorm-statistics"),
        Healthy(name="TransformerEncoder", release=release(_fitted(lambda: Lines("transformer"))), tempts="repeat-determinism"),
        Healthy(name="MultiheadAttention with a mask of -inf", release=release(_fitted(lambda: Lines("multihead"))), tempts="finite-weights"),
        Healthy(name="LSTM", release=release(_fitted(lambda: Lines("lstm"))), tempts="rows-first"),
        Healthy(name="GRU", release=release(_fitted(lambda: Lines("gru"))), tempts="rows-first"),
        Healthy(name="causal attention over words", release=_reading("attention"), tempts="seen-future"),
        Healthy(name="GRU over words", release=_reading("gru"), tempts="seen-future"),
        Healthy(name="convolution over words", release=_reading("conv"), tempts="seen-future"),
        Healthy(name="tuple of outputs", release=heads["tuple"]),
        Healthy(name="dict of outputs", release=heads["dict"]),
        Healthy(name="named outputs", release=heads["named"]),
        Healthy(
            name="two inputs",
            release=Release(
                model=_fitted(Halves, data=(_halves(x), y)), example=lambda: (top[:8], bottom[:8]),
                calibration=lambda: (*_halves(x[:300]), y[:300]), validation=lambda: (top, bottom, vy), names=("top", "bottom"),
            ),
        ),
        Healthy(name="sigmoid outputs, several labels", release=_multi_label(), tempts="class-order"),
        Healthy(name="one score per row", release=_binary("column")),
        Healthy(name="one score per row, no axis", release=_binary("flat"), tempts="batch-of-one"),
        Healthy(name="regression", release=_regression(_line, _numbers())),
        Healthy(name="regression of three", release=_regression(lambda: _line(3), _numbers(outputs=3))),
        Healthy(name="regression of tiny numbers", release=_regression(lambda: _net(_line(), Times(1e-3)), _numbers(1e-3), loss=lambda out, target: F.mse_loss(1e3 * out, 1e3 * target)), tempts="better-than-constant"),
        Healthy(name="regression of large numbers", release=_regression(lambda: _net(_line(), Times(1e5)), _numbers(1e5)), tempts="half-range"),
        Healthy(
            name="a class per pixel",
            release=release(
                _fitted(Dense, data=(x, (x[:, 0] > 0).long())), calibration=lambda: (x[:300], (x[:300, 0] > 0).long()),
                validation=lambda: (vx, (vx[:, 0] > 0).long()),
            ),
        ),
        Healthy(
            name="an image of twice the size",
            release=release(
                _fitted(lambda: Dense(larger=True), data=(x, F.interpolate(x, scale_factor=2)), loss=F.mse_loss),
                calibration=lambda: (x[:300], F.interpolate(x[:300], scale_factor=2)), validation=lambda: (vx, F.interpolate(vx, scale_factor=2)),
            ),
        ),
        Healthy(name="a rare class that is never chosen", release=_rare(), tempts="better-than-constant"),
        Healthy(name="noisy targets, 65 % at best", release=_weak(), tempts="better-than-constant"),
        Healthy(name="random features on purpose", release=release(_random_features), tempts="missing-weights"),
        Healthy(name="spectral norm", release=release(_spectral), tempts="spectral-norm-ready"),
        Healthy(name="weight norm", release=release(_weight_norm)),
        Healthy(name="mixture of experts", release=release(_fitted(Experts)), tempts="doubled-activation"),
        Healthy(name="ensemble", release=release(_fitted(Ensemble))),
        Healthy(name="class and share", release=release(lambda: Answering(trained("mlp")).eval(), quality=lambda out, t: out[0] == t)),
        Healthy(name="Monte-Carlo dropout, allowed", release=release(_fitted(Scattered), allow=("repeat-determinism",)), tempts="repeat-determinism"),
        Healthy(name="random example", release=release(lambda: trained("mlp"), example=lambda: torch.rand(4, 1, 8, 8)), tempts="input-scale"),
        Healthy(name="blank pictures among the rest", release=release(lambda: trained("cnn"), validation=lambda: blank), tempts="output-finite"),
        Healthy(name="nothing but model and example", release=Release(model=lambda: trained("cnn"), example=lambda: vx[:2])),
        Healthy(name="score with two digits", release=release(lambda: trained("encoder"), score=round(score(_trained("encoder")), 2)), tempts="reported-score"),
        Healthy(name="channels-last weights", release=release(lambda: trained("cnn").to(memory_format=torch.channels_last), production=lambda: bright[:100])),
    )  # fmt: skip


class Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def __getattr__(name: str) -> Release:
    """Releases by name for other processes: `sick12`, `well12`, `healthy3`."""
    kind, number = name.rstrip("0123456789"), name[len(name.rstrip("0123456789")) :]
    if not number or kind not in {"sick", "well", "healthy"}:
        raise AttributeError(name)
    if kind == "healthy":
        return healthy()[int(number)].release
    fault = faults()[int(number)]
    return fault.sick() if kind == "sick" else fault.well()
