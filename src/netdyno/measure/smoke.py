"""The smoke baseline: in a minute, is everything that the dyno needs in place? (ledger A-031)

It names planted faults of path, layout, label encoding and checkpoint before anything is measured, and says
what it looked at and did not mind, too.
"""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import scipy.stats
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd

from netdyno.errors import TargetError
from netdyno.measure.step import evaluating, forward_loss
from netdyno.progress import Event, Listener, silent
from netdyno.records.record import SmokeCheck
from netdyno.targets.samples import kept_randomness
from netdyno.targets.subject import Subject, mapped, target_of, tensors
from netdyno.targets.workload import Workload, seed_everything

SHARE = 0.25  # no single check may take more than a quarter of the budget
PART = 0.1  # of the training data is trained on, as the ledger has it
GROUPS = 12  # pieces of that part whose losses are compared before and after
LOOKS = (20, 40, 80, 160)  # updates after which they are compared; most models need only the first
CHANCE = 0.01 / len(LOOKS)  # that one look takes a loss which does not fall for a falling one
FEW = 40  # with fewer updates, or a loss that has fallen though not surely, nothing is held against a model
DOUBT = 0.05


def smoke(
    workload: Workload,
    *,
    folder: Path | str,
    budget_s: float = 60.0,
    clock: Callable[[], float] = time.perf_counter,
    listener: Listener = silent,
) -> tuple[SmokeCheck, ...]:
    """One line for each thing checked, in the order of `CHECKS`. Never raises, and leaves no file behind.

    A check that a failed one stands in the way of, or that the budget leaves no time for, says so and is not ok
    nor failed. `folder` is where the checkpoint is tried out.
    """
    bench = _Bench(workload, folder=Path(folder), clock=clock, ends=clock() + budget_s, budget_s=budget_s)
    done: dict[str, SmokeCheck] = {}
    with kept_randomness():
        for number, (check, needs) in enumerate(CHECKS):
            name = _name(check)
            listener(Event(f"smoke: {name}", number, len(CHECKS)))
            done[name] = _checked(name, check, needs, bench=bench, done=done)
    listener(Event("smoke", len(CHECKS), len(CHECKS)))
    return tuple(done.values())


class Said(NamedTuple):
    """What a check has to say, before its name is put to it."""

    ok: bool | None
    says: str
    hint: str = ""


Check = Callable[["_Bench"], Said]


def _name(check: Check) -> str:
    return check.__name__.replace("_", "-")


def _checked(
    name: str, check: Check, needs: tuple[str, ...], *, bench: "_Bench", done: dict[str, SmokeCheck]
) -> SmokeCheck:
    if bench.clock() >= bench.ends:
        return SmokeCheck(name=name, ok=None, says=f"not checked: the budget of `{bench.budget_s:g}` s is spent")
    missing = [need for need in needs if done[need].ok is not True]
    if missing:
        how = "failed" if done[missing[0]].ok is False else "could not be checked"
        return SmokeCheck(name=name, ok=None, says=f"not checked: `{missing[0]}` {how}")
    bench.check_ends = min(bench.ends, bench.clock() + bench.budget_s * SHARE)
    try:
        said = check(bench)
    except TargetError as error:
        said = Said(False, f"{error.what}, because {error.because}", error.hint)
    except Exception as error:
        said = Said(None, f"could not be checked: {_told(error)}")
    return SmokeCheck(name=name, ok=said.ok, says=said.says, hint=said.hint)


def _told(error: BaseException) -> str:
    first = str(error).strip().split("\n")[0]
    return f"`{type(error).__name__}: {first}`" if first else f"`{type(error).__name__}`"


# What the checks look at, each part made once and when it is first asked for.


@dataclass
class _Bench:
    workload: Workload
    folder: Path
    clock: Callable[[], float]
    ends: float
    budget_s: float
    check_ends: float = 0.0

    @cached_property
    def subject(self) -> Subject:
        return self.workload.fresh(seed=0)

    @cached_property
    def read(self) -> "_Read":
        """As many training samples as the time allows, read without their random transform."""
        return _read(self)

    @cached_property
    def batch(self) -> Any:
        """A batch of the first good samples, as the model receives it in evaluation."""
        return self.collated(self.read.kept)

    @cached_property
    def tried(self) -> "_Tried":
        """What came of putting that batch through the model, its type put right where that was wrong."""
        return _tried(self.subject, self.batch)

    def collated(self, samples: list[Any]) -> Any:
        return self.subject.placed(self.workload.collate(samples))

    def in_time(self) -> bool:
        return self.clock() < self.check_ends


