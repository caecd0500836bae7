"""What a user declares: a model, its data and how it is trained, in a few lines."""

import importlib
import importlib.util
import inspect
import random
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset, TensorDataset, default_collate

from netdyno.errors import TargetError
from netdyno.targets.feed import Feed
from netdyno.targets.subject import Batch, Subject, to_device


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What may differ between the tuned and the original program.

    `loss` is the relative difference of the final validation loss that is accepted beyond the
    envelope of a control that only reorders sums; `spread` the factor by which the standard
    deviation of the validation loss may grow. `numerics` are the classes that may be tried.
    """

    loss: float = 0.02
    spread: float = 1.5
    numerics: tuple[str, ...] = ("same-bits", "reordered", "lower-precision", "other-randomness")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A PyTorch training job, declared. Only `model` and `train` are needed.

    model:          () -> Module, freshly initialised.
    train, val:     () -> Dataset of (inputs…, target) samples, or a tuple of tensors. Without `val`,
                    the last tenth of `train` is held out.
    loss:           (output, target) -> scalar Tensor. Default: cross-entropy for whole-number targets,
                    mean squared error for floating-point ones.
    metric:         (output, target) -> number, higher is better. Default: accuracy for whole-number targets.
    optimizer:      (parameters) -> Optimizer. Default: AdamW, lr 1e-3.
    augment:        a random per-sample transform, sample -> sample, kept apart from `train` so that what is
                    before it can be cached; `batch_augment` is the same transform for a whole batch of tensors.
    loader:         DataLoader arguments of the original program: num_workers, pin_memory, shuffle, …
    forward:        (model, batch) -> output. Default: `model(*batch[:-1])`.
    log:            (model, loss) -> None, whatever the original program writes down each step.
    steps:          updates of a whole training run, for break-even. Default: `epochs` times the epoch.
    """

    model: Callable[[], nn.Module]
    train: Callable[[], Dataset[Any] | tuple[Tensor, ...]]
    val: Callable[[], Dataset[Any] | tuple[Tensor, ...]] | None = None
    loss: Callable[[Any, Any], Tensor] | None = None
    metric: Callable[[Any, Any], float] | None = None
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None
    batch_size: int = 32
    epochs: int = 20
    steps: int | None = None
    augment: Callable[[Any], Any] | None = None
    batch_augment: Callable[[Any], Any] | None = None
    loader: Mapping[str, Any] = field(default_factory=dict)
    collate: Callable[[list[Any]], Any] = default_collate
    forward: Callable[[nn.Module, Batch], Any] | None = None
    log: Callable[[nn.Module, float], None] | None = None
    device: str = "cpu"
    item: str = "sample"
    name: str = ""
    allowed: Tolerance = field(default_factory=Tolerance)

    def fresh(self, seed: int = 0) -> Subject:
        """A live copy, built under `seed`; two copies with one seed are equal to the bit.

        Raises TargetError when a part cannot be built or has the wrong shape.
        """
        seed_everything(seed)
        device = torch.device(self.device)
        model = _built("model", self.model)
        if not isinstance(model, nn.Module):
            raise TargetError(
                f"`model` of `{self.name}` does not give a module",
                because=f"it returned a `{type(model).__name__}`",
                hint="return an instance of torch.nn.Module, freshly initialised",
            )
        model = model.to(device).train()
        optimizer = _built("optimizer", lambda: (self.optimizer or _adamw)(model.parameters()))
        train, _ = self.datasets()
        return Subject(
            model=model,
            optimizer=optimizer,
            feed=self.feed(train, seed=seed),
            forward=self.forward or _forward,
            loss=_Loss(self.loss),
            device=device,
            place=(to_device(device),) if device.type != "cpu" else (),
            log=self.log,
        )

    def feed(self, dataset: Dataset[Any], *, seed: int = 0) -> Feed:
        """The data path of the original program over `dataset`."""
        settings = dict(self.loader)
        known = {
            "workers": settings.pop("num_workers", 0),
            "prefetch_factor": settings.pop("prefetch_factor", None),
            "persistent_workers": settings.pop("persistent_workers", False),
            "pin_memory": settings.pop("pin_memory", False),
            "shuffle": settings.pop("shuffle", True),
            "drop_last": settings.pop("drop_last", True),
            "start_method": settings.pop("multiprocessing_context", None),
            "worker_init": settings.pop("worker_init_fn", None),
        }
        return Feed(
            dataset=dataset,
            batch_size=self.batch_size,
            augment=self.augment,
            batch_augment=self.batch_augment,
            collate=self.collate,
            seed=seed,
            extra=settings,
            **known,
        )

    def datasets(self) -> tuple[Dataset[Any], Dataset[Any]]:
        """Training and validation data. Built once per process: decoding them again changes nothing."""
        cached = _DATA.get(id(self))
        if cached is None or cached[0] is not self:
            train = _dataset("train", self.train)
            if self.val is not None:
                val = _dataset("val", self.val)
            else:
                train, val = _held_out(train)
            cached = (self, train, val)
            _DATA[id(self)] = cached
        return cached[1], cached[2]

    def score(self, output: Any, target: Any) -> float | None:
        """The metric of one batch, or None when there is none that fits."""
        if self.metric is not None:
            return float(self.metric(output, target))
        if isinstance(output, Tensor) and isinstance(target, Tensor) and not target.is_floating_point():
            return (output.argmax(1) == target).double().mean().item()
        return None

    @property
    def updates(self) -> int:
        """Updates of a whole training run of the original program."""
        if self.steps is not None:
            return self.steps
        train, _ = self.datasets()
        per_epoch = self.feed(train).steps_per_epoch
        return self.epochs * (per_epoch or 100)


