"""States to continue from: written whole or not at all, read without executing anything."""

import contextlib
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from netdyno import __version__
from netdyno.errors import StoreError
from netdyno.monitor.subject import Subject
from netdyno.store.disk import explained

FORMAT = 1
FOLDER = "snapshots"
# A run that trips more often has told its story; each snapshot may be as large as three models.
MOST, APART_S = 3, 60.0
# A full disk is a disaster of its own: so much stays free.
STAYS_FREE = 1 << 30
PLAIN = (str, bool, int, float, type(None))
# Copies of small buffers are cheap; large ones are tables and masks that never change.
MOST_OF_BUFFER = 1 << 16
# Of so many updates one asks whether the models are still the same ones.
ASKED = 16
# Three batch norms.
FEW_BUFFERS = 9


class Snapshot(NamedTuple):
    """What was restored. `update` is the number of updates that were over; `batches` are those of the update that tripped.

    `exact` says whether random states and buffers are those of that update's very beginning, so that it can be run
    again to the last bit; `notes` say what is missing or was taken at another time.
    """

    path: Path
    cause: str
    says: str
    update: int
    parameter: str | None
    loss: float | None
    because: dict[str, float]
    batches: list[Any]
    batches_from: str
    batch_in_epoch: int | None
    epoch: int | None
    exact: bool
    notes: list[str]


class Writer:
    """Writes snapshots of one run, at most so many, and not too often."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self.clock = clock
        self.written: dict[int, Path] = {}
        self._last = float("-inf")

    def refuses(self, subject: Subject, update: int) -> str | None:
        """Why none can be written now; None when one can."""
        if update in self.written:
            return None
        if len(self.written) >= MOST:
            return f"{MOST} snapshots were taken already"
        if self.clock() - self._last < APART_S:
            return f"the last snapshot was taken less than {APART_S:.0f} s before"
        wants = size(subject)
        free = shutil.disk_usage(_existing(self.folder)).free
        if free - wants < STAYS_FREE:
            return f"the disk has {free >> 20} MiB left, and a snapshot takes {wants >> 20} MiB"
        return None

    def write(self, told: dict[str, Any], *, cause: str, update: int) -> Path:
        """Put a snapshot on the disk; one that this update has already is enough. Raises StoreError."""
        if update in self.written:
            return self.written[update]
        path = self.folder / f"{update:09d}-{cause}.pt"
        save(path, told)
        self.written[update] = path
        self._last = self.clock()
        return path


def save(path: Path, told: dict[str, Any]) -> None:
    """Write in one move: a temporary file beside it, flushed, and renamed. Raises StoreError."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                torch.save(told, file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            with contextlib.suppress(OSError):
                part.unlink()


def size(subject: Subject) -> int:
    """About how many bytes a snapshot takes: models, and what optimizers keep of them."""
    return sum(_bytes(each.state_dict()) for each in (*subject.models.values(), *subject.optimizers))


def _bytes(state: Any) -> int:
    if isinstance(state, torch.Tensor):
        return state.numel() * state.element_size()
    if isinstance(state, Mapping):
        return sum(_bytes(each) for each in state.values())
    return sum(_bytes(each) for each in state) if isinstance(state, list | tuple) else 0


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())


# what is in it


class Randomness:
    """Torch's random states at the beginning of each update: two microseconds. The others would cost thirty times that."""

    def __init__(self) -> None:
        self.states: tuple[Any, ...] = ()
        self._generator = torch.default_generator

    def keep(self) -> None:
        """As they are now."""
        if torch.cuda.is_initialized():
            # Seed and offset lie on this side of the device: nothing waits.
            self.states = (self._generator.get_state(), *(each.get_state() for each in torch.cuda.default_generators))
        else:
            self.states = (self._generator.get_state(),)

    def told(self) -> dict[str, Any]:
        """Torch's as they were kept, and the others as they are now."""
        if not self.states:
            self.keep()
        return {
            "torch": self.states[0],
            "cuda": list(self.states[1:]),
            "python": random.getstate(),
            "numpy": _numpy_state(),
        }