@dataclass
class _Read:
    """What reading the samples showed."""

    count: int = 0
    whole: int | None = None
    kept: list[Any] = field(default_factory=list)
    raised: tuple[int, Exception] | None = None
    odd: tuple[int, str, str] | None = None
    unfinite: tuple[int, str] | None = None
    lowest: float = float("inf")
    highest: float = float("-inf")
    labels: set[int] = field(default_factory=set)
    single: bool = True  # one number is the target of a sample
    dtype: torch.dtype | None = None
    whole_numbers: bool = True

    @property
    def all(self) -> bool:
        return self.count == self.whole

    @property
    def told(self) -> str:
        return f"`{self.count}` of `{self.whole}` samples" if self.whole is not None else f"`{self.count}` samples"


def _read(bench: _Bench) -> _Read:
    feed = bench.subject.feed
    seen = _Read(whole=None if feed.iterable else feed.samples)
    first: tuple[str, ...] | None = None
    for index, sample in _samples(feed, seen):
        seen.count += 1
        if len(seen.kept) < bench.workload.batch_size:
            seen.kept.append(sample)
        shapes = _shapes(sample)
        first = first or shapes
        if shapes != first and seen.odd is None:
            seen.odd = (index, " ".join(shapes), " ".join(first))
        _look(seen, index, sample)
        if not bench.in_time():
            break
    return seen


def _samples(feed: Any, seen: _Read) -> Iterator[tuple[int, Any]]:
    """Samples with their indices, scattered so that a part stands for the whole; ends at the first that raises."""
    if feed.iterable:
        order: Iterable[int] = itertools.count()
        source = _in_order(feed.dataset)
    else:
        order = torch.randperm(feed.samples, generator=torch.Generator().manual_seed(0)).tolist()
    for index in order:
        try:
            sample = next(source) if feed.iterable else feed.dataset[index]
        except StopIteration:
            return
        except Exception as error:
            seen.raised = (index, error)
            return
        yield index, sample


def _in_order(dataset: Any) -> Iterator[Any]:
    yield from dataset  # even opening it waits for the first `next`


def _shapes(sample: Any) -> tuple[str, ...]:
    leaves, _ = torch.utils._pytree.tree_flatten(sample)
    return tuple(str(tuple(leaf.shape)) if hasattr(leaf, "shape") else type(leaf).__name__ for leaf in leaves)


def _look(seen: _Read, index: int, sample: Any) -> None:
    if seen.unfinite is None:
        for leaf in tensors(sample):
            if leaf.is_floating_point() and not bool(torch.isfinite(leaf).all()):
                seen.unfinite = (index, f"`{int((~torch.isfinite(leaf)).sum())}` of its `{leaf.numel()}` numbers")
                break
    try:
        target = torch.as_tensor(target_of(sample))
    except (TypeError, ValueError, RuntimeError):
        seen.single = False
        return
    seen.dtype = target.dtype
    if target.numel() == 0 or target.is_complex():
        return
    low, high = target.aminmax() if target.dtype != torch.bool else (target.all(), target.any())
    seen.lowest, seen.highest = min(seen.lowest, float(low)), max(seen.highest, float(high))
    if target.is_floating_point():
        seen.whole_numbers &= bool((target == target.round()).all())
    if target.numel() == 1:
        if seen.whole_numbers and torch.isfinite(target).all():
            seen.labels.add(int(target))
    else:
        seen.single = False


@dataclass
class _Tried:
    """One forward pass of a batch: its output, or where and with what it stopped."""

    batch: Any
    output: Any = None
    error: Exception | None = None
    module: nn.Module | None = None
    name: str = ""
    received: Tensor | None = None
    wrong_type: "_Tried | None" = None  # the try before its inputs were cast

    @property
    def ok(self) -> bool:
        return self.error is None


def _tried(subject: Subject, batch: Any) -> _Tried:
    tried = _attempt(subject, batch)
    wanted = _weight_dtype(tried.module)
    received = tried.received
    # Numbers of another type than the weights'; for an index into a table, of any type that is no index.
    if tried.ok or received is None or wanted is None or isinstance(tried.module, nn.Embedding):
        return tried
    if received.dtype == wanted:
        return tried
    again = _attempt(subject, _cast(batch, received.dtype, wanted))
    again.wrong_type = tried
    return again