_DATA: dict[int, tuple[Workload, Dataset[Any], Dataset[Any]]] = {}


def seed_everything(seed: int) -> None:
    """Seeds `random`, NumPy and PyTorch, on every device (ledger A-291)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  user code draws from the global state
    torch.manual_seed(seed)


class _Loss:
    """Calls the declared loss with (output, target), or the default one that fits the target."""

    def __init__(self, declared: Callable[[Any, Any], Tensor] | None) -> None:
        self.declared = declared

    def __call__(self, output: Any, batch: Batch) -> Tensor:
        target = batch[-1]
        if self.declared is not None:
            return self.declared(output, target)
        if target.is_floating_point():
            return F.mse_loss(output, target)
        return F.cross_entropy(output, target)


def _forward(model: nn.Module, batch: Batch) -> Any:
    return model(*batch[:-1])


def _adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def _built(part: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except TargetError:
        raise
    except Exception as error:
        place = _last_user_line(error)
        raise TargetError(
            f"cannot build `{part}`",
            because=f"it raised {type(error).__name__}: {error}{place}",
            hint=f"call it alone in a Python session; `{part}` must work without arguments from netdyno",
        ) from error


def _last_user_line(error: BaseException) -> str:
    trace = error.__traceback__
    place = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "netdyno" not in name:
            place = f" ({name}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _dataset(part: str, make: Callable[[], Any]) -> Dataset[Any]:
    data = _built(part, make)
    if isinstance(data, tuple | list) and data and all(isinstance(item, Tensor) for item in data):
        sizes = {len(item) for item in data}
        if len(sizes) > 1:
            raise TargetError(
                f"the tensors of `{part}` have different lengths",
                because=f"their first dimensions are {sorted(sizes)}",
                hint="inputs and targets need one row per sample",
            )
        return TensorDataset(*data)
    if not hasattr(data, "__getitem__") and not hasattr(data, "__iter__"):
        raise TargetError(
            f"`{part}` does not give a dataset",
            because=f"it returned a `{type(data).__name__}`",
            hint="return a torch Dataset, or a tuple of tensors (inputs…, target)",
        )
    return data


def _held_out(train: Dataset[Any]) -> tuple[Dataset[Any], Dataset[Any]]:
    try:
        count = len(train)  # type: ignore[arg-type]
    except TypeError:
        raise TargetError(
            "there is no validation data",
            because="`val` is not declared and `train` does not know its length",
            hint="declare `val=` beside `train=`",
        ) from None
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist()
    cut = max(1, count // 10)
    return torch.utils.data.Subset(train, order[cut:]), torch.utils.data.Subset(train, order[:cut])


def load(reference: str) -> Workload:
    """The workload that `work.py:Digits`, `package.module:Digits` or `garage:digits` stands for.

    The name after the colon is a Workload, or a function without arguments that gives one. Raises
    TargetError when there is no such file, name or workload.
    """
    where, _, name = reference.partition(":")
    module = _module(where, reference)
    if not name:
        found = [key for key, value in vars(module).items() if isinstance(value, Workload)]
        if len(found) != 1:
            raise TargetError(
                f"`{reference}` does not say which workload",
                because=f"the file declares {len(found)}: {', '.join(found) or 'none'}",
                hint=f"add its name: `{where}:{found[0] if found else 'Digits'}`",
            )
        name = found[0]
    value = getattr(module, name, None)
    if value is None:
        there = [key for key, value in vars(module).items() if isinstance(value, Workload)]
        raise TargetError(
            f"`{where}` has no `{name}`",
            because=f"its workloads are: {', '.join(sorted(there)) or 'none'}",
            hint="check the spelling; names are case-sensitive",
        )
    if callable(value) and not isinstance(value, Workload):
        value = _built(name, value)
    if not isinstance(value, Workload):
        raise TargetError(
            f"`{name}` in `{where}` is not a workload",
            because=f"it is a `{type(value).__name__}`",
            hint="make it a netdyno.Workload(model=…, train=…), or a function that returns one; `netdyno init` writes an example",
        )
    if not value.name:
        object.__setattr__(value, "name", name.lower())
    return value


def _module(where: str, reference: str) -> Any:
    if where == "garage":
        return importlib.import_module("netdyno.targets.garage")
    path = Path(where)
    if path.suffix == ".py" or "/" in where:
        if not path.is_file():
            raise TargetError(
                f"cannot find `{where}`",
                because=f"there is no such file in `{Path.cwd()}`",
                hint="give the path of a work.py, or `garage:digits` for a built-in workload; `netdyno init` writes one",
            )
        return _executed(path, reference)
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise TargetError(
            f"cannot import `{where}`",
            because=str(error),
            hint="give the path of a work.py, a module on the Python path, or `garage:digits`",
        ) from error


def _executed(path: Path, reference: str) -> Any:
    name = f"_netdyno_work_{path.stem}_{zlib.crc32(str(path.resolve()).encode())}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # loader workers unpickle datasets by this name
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = error.lineno if isinstance(error, SyntaxError) else None
        place = f" ({path}:{line})" if line else _last_user_line(error)
        raise TargetError(
            f"cannot read `{reference}`",
            because=f"{type(error).__name__}: {error}{place}",
            hint=f"run `python {path}` to see the whole traceback",
        ) from error
    return module


def source_of(workload: Workload) -> str:
    """The source text of the file that declares the workload's model, for the record's hash."""
    try:
        return inspect.getsource(inspect.getmodule(workload.model) or workload.model)
    except (OSError, TypeError):
        return ""