class Buffers:
    """Copies of the small buffers (statistics of batch norms) at the beginning of an update: a forward pass spoils them."""

    def __init__(self) -> None:
        self.at: int | None = None
        self._copies: dict[str, dict[str, Any]] = {}
        self._pairs: tuple[list[Any], list[Any]] = ([], [])
        self._known: tuple[int, ...] = ()
        self._keeps = 0

    def keep(self, models: Callable[[], Mapping[str, Any]], update: int) -> None:
        """As they are now. Whether `models` are still the same is asked now and then."""
        if self._keeps % ASKED == 0:
            now = models()
            known = tuple(id(model) for model in now.values())
            if known != self._known:
                self._begin(now, known)
        # Models may come one by one: they are asked for until some are there.
        self._keeps += 1 if self._known else 0
        if self._pairs[0]:
            torch._foreach_copy_(*self._pairs, non_blocking=True)
        self.at = update

    @property
    def none(self) -> bool:
        """Whether there is nothing to keep, as far as is known."""
        return bool(self._known) and not self._pairs[0]

    @property
    def few(self) -> bool:
        """Whether keeping them costs some microseconds only."""
        return len(self._pairs[0]) <= FEW_BUFFERS

    def _begin(self, models: Mapping[str, Any], known: tuple[int, ...]) -> None:
        self._known, self._pairs = known, ([], [])
        for name, model in models.items():
            mine = self._copies[name] = {}
            for path, buffer in model.named_buffers():
                if buffer.numel() <= MOST_OF_BUFFER and path.rsplit(".", 1)[-1] in _tracked(model, path):
                    mine[path] = buffer.detach().clone()
                    self._pairs[0].append(mine[path])
                    self._pairs[1].append(buffer)

    def told(self) -> dict[str, Any]:
        """By model and name."""
        return {name: dict(mine) for name, mine in self._copies.items() if mine}


def _tracked(model: Any, path: str) -> tuple[str, ...]:
    """Names of the buffers that a module's own forward changes; of others nobody knows, and they are kept as they are."""
    owner = model.get_submodule(path.rpartition(".")[0])
    return ("running_mean", "running_var", "num_batches_tracked") if hasattr(owner, "track_running_stats") else ()


def _numpy_state() -> dict[str, Any]:
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002  it is the global one that scripts draw from
    return {"name": str(name), "keys": torch.from_numpy(np.asarray(keys).astype(np.int64)), "rest": list(rest)}


def state_of(subject: Subject, left_out: list[str]) -> dict[str, Any]:
    """Of everything that has a state."""
    return {
        "models": {name: plain(each.state_dict(), f"models/{name}", left_out) for name, each in subject.models.items()},
        "optimizers": [
            plain(each.state_dict(), f"optimizers/{at}", left_out) for at, each in enumerate(subject.optimizers)
        ],
        "schedulers": [
            plain(each.state_dict(), f"schedulers/{at}", left_out) for at, each in enumerate(subject.schedulers)
        ],
        "scaler": None if subject.scaler is None else plain(subject.scaler.state_dict(), "scaler", left_out),
        "loader": plain(subject.loader.state_dict(), "loader", left_out)
        if hasattr(subject.loader, "state_dict")
        else None,
    }


def plain(value: Any, path: str, left_out: list[str]) -> Any:
    """What a reader who executes nothing can read; anything else becomes None, and its path is noted."""
    if isinstance(value, torch.Tensor):
        return _own(value)
    if isinstance(value, PLAIN) and type(value) in PLAIN:
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return torch.from_numpy(value.copy())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.dtype | torch.device):
        return value
    if isinstance(value, Mapping):
        return {
            key: plain(each, f"{path}/{key}", left_out) for key, each in value.items() if isinstance(key, str | int)
        }
    if isinstance(value, list | tuple):
        several = [plain(each, f"{path}/{at}", left_out) for at, each in enumerate(value)]
        return tuple(several) if isinstance(value, tuple) else several
    left_out.append(f"{path} ({type(value).__name__})")
    return None


def _own(tensor: Any) -> Any:
    """A view would take the whole of what it looks at along."""
    kept = tensor.detach()
    with contextlib.suppress(RuntimeError, NotImplementedError):
        if kept.untyped_storage().nbytes() > kept.numel() * kept.element_size():
            return kept.clone()
    return kept