def _attempt(subject: Subject, batch: Any) -> _Tried:
    """Forward in evaluation mode; on the way, notes which leaf module is at work."""
    at_work: list[tuple[nn.Module, Tensor | None]] = []
    leaves = [module for module in subject.model.modules() if not list(module.children())]

    def enter(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        at_work.append((module, next(iter(tensors(inputs)), None)))

    def leave(_module: nn.Module, _inputs: tuple[Any, ...], _output: Any) -> None:
        at_work.pop()

    handles = [leaf.register_forward_pre_hook(enter) for leaf in leaves]
    handles += [leaf.register_forward_hook(leave) for leaf in leaves]
    tried = _Tried(batch)
    try:
        with evaluating(subject):
            tried.output = subject.forward(subject.callee, batch)  # type: ignore[arg-type]
    except Exception as error:
        tried.error = error
        if at_work:
            tried.module, tried.received = at_work[-1]
            tried.name = next(name for name, module in subject.model.named_modules() if module is tried.module)
    finally:
        for handle in handles:
            handle.remove()
    return tried


def _weight_dtype(module: nn.Module | None) -> torch.dtype | None:
    first = next(module.parameters(), None) if module is not None else None
    return first.dtype if first is not None else None


def _cast(batch: Any, wrong: torch.dtype, wanted: torch.dtype) -> Any:
    def cast(tensor: Tensor) -> Tensor:
        return tensor.to(wanted) if tensor.dtype == wrong else tensor

    if isinstance(batch, tuple | list):  # the target keeps its type: that is another check's business
        return (*(mapped(part, cast) for part in batch[:-1]), batch[-1])
    return mapped(batch, cast)


# The checks. Each looks at one thing and says what it saw.


def path(bench: _Bench) -> Said:
    """Are the data where they are looked for?"""
    try:
        train, val = bench.workload.datasets()
    except TargetError as error:
        absent = _absent_file(error)
        if absent is None:
            raise
        return _absent(absent)
    sizes = [f"`{size}`" if (size := _size(data)) is not None else "an unknown number of" for data in (train, val)]
    return Said(True, f"{sizes[0]} training and {sizes[1]} validation samples")


def _absent(file: str) -> Said:
    above = next((folder for folder in Path(file).absolute().parents if folder.exists()), Path("/"))
    return Said(
        False,
        f"there is no `{file}`; `{above}` is the last of its folders that exists",
        f"put the data there, or correct the path; relative paths start from `{Path.cwd()}`",
    )


def _absent_file(error: BaseException | None) -> str | None:
    while error is not None:
        if isinstance(error, FileNotFoundError) and error.filename is not None:
            return str(error.filename)
        error = error.__cause__ or error.__context__
    return None


def _size(data: Any) -> int | None:
    try:
        return len(data)
    except (TypeError, NotImplementedError):
        return None


def model(bench: _Bench) -> Said:
    """Can model and optimizer be built, and does the optimizer hold the model's parameters?"""
    subject = bench.subject
    trained = [parameter for parameter in subject.model.parameters() if parameter.requires_grad]
    held = {id(parameter) for group in subject.optimizer.param_groups for parameter in group["params"]}
    ours = sum(id(parameter) in held for parameter in trained)
    if ours == 0:
        return Said(
            False,
            f"the optimizer holds `0` of the model's `{len(trained)}` trainable parameters",
            "build it from the parameters it is given: `optimizer=lambda parameters: torch.optim.AdamW(parameters)`",
        )
    numbers = sum(parameter.numel() for parameter in trained)
    return Said(True, f"`{numbers:,}` trainable numbers in `{len(trained)}` parameters, `{ours}` held by the optimizer")


def samples(bench: _Bench) -> Said:
    """Can the samples be read, and do they fit together?"""
    seen = bench.read
    if seen.raised is not None:
        index, error = seen.raised
        absent = _absent_file(error)
        if absent is not None:
            return Said(False, f"sample `{index}` of `train`: {_absent(absent).says}", _absent(absent).hint)
        return Said(
            False,
            f"sample `{index}` of `train` raises {_told(error)}",
            f"read it alone: `train()[{index}]`; repair the file or leave it out",
        )
    if not seen.kept:
        return Said(False, "`train` yields `0` samples", "check the path and the filter it is read with")
    augment = bench.workload.augment
    if augment is not None:
        try:
            augment(seen.kept[0])
        except Exception as error:
            return Said(False, f"`augment` raises {_told(error)} on a sample", "it takes a sample and gives a sample")
    return _together(bench, seen)


def _together(bench: _Bench, seen: _Read) -> Said:
    try:
        bench.batch  # noqa: B018  made here for all
    except Exception as error:
        if seen.odd is None:
            return Said(False, f"samples cannot be put into a batch: {_told(error)}", "declare `collate=`")
    if seen.odd is not None:
        index, shape, first = seen.odd
        try:
            bench.workload.collate([seen.kept[0], bench.subject.feed.dataset[index]])
        except Exception:
            return Said(
                False,
                f"sample `{index}` has shapes `{shape}` where others have `{first}`, and a batch needs them equal",
                "resize or pad in the dataset, or declare a `collate=` that does",
            )
    return Said(True, f"{seen.told} read, shapes `{' '.join(_shapes(seen.kept[0]))}`")


def finite(bench: _Bench) -> Said:
    """Are the numbers of the samples finite?"""
    seen = bench.read
    if seen.unfinite is None:
        return Said(True, f"no NaN or infinity in {seen.told}")
    index, part = seen.unfinite
    return Said(
        False,
        f"sample `{index}` of `train` is not finite: {part} are NaN or infinite",
        "clean the data, or look for a division by a zero standard deviation",
    )


def dtype(bench: _Bench) -> Said:
    """Do the inputs have the type that the weights have?"""
    tried = bench.tried
    before = tried.wrong_type
    if before is None:
        kinds = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in _inputs(bench.batch)})
        if isinstance(tried.module, nn.Embedding) and tried.received is not None and _no_index(tried.received):
            return _says_index(tried)
        return Said(True, f"inputs are `{', '.join(kinds)}`")
    assert before.received is not None
    got = str(before.received.dtype).removeprefix("torch.")
    wanted = str(_weight_dtype(before.module)).removeprefix("torch.")
    scale = " / 255" if got == "uint8" else ""
    return Said(
        False,
        f"`{before.name or 'the model'}` receives `{got}` numbers, and its weights are `{wanted}`",
        f"convert in the dataset, once: `inputs.to(torch.{wanted}){scale}`",
    )


