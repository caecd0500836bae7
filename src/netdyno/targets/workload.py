"""What a user declares: a model, its data and how it is trained, in a few lines."""

import importlib
import importlib.util
import inspect
import random
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, default_collate

from netdyno.errors import TargetError
from netdyno.targets.feed import Feed
from netdyno.targets.place import place_of
from netdyno.targets.samples import kept_randomness
from netdyno.targets.subject import Batch, Subject, target_of, to_device


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
    loader:         DataLoader arguments of the original program: num_workers, pin_memory, shuffle, sampler, …
                    Unlike PyTorch's own defaults, `shuffle` and `drop_last` are True unless declared.
    forward:        (model, batch) -> output. Default: `model(*batch[:-1])`.
    threads:        what the original program gives to torch.set_num_threads. Default: PyTorch's own number.
    teacher:        () -> Module, trained already, for `netdyno learn` to distil from. It is never trained or changed.
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
    teacher: Callable[[], nn.Module] | None = None
    log: Callable[[nn.Module, float], None] | None = None
    device: str = "cpu"
    threads: int | None = None
    item: str = "sample"
    name: str = ""
    allowed: Tolerance = field(default_factory=Tolerance)

    def fresh(self, seed: int = 0) -> Subject:
        """A live copy, built under `seed`; two copies with one seed are equal to the bit.

        The global generators are left as `seed` sets them, so that two copies also train alike.
        Raises TargetError when a part cannot be built or has the wrong shape.
        """
        device = _device(self.device)
        seed_everything(seed)
        model = _built("model", self.model)
        if not isinstance(model, nn.Module):
            raise TargetError(
                f"`model` of `{self.name}` does not give a module",
                because=f"it returned a `{type(model).__name__}`",
                hint="return an instance of torch.nn.Module, freshly initialised",
            )
        model = model.to(device).train()
        optimizer = _built("optimizer", lambda: (self.optimizer or default_optimizer)(model.parameters()))
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TargetError(
                f"`optimizer` of `{self.name}` does not give an optimizer",
                because=f"it returned a `{type(optimizer).__name__}`",
                hint="write it like `optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1)`",
            )
        train, _ = self.datasets()
        feed = self.feed(train, seed=seed)
        if feed.steps_per_epoch == 0:
            raise TargetError(
                f"`{self.name}` has no step in an epoch",
                because=f"a batch of `{self.batch_size}` is larger than the `{feed.samples}` samples of `train`",
                hint='make `batch_size` smaller, or declare `loader={"drop_last": False}`',
            )
        # Building data and parameters draws random numbers, the data only the first time.
        seed_everything(seed)
        return Subject(
            model=model,
            optimizer=optimizer,
            feed=feed,
            forward=self.forward or plain_forward,
            loss=Loss(self.loss),
            device=device,
            place=(to_device(device),) if device.type != "cpu" else (),
            threads=self.threads,
            around_turn=(partial(holding_threads, self.threads),) if self.threads is not None else (),
            log=self.log,
        )

    def feed(self, dataset: Dataset[Any], *, seed: int = 0) -> Feed:
        """The data path of the original program over `dataset`. Raises TargetError for what no DataLoader takes."""
        settings = dict(self.loader)
        _refuse_unknown(settings)
        known = {
            "workers": settings.pop("num_workers", 0),
            "prefetch_factor": settings.pop("prefetch_factor", None),
            "persistent_workers": settings.pop("persistent_workers", False),
            "pin_memory": settings.pop("pin_memory", False),
            "shuffle": settings.pop("shuffle", True),
            "drop_last": settings.pop("drop_last", True),
            "start_method": settings.pop("multiprocessing_context", None),
            "worker_init": settings.pop("worker_init_fn", None),
            "sampler": settings.pop("sampler", None),
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
        """Training and validation data, built once per process and always under the same seed.

        The global generators are left as they were: whether data were built before must not be felt.
        """
        cached = _DATA.get(id(self))
        if cached is None or cached[0] is not self:
            with kept_randomness():
                seed_everything(0)
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
        if not isinstance(output, Tensor) or not isinstance(target, Tensor) or target.is_floating_point():
            return None
        # Classes lie along dimension 1, as cross-entropy has them; anything else needs a declared metric.
        if output.dim() != target.dim() + 1 or output.shape[:1] + output.shape[2:] != target.shape:
            return None
        return (output.argmax(1) == target).double().mean().item()

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


class Loss:
    """Calls the declared loss with (output, target), or the default one that fits the target."""

    def __init__(self, declared: Callable[[Any, Any], Tensor] | None) -> None:
        self.declared = declared

    def __call__(self, output: Any, batch: Batch) -> Tensor:
        target = target_of(batch)
        if self.declared is not None:
            return self.declared(output, target)
        if not isinstance(target, Tensor):
            raise TargetError(
                "there is no loss that fits the target",
                because=f"the default losses need a tensor, and the target is a `{type(target).__name__}`",
                hint="declare `loss=lambda output, target: …`",
            )
        if target.is_floating_point():
            return F.mse_loss(output, target)
        return F.cross_entropy(output, target)


@contextmanager
def holding_threads(threads: int) -> Iterator[None]:
    """So many threads within the block, and as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def plain_forward(model: nn.Module, batch: Batch) -> Any:
    """What is called where no `forward` is declared: the model, with all but the last part of a batch."""
    return model(*batch[:-1])


# What a DataLoader takes besides these is its own field of a Workload, or ours to decide.
_TAKEN = {
    "dataset": "declare `train=`",
    "batch_size": "declare `batch_size=` beside `loader=`",
    "collate_fn": "declare `collate=` beside `loader=`",
    "batch_sampler": "declare `batch_size=`, and the order as `sampler`",
    "generator": "leave it out: the order of samples is seeded by netdyno, so that two sides get the same",
}


def _refuse_unknown(settings: Mapping[str, Any]) -> None:
    known = set(inspect.signature(DataLoader).parameters) - set(_TAKEN)
    for key in settings:
        if key not in known:
            raise TargetError(
                f"`loader` must not hold `{key}`",
                because="it is declared elsewhere" if key in _TAKEN else "a DataLoader has no such argument",
                hint=_TAKEN.get(key, f"it takes {', '.join(sorted(known))}"),
            )


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise TargetError(
            f"cannot use the device `{name}`",
            because=str(error).strip().split("\n")[0],
            hint='declare `device="cpu"`, or `"cuda"` on a machine that has such a device',
        ) from error
    return device


def default_optimizer(parameters: Any) -> torch.optim.Optimizer:
    """What is used where no `optimizer` is declared."""
    return torch.optim.AdamW(parameters, lr=1e-3)


def _built(part: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except TargetError:
        raise
    except Exception as error:
        place = place_of(error)
        raise TargetError(
            f"cannot build `{part}`",
            because=f"it raised {type(error).__name__}: {error}{place}",
            hint=f"call it alone in a Python session; `{part}` must work without arguments from netdyno",
        ) from error


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
        data = TensorDataset(*data)
    # A tuple of arrays would pass for a dataset of two samples.
    elif isinstance(data, tuple) or not (hasattr(data, "__getitem__") or hasattr(data, "__iter__")):
        inside = f" of `{'`, `'.join(type(item).__name__ for item in data)}`" if isinstance(data, tuple) else ""
        raise TargetError(
            f"`{part}` does not give a dataset",
            because=f"it returned a `{type(data).__name__}`{inside}",
            hint="return a torch Dataset, or a tuple of tensors (inputs…, target); torch.from_numpy makes arrays tensors",
        )
    if _length(data) == 0:
        raise TargetError(
            f"`{part}` is empty",
            because="it has `0` samples",
            hint="check the path and the filter it is read with",
        )
    return data


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except (TypeError, NotImplementedError):
        return None


def _held_out(train: Dataset[Any]) -> tuple[Dataset[Any], Dataset[Any]]:
    count = None if isinstance(train, IterableDataset) else _length(train)
    if count is None or count < 2:
        raise TargetError(
            "there is no validation data",
            because="`val` is not declared and "
            + ("`train` can only be read in order" if count is None else f"`train` has `{count}` sample"),
            hint="declare `val=` beside `train=`",
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist()
    cut = max(1, count // 10)
    return _part(train, order[cut:]), _part(train, order[:cut])


def _part(data: Dataset[Any], indices: list[int]) -> Dataset[Any]:
    # Tensors stay tensors, so that they can still be sliced.
    if type(data) is TensorDataset:
        return TensorDataset(*(tensor[indices] for tensor in data.tensors))
    return Subset(data, indices)


def load(reference: str) -> Workload:
    """The workload that `work.py:Digits`, `package.module:Digits` or `garage:digits` stands for.

    The name after the colon is a Workload, or a function without arguments that gives one. Raises
    TargetError when there is no such file, name or workload.
    """
    where, _, name = reference.rpartition(":") if ":" in reference else (reference, "", "")
    if where == "garage":
        from netdyno.targets import garage

        return garage.workload(name)
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
        value = _built(f"{where}:{name}", value)
    if not isinstance(value, Workload):
        raise TargetError(
            f"`{name}` in `{where}` is not a workload",
            because=f"it is a `{type(value).__name__}`",
            hint="make it a netdyno.Workload(model=…, train=…), or a function that returns one; `netdyno init` writes an example",
        )
    if not value.name:
        # In place: a renamed copy would be another workload, whose data are decoded again.
        object.__setattr__(value, "name", name.lower())
    return value


def _module(where: str, reference: str) -> Any:
    path = Path(where).expanduser()
    if path.suffix == ".py" or "/" in where or not where:
        if not path.is_file():
            raise TargetError(
                f"cannot find `{where}`",
                because=f"there is no such file in `{Path.cwd()}`",
                hint="give the path of a work.py, or `garage:digits` for a built-in workload; `netdyno init` writes one",
            )
        return _executed(path, reference)
    try:
        return importlib.import_module(where)
    except Exception as error:
        because = str(error) if isinstance(error, ModuleNotFoundError) else f"{type(error).__name__}: {error}"
        raise TargetError(
            f"cannot import `{where}`",
            because=because + place_of(error),
            hint="give the path of a work.py, a module on the Python path, or `garage:digits`",
        ) from error


_EXECUTED: dict[Path, Any] = {}


def _executed(path: Path, reference: str) -> Any:
    path = path.resolve()
    if path in _EXECUTED:
        return _EXECUTED[path]
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        line = error.lineno if isinstance(error, SyntaxError) else None
        place = f" ({path}:{line})" if line else place_of(error)
        raise TargetError(
            f"cannot read `{reference}`",
            because=f"{type(error).__name__}: {error}{place}",
            hint=f"run `python {path}` to see the whole traceback",
        ) from error
    _EXECUTED[path] = module
    return module


def _module_name(path: Path) -> str:
    """The name under which `import` finds the file too, so that a spawned loader worker can unpickle its datasets.

    When that name means something else, one that nothing else has.
    """
    name = path.stem
    importlib.invalidate_caches()  # the file may be newer than the last look into its folder
    if name.isidentifier() and name not in sys.modules:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None and Path(spec.origin).resolve() == path:
            return name
    return f"_netdyno_work_{zlib.crc32(str(path).encode())}"


def source_of(workload: Workload) -> str:
    """The source text of the file that declares the workload's model, for the record's hash."""
    try:
        return inspect.getsource(inspect.getmodule(workload.model) or workload.model)
    except (OSError, TypeError):
        return ""