# and back


def read(path: str | Path) -> dict[str, Any]:
    """The file's content, on the CPU. Raises StoreError when it is no snapshot."""
    try:
        told = torch.load(path, map_location="cpu", weights_only=True)
        known = told["format"] <= FORMAT
    except Exception as error:
        raise StoreError(
            f"cannot read the snapshot `{path}`",
            because=f"{type(error).__name__}: {str(error)[:200]}",
            hint="snapshots are the `.pt` files in a journal's folder `snapshots`",
        ) from error
    if not known:
        raise StoreError(
            f"cannot read the snapshot `{path}`",
            because=f"its format is {told['format']}, and this netdyno reads up to {FORMAT}",
            hint="use the netdyno that wrote it, or a newer one",
        )
    return dict(told)


def restore(path: str | Path, subject: Subject) -> Snapshot:
    """Put everything of a snapshot back into live objects, and the random states too: go on from here.

    Weights, optimizers, scaler, schedulers and random states stand as they did when the update began that tripped; the
    loader's place is told, and is the caller's to find again. Raises StoreError for what does not fit.
    """
    told = read(path)
    put_back(told, subject, str(path))
    return of(told, Path(path))


def put_back(told: dict[str, Any], subject: Subject, path: str) -> None:
    """The same from what was read before."""
    try:
        _fits(told, subject)
        for name, model in subject.models.items():
            model.load_state_dict(told["models"][name] | told["buffers"].get(name, {}))
        for optimizer, state in zip(subject.optimizers, told["optimizers"], strict=True):
            optimizer.load_state_dict(_apart(state))
        for scheduler, state in zip(subject.schedulers, told["schedulers"], strict=False):
            scheduler.load_state_dict(state)
        if subject.scaler is not None and told["scaler"] is not None:
            subject.scaler.load_state_dict(told["scaler"])
        if hasattr(subject.loader, "load_state_dict") and told["loader"] is not None:
            subject.loader.load_state_dict(told["loader"])
    except (KeyError, ValueError, RuntimeError) as error:
        raise StoreError(
            f"cannot restore from `{path}`",
            because=f"{type(error).__name__}: {str(error)[:500]}",
            hint="give the same models, by the same names, and the same optimizers as the watched run had",
        ) from error
    set_random(told["rng"])


def _fits(told: dict[str, Any], subject: Subject) -> None:
    has, wants = sorted(told["models"]), sorted(subject.models)
    if has != wants:
        raise ValueError(f"the snapshot holds the models {has}, and {wants} were given")


def _apart(state: Any) -> Any:
    """Optimizers keep the tensors that they are given, and change them."""
    if isinstance(state, torch.Tensor):
        return state.clone()
    if isinstance(state, dict):
        return {key: _apart(each) for key, each in state.items()}
    return type(state)(_apart(each) for each in state) if isinstance(state, list | tuple) else state


def set_random(rng: dict[str, Any]) -> None:
    """Random states of torch, its devices, Python and NumPy."""
    torch.set_rng_state(rng["torch"])
    for device, state in enumerate(rng["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    version, inner, gauss = rng["python"]
    random.setstate((version, tuple(inner), gauss))
    kept = rng["numpy"]
    np.random.set_state((kept["name"], kept["keys"].numpy().astype(np.uint32), *kept["rest"]))  # noqa: NPY002


def of(told: dict[str, Any], path: Path) -> Snapshot:
    """What was read, for people."""
    return Snapshot(
        path=path, cause=told["cause"], says=told["says"], update=told["update"], parameter=told["parameter"],
        loss=told["loss"], because=told["because"], batches=told["batches"], batches_from=told["batches_from"],
        batch_in_epoch=told["position"]["batch"], epoch=told["position"]["epoch"], exact=told["exact"], notes=told["notes"],
    )  # fmt: skip


def head(cause: str, says: str) -> dict[str, Any]:
    """What every snapshot begins with."""
    return {
        "format": FORMAT,
        "made_by": f"netdyno {__version__}",
        "torch": str(torch.__version__),
        "python": sys.version.split()[0],
        "cause": cause,
        "says": says,
    }