def _inputs(batch: Any) -> list[Tensor]:
    return tensors(batch[:-1] if isinstance(batch, tuple | list) else batch)


def _no_index(tensor: Tensor) -> bool:
    return tensor.dtype not in (torch.int64, torch.int32)


def _says_index(tried: _Tried) -> Said:
    assert tried.received is not None
    got = str(tried.received.dtype).removeprefix("torch.")
    return Said(
        False,
        f"the table `{tried.name}` receives `{got}` numbers, and looks up `int64` ones",
        "convert in the dataset: `ids.long()`",
    )


def layout(bench: _Bench) -> Said:
    """Does a batch go through the model, its dimensions in the order and of the size that the layers want?"""
    tried = bench.tried
    if tried.ok:
        swapped = _batch_as_time(bench)
        if swapped is not None:
            return swapped
        inputs, output = " ".join(_shapes(_inputs(tried.batch))), " ".join(_shapes(tried.output))
        return Said(True, f"inputs `{inputs}` give outputs `{output}`")
    module, received = tried.module, tried.received
    if isinstance(module, nn.Embedding) and received is not None and _no_index(received):
        return Said(None, "not checked: the type of the inputs stops the model first")
    if module is not None and received is not None:
        for kind, explain in _EXPLAINED:
            if isinstance(module, kind) and (said := explain(module, tried.name, received)) is not None:
                return said
    assert tried.error is not None
    where = f"at `{tried.name}`, which receives `{tuple(received.shape)}`, " if received is not None else ""
    shapes = " ".join(_shapes(_inputs(tried.batch)))
    return Said(
        False,
        f"a batch with inputs of `{shapes}` stops {where}with {_told(tried.error)}",
        "compare the shape of a sample with what the model's first layer takes",
    )


def _of_conv(module: Any, name: str, received: Tensor) -> Said | None:
    space, wanted, shape = len(module.kernel_size), module.in_channels, tuple(received.shape)
    letters = {1: "L", 2: "HW", 3: "DHW"}[space]
    if received.dim() == space + 1:
        return Said(
            False,
            f"`{name}` receives `{shape}`: there is no dimension for its `{wanted}` channel{'s'[: wanted != 1]}",
            "add it in the dataset: `image.unsqueeze(0)`",
        )
    if received.dim() != space + 2:
        return Said(
            False,
            f"`{name}` receives `{shape}`, `{received.dim()}` dimensions where it takes `{space + 2}` (NC{letters})",
            f"give samples of the form C{letters}",
        )
    if shape[1] == wanted:
        return None
    if shape[-1] == wanted:
        order = (space, *range(space))
        return Said(
            False,
            f"`{name}` receives `{shape}`: channels come last ({letters}C), and it takes them first (C{letters}), `{wanted}` of them",
            f"reorder in the dataset: `image.permute{order}`",
        )
    return Said(
        False,
        f"`{name}` receives `{shape[1]}` channels (`{shape}`) and takes `{wanted}`",
        f"give the first layer `in_channels={shape[1]}`, or change the images",
    )


def _of_linear(module: Any, name: str, received: Tensor) -> Said | None:
    wanted, shape = module.in_features, tuple(received.shape)
    if shape and shape[-1] == wanted:
        return None
    if received.dim() > 2 and received[0].numel() == wanted:
        return Said(
            False,
            f"`{name}` receives `{shape}` and takes rows of `{wanted}` features",
            "flatten first: `nn.Flatten()` before it, or `sample.flatten()` in the dataset",
        )
    got = shape[-1] if shape else 0
    return Said(
        False,
        f"`{name}` receives `{got}` features (`{shape}`) and takes `{wanted}`",
        f"give it `in_features={got}`, or look for what the samples lack",
    )


def _of_table(module: Any, name: str, received: Tensor) -> Said | None:
    low, high, rows = int(received.min()), int(received.max()), module.num_embeddings
    if low >= 0 and high < rows:
        return None
    return Said(
        False,
        f"the table `{name}` has `{rows}` rows, and ids run from `{low}` to `{high}`",
        f"ids must be from 0 to {rows - 1}: count from 0, or make the table larger",
    )


def _of_recurrent(module: Any, name: str, received: Tensor) -> Said | None:
    wanted, shape = module.input_size, tuple(received.shape)
    if received.dim() == 3 and shape[-1] == wanted:
        return None
    return Said(
        False,
        f"`{name}` receives `{shape}` and takes `{wanted}` feature{'s'[: wanted != 1]} in the last of three dimensions",
        "give samples of the form (time, features): `series.unsqueeze(-1)` when there is one feature",
    )


_EXPLAINED: tuple[tuple[type[nn.Module], Callable[[Any, str, Tensor], Said | None]], ...] = (
    (_ConvNd, _of_conv),
    (nn.Linear, _of_linear),
    (nn.Embedding, _of_table),
    (nn.EmbeddingBag, _of_table),
    (nn.RNNBase, _of_recurrent),
)


def _batch_as_time(bench: _Bench) -> Said | None:
    """A recurrent layer whose time dimension grows with the batch reads samples as moments."""
    names = {module: name for name, module in bench.subject.model.named_modules() if isinstance(module, nn.RNNBase)}
    kept = bench.read.kept
    if not names or len(kept) < 2:
        return None
    shapes: dict[nn.Module, list[tuple[int, ...]]] = {module: [] for module in names}

    def note(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(inputs[0], Tensor) and inputs[0].dim() == 3:
            shapes[module].append(tuple(inputs[0].shape))

    handles = [module.register_forward_pre_hook(note) for module in names]
    try:
        for count in (len(kept), len(kept) - 1):
            _attempt(bench.subject, bench.collated(kept[:count]))
    finally:
        for handle in handles:
            handle.remove()
    for module, (name, seen) in zip(names, zip(names.values(), shapes.values(), strict=True), strict=True):
        time_at = 1 if module.batch_first else 0
        if len(seen) == 2 and seen[0][time_at] != seen[1][time_at] and seen[0][1 - time_at] == seen[1][1 - time_at]:
            return Said(
                False,
                f"`{name}` receives `{seen[0]}` and takes the `{seen[0][time_at]}` samples of a batch for moments in time",
                f"declare it with `batch_first={not module.batch_first}`",
            )
    return None


_CLASS_LOSSES = (F.cross_entropy, F.nll_loss)
_PLAIN_LOSSES = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)
_PLAIN_MODULES = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)
IGNORED = -100  # the label that cross-entropy passes over, unless told otherwise


def labels(bench: _Bench) -> Said:
    """Do the targets mean to the loss what they are meant to?"""
    seen, output, target = bench.read, bench.tried.output, target_of(bench.tried.batch)
    if not isinstance(output, Tensor) or not isinstance(target, Tensor):
        return Said(True, f"outputs are `{type(output).__name__}`, targets `{type(target).__name__}`; not looked into")
    shapes = f"outputs `{tuple(output.shape)}`, targets `{tuple(target.shape)}`"
    kind = str(target.dtype).removeprefix("torch.")
    said = None
    if _of_classes(bench.workload, output, target):
        said = _float_labels(output, target) if target.is_floating_point() else _label_range(seen, output)
    elif target.is_floating_point():
        said = _looks_like_classes(bench.workload, seen, output, target) or _broadcast(bench, output, target)
    if said is not None:
        return said
    span = f" from `{seen.lowest:g}` to `{seen.highest:g}`" if seen.lowest <= seen.highest else ""
    return Said(True, f"{shapes} of `{kind}`{span}")


def _of_classes(workload: Workload, output: Tensor, target: Tensor) -> bool:
    """True when the loss is cross-entropy for certain."""
    if workload.loss is None:
        return not target.is_floating_point() and output.dim() >= 2
    return workload.loss in _CLASS_LOSSES or isinstance(workload.loss, nn.CrossEntropyLoss | nn.NLLLoss)


def _label_range(seen: _Read, output: Tensor) -> Said | None:
    classes = output.shape[1]
    low, high = seen.lowest, seen.highest
    told = (
        f"labels run from `{low:g}` to `{high:g}`, and the model's `{classes}` outputs stand for `0` to `{classes - 1}`"
    )
    if low == IGNORED:
        return None if high < classes else Said(False, told, "give the model an output for every label")
    if low == 1 and high == classes:
        return Said(False, f"{told}: they are off by one", "count from 0: `labels - 1`")
    if low == -1 and high < classes:
        return Said(
            False, f"{told}: -1 is no class", "turn -1 into -100, which cross-entropy passes over, or count from 0"
        )
    if low < 0 or high >= classes:
        return Said(False, told, "number the classes from 0 without gaps, and give the model an output for each")
    unused = set(range(classes)) - seen.labels
    # One class missing at an end is a miscount; classes missing anywhere else are a matter of the data.
    if seen.single and seen.all and len(unused) == 1 and unused <= {0, classes - 1} and classes > 2:
        never = unused.pop()
        return Said(
            False,
            f"output `{never}` is never used: the labels of all `{seen.count}` samples run from `{low:g}` to `{high:g}`",
            f"give the model `{classes - 1}` outputs" + (", and count from 0: `labels - 1`" if never == 0 else ""),
        )
    return None


def _float_labels(output: Tensor, target: Tensor) -> Said | None:
    if target.shape == output.shape:
        return None  # probabilities of the classes
    kind = str(target.dtype).removeprefix("torch.")
    return Said(
        False,
        f"labels are `{kind}` of shape `{tuple(target.shape)}` and outputs `{tuple(output.shape)}`: cross-entropy takes whole numbers",
        "convert in the dataset: `label.long()`",
    )


def _looks_like_classes(workload: Workload, seen: _Read, output: Tensor, target: Tensor) -> Said | None:
    if workload.loss is not None or not seen.whole_numbers or target.dim() != 1 or output.dim() != 2:
        return None
    if output.shape[1] < 2:
        return None
    kind = str(target.dtype).removeprefix("torch.")
    return Said(
        False,
        f"labels are whole numbers from `{seen.lowest:g}` to `{seen.highest:g}` stored as `{kind}`, so the loss is the squared "
        f"difference from `{output.shape[1]}` outputs",
        "for classes, convert in the dataset: `label.long()`; then the loss is cross-entropy",
    )


def _broadcast(bench: _Bench, output: Tensor, target: Tensor) -> Said | None:
    """(N, 1) against (N,): the difference is a table of N x N, and the loss its mean."""
    if output.shape == target.shape or output.numel() != target.numel() or len(output) < 2:
        return None
    declared = bench.workload.loss
    plain = declared is None or declared in _PLAIN_LOSSES or isinstance(declared, _PLAIN_MODULES)
    if not plain and not _differs_in_pieces(bench, output):
        return None
    wide = tuple(torch.broadcast_shapes(output.shape, target.shape))
    return Said(
        False,
        f"outputs `{tuple(output.shape)}` against targets `{tuple(target.shape)}`: every output is compared with every target, `{wide}`",
        "give both the same shape: `target.unsqueeze(1)` in the dataset, or `output.squeeze(1)` at the end of the model",
    )


def _differs_in_pieces(bench: _Bench, output: Tensor) -> bool:
    """True when the loss of a batch is neither the mean nor the sum of the losses of its samples."""
    batch, subject = bench.tried.batch, bench.subject
    count = len(output)

    def part(index: int) -> Any:
        return mapped(batch, lambda tensor: tensor[index : index + 1] if len(tensor) == count else tensor)

    whole = subject.loss(output, batch)
    pieces = torch.stack([subject.loss(output[index : index + 1], part(index)) for index in range(count)])
    return not any(torch.allclose(whole, one, rtol=1e-3) for one in (pieces.mean(), pieces.sum()))


def loss(bench: _Bench) -> Said:
    """Is the loss one finite number that depends on the model?"""
    subject = bench.subject
    try:
        value = forward_loss(subject, bench.tried.batch)
    except Exception as error:
        return Said(False, f"the loss raises {_told(error)}", "call it alone with an output and a target")
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = (
            f"a tensor of shape `{tuple(value.shape)}`" if isinstance(value, Tensor) else f"a `{type(value).__name__}`"
        )
        return Said(False, f"the loss is {got}, and training needs one number", "end it with `.mean()`")
    if not bool(torch.isfinite(value)):
        return Said(
            False, f"the loss of the first batch is `{value.item()}`", "look for a logarithm of 0 or a division by 0"
        )
    if not value.requires_grad:
        return Said(
            False,
            f"the loss is `{value.item():.4g}` but has no gradient",
            "do not detach the output, nor compute it under torch.no_grad",
        )
    return _backward(subject, value)


def _backward(subject: Subject, value: Tensor) -> Said:
    try:
        value.backward()
    except Exception as error:
        return Said(
            False,
            f"the backward pass raises {_told(error)}",
            "look for a change in place of what the backward pass needs",
        )
    reached = [parameter.grad is not None for parameter in subject.model.parameters() if parameter.requires_grad]
    subject.optimizer.zero_grad(set_to_none=True)
    return Said(
        True,
        f"`{value.item():.4g}` on the first batch; its gradient reaches `{sum(reached)}` of `{len(reached)}` parameters",
    )


def learning(bench: _Bench) -> Said:
    """Does the loss fall on a tenth of the data?"""
    parts = _training_part(bench)
    before = _losses(bench.subject, parts.groups)
    updates = 0
    for look in LOOKS:
        while updates < look and (updates == 0 or bench.in_time()):
            batch = parts.batches[updates % len(parts.batches)]
            try:
                value = _update(bench.subject, batch)
            except Exception as error:
                return Said(False, f"update `{updates + 1}` raises {_told(error)}", "try a training step alone")
            if not torch.isfinite(value):
                return Said(
                    False,
                    f"the loss is `{value.item()}` after `{updates}` updates",
                    "lower the learning rate, or look for a logarithm of 0 in the loss",
                )
            updates += 1
        said = _fallen(before, _losses(bench.subject, parts.groups), updates=updates, samples=parts.samples)
        if said.ok or not bench.in_time():
            break
    return said


class _Parts(NamedTuple):
    batches: list[Any]
    groups: list[Any]
    samples: int


def _training_part(bench: _Bench) -> _Parts:
    """A tenth of the training data with its random transforms, in batches to train on and in groups to compare."""
    workload, feed = bench.workload, bench.subject.feed
    if feed.iterable:
        chosen = bench.read.kept
    else:
        count = min(feed.samples, max(round(feed.samples * PART), workload.batch_size, 4 * GROUPS))
        order = torch.randperm(feed.samples, generator=torch.Generator().manual_seed(1)).tolist()[:count]
        chosen = []
        for index in order:
            chosen.append(feed.dataset[index])
            # Half of this check's time is for training.
            if len(chosen) >= 2 * GROUPS and bench.clock() > bench.check_ends - bench.budget_s * SHARE / 2:
                break
    seed_everything(0)
    if workload.augment is not None:
        chosen = [workload.augment(sample) for sample in chosen]
    size = min(workload.batch_size, len(chosen))
    starts = range(0, len(chosen) - size + 1, size)
    # A group of one sample cannot be normalised over the batch, so small data make fewer groups.
    piece = max(2, len(chosen) // GROUPS)
    groups = [chosen[start : start + piece] for start in range(0, len(chosen) - piece + 1, piece)]
    return _Parts(
        [bench.subject.fed(workload.collate(chosen[start : start + size])) for start in starts],
        [bench.subject.fed(workload.collate(group)) for group in groups],
        len(chosen),
    )


def _losses(subject: Subject, groups: list[Any]) -> list[float]:
    """In training mode: after a few updates, the running averages of batch normalisation say nothing yet."""
    seed_everything(0)  # the same units dropped out before and after
    with torch.no_grad():
        return [forward_loss(subject, group).item() for group in groups]


def _update(subject: Subject, batch: Any) -> Tensor:
    value = forward_loss(subject, batch)
    value.backward()
    subject.optimizer.step()
    subject.optimizer.zero_grad(set_to_none=True)
    return value.detach()


def _fallen(before: list[float], after: list[float], *, updates: int, samples: int) -> Said:
    """A signed-rank test over groups of samples, each compared with itself before the first update."""
    if before == after:
        return Said(
            False,
            f"`{updates}` updates left the loss at `{_mean(before):.4g}`, to the bit",
            "check that the optimizer holds the model's parameters and that its learning rate is not 0",
        )
    test = scipy.stats.wilcoxon(after, before, alternative="less")
    told = f"from `{_mean(before):.4g}` to `{_mean(after):.4g}` in `{updates}` updates on `{samples}` samples (p = `{test.pvalue:.2g}`)"
    if test.pvalue <= CHANCE:
        return Said(True, f"the loss falls {told}")
    if 0.5 ** len(before) > CHANCE or updates < FEW or test.pvalue <= DOUBT:
        return Said(None, f"cannot tell whether the loss falls: it goes {told}")
    return Said(
        False,
        f"the loss does not fall: it goes {told}",
        "lower the learning rate; check that inputs and targets belong to each other",
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def metric(bench: _Bench) -> Said:
    """Can the metric be computed?"""
    try:
        value = bench.workload.score(bench.tried.output, target_of(bench.tried.batch))
    except Exception as error:
        return Said(False, f"the metric raises {_told(error)}", "call it alone with an output and a target")
    if value is None:
        return Said(
            None, "there is no metric: none fits by default", "declare `metric=`, for instance a negative error"
        )
    if not math.isfinite(value):
        return Said(False, f"the metric is `{value}`", "look for a division by 0, as with a class that does not occur")
    return Said(True, f"`{value:.4g}` before training")


def validation(bench: _Bench) -> Said:
    """Can the validation data be evaluated?"""
    _, val = bench.workload.datasets()
    feed = replace(
        bench.workload.feed(val).evaluation(),
        workers=0,
        prefetch_factor=None,
        persistent_workers=False,
        start_method=None,
    )
    steps, done, total = feed.steps_per_epoch, 0, 0.0
    subject = bench.subject
    batches = feed.epochs()
    try:
        with evaluating(subject):
            while (steps is None or done < steps) and bench.in_time():
                batch = next(batches, None)
                if batch is None:
                    break
                total += forward_loss(subject, subject.placed(batch)).item()
                done += 1
    except Exception as error:
        return Said(
            False, f"validation batch `{done}` raises {_told(error)}", "validation samples must be like training ones"
        )
    finally:
        batches.close()  # type: ignore[attr-defined]
    whole = f"`{done}` of `{steps}` batches" if steps is not None else f"`{done}` batches"
    if done == 0:
        return Said(None, "no validation batch was read in time")
    if not math.isfinite(total):
        return Said(
            False, f"the validation loss over {whole} is `{total / done}`", "look for NaN in the validation data"
        )
    return Said(True, f"loss `{total / done:.4g}` over {whole}")


def last_batch(bench: _Bench) -> Said:
    """Does a last batch of a single sample, where one occurs, go through the model?"""
    train, val = bench.workload.datasets()
    size = bench.workload.batch_size
    feed = bench.subject.feed
    left = {"val": (_size(val) or 0) % size, "train": 0 if feed.drop_last else (_size(train) or 0) % size}
    one = bench.collated(bench.read.kept[:1])
    if _size(train) is None or _size(val) is None:
        through = _attempt(bench.subject, one).ok
        return Said(
            through or None,
            f"the data do not know their length; `1` sample alone goes {'' if through else 'not '}through",
        )
    if left["train"] == 1:
        try:
            bench.subject.model.train()
            with torch.no_grad():
                forward_loss(bench.subject, one)
        except Exception as error:
            return Said(
                False,
                f"the last training batch has `1` sample and stops with {_told(error)}",
                'declare `loader={"drop_last": True}`, or another `batch_size`',
            )
    if left["val"] == 1:
        tried = _attempt(bench.subject, one)
        if not tried.ok or (isinstance(tried.output, Tensor) and tried.output.shape[:1] != (1,)):
            got = _told(tried.error) if tried.error is not None else f"an output of shape `{tuple(tried.output.shape)}`"
            return Said(
                False,
                f"the last validation batch has `1` sample and gives {got}",
                "name the dimension that is squeezed: `output.squeeze(1)`, never `squeeze()`",
            )
    dropped = " (dropped)" if feed.drop_last and (_size(train) or 0) % size else ""
    rest = (_size(train) or 0) % size
    return Said(
        True, f"the last batch has `{rest or size}` training samples{dropped}, `{left['val'] or size}` for validation"
    )


def checkpoint(bench: _Bench) -> Said:
    """Can model and optimizer be saved, loaded, and give the same answers again?"""
    file = bench.folder / "smoke.pt"
    subject = bench.subject
    try:
        bench.folder.mkdir(parents=True, exist_ok=True)
        with open(file, "wb") as stream:
            torch.save({"model": subject.model.state_dict(), "optimizer": subject.optimizer.state_dict()}, stream)
        size = file.stat().st_size
        with open(file, "rb") as stream:
            saved = torch.load(stream, map_location=subject.device, weights_only=True)
    except OSError as error:
        return Said(
            False,
            f"cannot write a checkpoint to `{file}`: {_told(error)}",
            "choose a folder that you may write to, on a disk with room",
        )
    except Exception as error:
        return Said(False, f"the state cannot be saved and loaded: {_told(error)}", "keep tensors and plain data in it")
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
    return _restored(bench, saved, size)


def _restored(bench: _Bench, saved: dict[str, Any], size: int) -> Said:
    subject, other = bench.subject, bench.workload.fresh(seed=1)
    other.model.load_state_dict(saved["model"])
    other.optimizer.load_state_dict(saved["optimizer"])
    for mine, yours in zip(tensors(subject.model.state_dict()), tensors(other.model.state_dict()), strict=True):
        if not torch.equal(mine.nan_to_num(), yours.nan_to_num()):
            return Said(
                False, "a loaded parameter differs from the saved one", "look at the model's own `load_state_dict`"
            )
    if bench.tried.ok:
        answers = [_attempt(one, bench.tried.batch).output for one in (subject, subject, other)]
        first, again, loaded = (torch.cat([leaf.double().flatten() for leaf in tensors(answer)]) for answer in answers)
        # A model that answers itself differently each time can't be held to more.
        if torch.equal(first, again) and not torch.allclose(first, loaded, rtol=1e-3, atol=1e-5):
            return Said(
                False,
                f"the loaded model answers differently, by up to `{(first - loaded).abs().max().item():.2g}`",
                "some state is not in `state_dict`: use `register_buffer` for tensors that are no parameters",
            )
    return Said(True, f"`{size:,}` bytes of model and optimizer, saved, loaded and equal")


CHECKS: tuple[tuple[Check, tuple[str, ...]], ...] = (
    (path, ()),
    (model, ("path",)),
    (samples, ("path", "model")),
    (finite, ("path", "model", "samples")),
    (dtype, ("path", "model", "samples")),
    (layout, ("path", "model", "samples")),
    (labels, ("path", "model", "samples", "layout")),
    (metric, ("path", "model", "samples", "layout", "labels")),
    (loss, ("path", "model", "samples", "dtype", "layout", "labels", "finite")),
    (last_batch, ("path", "model", "samples", "dtype", "layout")),
    (validation, ("path", "model", "samples", "dtype", "layout", "labels", "loss", "last-batch")),
    (learning, ("path", "model", "samples", "dtype", "layout", "labels", "loss")),
    (checkpoint, ("path", "model")),
)
