"""What was found out about the script besides times: loaders, models, order, reads, saves."""

import hashlib
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from .account import NAMES, Account
from .account import NETDYNO as OWN
from .frames import Line, user_line
from .labels import Labels
from .made import Made
from .origins import caller, loop
from .places import Places
from .reach import WHEN, Reach

if TYPE_CHECKING:
    from .observe import Observer

# A look at shapes, autocast and flags in every update would cost more than it tells: the first few, then now and then.
OFTEN, SELDOM = 8, 32
# Runs of forwards between two backward passes that are seen before one is called longer than usual.
RUNS = 3
# A checksum of more than this of each tensor takes longer than a batch should.
MOST_BYTES = 16 << 20
# A script that makes a model per fold or episode would otherwise keep all of them alive through us.
MOST_MODELS = 16
# Names in a list of the tick; the total count stands beside them.
MOST_NAMES = 50
MOST_LINES = 100
# Gradients larger than this are not read to see whether they are zero.
SMALL = 65536
# On a device each look at a gradient waits for it; three looks are proof enough.
LOOKS = 3
GIVE_UP = 50


class Known:
    """A module that was called at top level."""

    __slots__ = ("called", "evaluations", "forwards", "is_loss", "names", "new", "passes", "ref", "trains", "ungraded")

    def __init__(self, module: Any) -> None:
        self.ref = weakref.ref(module)
        self.is_loss = any(kind.__module__ == "torch.nn.modules.loss" for kind in type(module).__mro__)
        self.names = {id(parameter): name for name, parameter in module.named_parameters()}
        self.ungraded = {
            name: weakref.ref(parameter) for name, parameter in module.named_parameters() if parameter.requires_grad
        }
        self.trains = bool(self.ungraded) and not self.is_loss
        self.new = True
        self.forwards = self.evaluations = 0
        self.called = False  # since the last backward pass
        self.passes = 0  # backward passes that came after a call of it, as far as they were looked at


class KnownLoader:
    """A data loader: how it was made and what it was used for."""

    def __init__(self, number: int, loader: Any, line: Line) -> None:
        self.number = number
        self.ref = weakref.ref(loader)
        self.line = line
        self.trains = self.evaluates = False
        self.iterations = self.batches = 0
        self.first_of_epoch = 1
        self.first_batch_s: float | None = None
        self.began = 0
        self.hash = hashlib.blake2b(digest_size=16)
        self.hashed = 0
        self.labels = Labels()
        self.made = _loader_facts(loader)

    def begun(self) -> None:
        """An iterator was made."""
        self.iterations += 1
        self.first_of_epoch = self.batches + 1
        self.began = time.perf_counter_ns()

    def look(self, batch: Any, account: Account) -> None:
        """At the first batches: how long one waited for it, and what is in it."""
        if self.batches == self.first_of_epoch and self.first_batch_s is None:
            self.first_batch_s = (time.perf_counter_ns() - self.began) / 1e9
        account.push(OWN)
        try:
            if self.hashed < 2:
                self.hashed += 1
                _digest(self.hash, batch)
            self.labels.look(batch)
        finally:
            account.leave(0)

    def summary(self) -> dict[str, Any]:
        """As it stands in the tick."""
        used = "both" if self.trains and self.evaluates else "training" if self.trains else "evaluation"
        return {
            "id": self.number,
            "file": self.line.file,
            "line": self.line.line,
            **self.made,
            "used_for": used if self.trains or self.evaluates else None,
            "iterations_started": self.iterations,
            "batches": self.batches,
            "first_batch_s": self.first_batch_s,
            "labels_vary": self.labels.vary,
            "sequence": self.labels.sequence,
        }


def _loader_facts(loader: Any) -> dict[str, Any]:
    from torch.utils.data import IterableDataset, RandomSampler

    sampler = getattr(loader, "sampler", None)
    inner = sampler
    # Schedulers of batches and frameworks wrap samplers; the innermost one draws the order.
    for _ in range(4):
        inner = getattr(inner, "sampler", inner)
    try:
        length: int | None = len(loader)
    except (TypeError, NotImplementedError, AttributeError):
        length = None
    name = type(inner).__name__
    return {
        "sampler": name,
        # With a batch sampler of one's own a loader has no batch size, and its `sampler` says nothing.
        "own_order": getattr(loader, "batch_size", None) is None or name not in ("SequentialSampler", "RandomSampler"),
        "shuffled": isinstance(inner, RandomSampler) or "Random" in name or getattr(inner, "shuffle", False) is True,
        "batch_size": getattr(loader, "batch_size", None)
        or getattr(getattr(loader, "batch_sampler", None), "batch_size", None),
        "workers": getattr(loader, "num_workers", 0),
        "pin_memory": bool(getattr(loader, "pin_memory", False)),
        "persistent": bool(getattr(loader, "persistent_workers", False)),
        "iterable": isinstance(getattr(loader, "dataset", None), IterableDataset),
        "dataset": type(getattr(loader, "dataset", None)).__name__,
        "length": length,
    }


class KnownOptimizer:
    """An optimizer that exists: its steps, and whether its gradients were ever seen cleared."""

    def __init__(self, index: int, optimizer: Any) -> None:
        self.index = index
        self.optimizer = optimizer
        self.steps = self.skipped = 0
        self.sample: Any = None
        self.cleared = False
        self.looks = 0

    @property
    def doubtful(self) -> bool:
        """Whether it is still worth a look."""
        return not self.cleared and self.looks < GIVE_UP

    def choose(self) -> None:
        """The smallest weight with a gradient stands for all."""
        graded = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        self.sample = min(graded, key=lambda p: p.numel(), default=None)

    def look(self, item: Any) -> None:
        """Before a backward pass: is the gradient gone?"""
        gradient = self.sample.grad
        if gradient is None:
            self.cleared = True
            return
        if gradient.numel() > SMALL or gradient.is_sparse or (not gradient.is_cpu and self.looks >= LOOKS):
            self.cleared = self.cleared or gradient.numel() > SMALL or gradient.is_sparse
            return
        self.looks += 1
        self.cleared = not item(gradient.detach().count_nonzero())

    def summary(self) -> dict[str, Any]:
        """As it stands in the tick."""
        names = ("fused", "foreach", "capturable", "differentiable", "maximize")
        group = self.optimizer.param_groups[0]
        settings = {name: group[name] for name in names if name in group}
        kind = type(self.optimizer).__name__
        return {"index": self.index, "kind": kind, "settings": settings, "steps": self.steps, "skipped": self.skipped}


class Extra:
    """A training forward beyond the usual number between two backward passes."""

    __slots__ = ("age", "line", "number", "seconds", "used")

    def __init__(self, line: Line, number: int, seconds: float) -> None:
        self.line, self.number, self.seconds = line, number, seconds
        self.used = False
        self.age = 0


class Facts:
    """Everything that is known besides times, and how it goes into the tick."""

    def __init__(self, observer: "Observer") -> None:
        self.observer = observer
        self.known: dict[int, Known] = {}
        self.loaders: list[KnownLoader] = []
        self.optimizers: list[KnownOptimizer] = []
        self.doubtful = True  # whether the gradients of some optimizer were not yet seen cleared
        self.scaler_used = False
        self.autocast: str | None = None
        self.clip_before_unscale: Line | None = None
        self.direct = False
        self.first_shapes: list[Any] | None = None
        self.last_shapes: list[Any] | None = None
        self.items: int | None = None
        self.runs: Counter[int] = Counter()
        self.forward_number = 0
        self.pending: list[Extra] = []
        self.validated: dict[Line, list[float]] = {}
        self.rebuilt: Counter[Line] = Counter()
        self.first_hash: str | None = None
        self.called: list[Known] = []
        self.models_summary: list[dict[str, Any]] = []
        self.modes: dict[int, bool] = {}
        self.reach = Reach()
        self.places = Places()
        self.made = Made()
        self.made_summary: tuple[list[tuple[str, str, int]], list[tuple[str, str, int]]] = ([], [])
        self.skipped_late = 0
        self.restart()

    def restart(self) -> None:
        """Warm-up is over: what is counted per update begins at zero."""
        self.reads: dict[tuple[CodeType, int, str, int], list[Any]] = {}
        self.besides: dict[tuple[str, Line], list[float]] = {}
        self.evaluations = self.in_training_mode = 0
        self.evaluated_updates = 0
        self.own_evaluations = self.own_rounds = 0
        self.last_own = -1
        self.updates_between: Counter[int] = Counter()
        self.last_evaluated = 0
        self.counted_from = self.observer.counted

    # modules

    def model(self, module: Any) -> Known:
        """The entry of a module."""
        known = self.known.get(id(module))
        if known is None or known.ref() is not module:
            known = self.known[id(module)] = Known(module)
        return known

    def trained(self, known: Known, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A grad-enabled forward at top level begins."""
        self.forward_number += 1
        known.forwards += 1
        if known.new:
            known.new = False
            self.observer.guarded("new model", self._new_model, known, module, args, kwargs)
        elif self.observer.looking and known.trains:
            self.observer.guarded("look", self._look, args, kwargs)
        if known.trains and not known.called and (known.passes < OFTEN or self.observer.looking):
            known.called = True
            self.called.append(known)
        if known.trains and self.observer.looking:
            self.places.note("forwards")

    def _new_model(self, known: Known, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not known.trains:
            return
        models = self.observer.view.models
        models.append(module)
        del models[:-MOST_MODELS]
        self._look(args, kwargs)
        if self.first_hash is None and not _transformed() and not any(loader.batches for loader in self.loaders):
            digest = hashlib.blake2b(digest_size=16)
            _digest(digest, (args, kwargs))
            self.first_hash = digest.hexdigest()
        if self.observer.config.nudge:
            from . import seeds

            seeds.nudge(module, self.observer.config.nudge)

    def _look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import torch

        tensors = list(_tensors((args, kwargs)))
        self.last_shapes = [list(t.shape) for t in tensors]
        if self.first_shapes is None:
            self.first_shapes = self.last_shapes
        if tensors and tensors[0].dim():
            self.items = int(tensors[0].shape[0])
        device = tensors[0].device.type if tensors else "cpu"
        if torch.is_autocast_enabled(device):
            self.autocast = str(torch.get_autocast_dtype(device)).removeprefix("torch.")

    def evaluated(self, module: Any) -> None:
        """A forward without gradients at top level begins. A loss is the score of an evaluation, not one itself."""
        if self.model(module).is_loss:
            return
        observer = self.observer
        self.evaluations += 1
        if observer.fetched is not None:
            observer.fetched.evaluates = True
        if observer.updates != self.last_evaluated:
            self.updates_between[observer.updates - self.last_evaluated] += 1
            self.last_evaluated = observer.updates
            self.evaluated_updates += 1
        if module.training and self._minds_mode(module):
            self.in_training_mode += 1
        if not module.training:
            self._evaluated_own(module)

    def _evaluated_own(self, module: Any) -> None:
        """A model that trains itself is evaluated, not a teacher or a target network."""
        known = self.known.get(id(module))
        if known is None or known.ref() is not module or not (known.trains and known.forwards):
            return
        self.own_evaluations += 1
        if self.own_evaluations <= OFTEN:
            self.places.note("evaluations")
        if self.observer.updates != self.last_own:
            self.last_own = self.observer.updates
            self.own_rounds += 1

    def _minds_mode(self, module: Any) -> bool:
        """Whether training mode makes a difference to it: by what is inside, asked once."""
        answer = self.modes.get(id(module))
        if answer is None:
            answer = self.modes[id(module)] = any(
                child.training and ("Dropout" in type(child).__name__ or "BatchNorm" in type(child).__name__)
                for child in module.modules()
            )
        return answer

    def extra_forward(self, output: Any, frame: FrameType | None) -> None:
        """Listen whether a backward pass reaches this forward's result."""
        tensor = next(iter(_tensors(output)), None)
        node = getattr(tensor, "grad_fn", None)
        if node is None:
            return
        began = self.observer.account.seen
        extra = Extra(user_line(frame), self.forward_number, (time.perf_counter_ns() - began) / 1e9)
        node.register_prehook(lambda *_: setattr(extra, "used", True))
        self.pending.append(extra)

    def backward_done(self, forwards: int) -> None:
        """One backward pass is over; `forwards` went before it since the last one."""
        observer = self.observer
        if forwards:
            self.runs[forwards] += 1
            # One more of the usual ones changes nothing.
            if forwards != observer.usual_forwards and sum(self.runs.values()) >= RUNS:
                observer.usual_forwards = max(1, self.runs.most_common(1)[0][0])
        fetched = observer.fetched
        if fetched is not None and not fetched.trains:
            fetched.trains = True
            loader = fetched.ref()
            if loader is not None:
                observer.view.loaders.append(loader)
        if observer.looking:
            self.places.note("backwards")
        self._graded()

    def _graded(self) -> None:
        """What was called before this backward pass is asked for gradients; a model of a later fold or export as well as the first."""
        if not self.called:
            return
        called, self.called = self.called, []
        for known in called:
            known.called = False
            known.passes += 1
            if known.ungraded:
                known.ungraded = {
                    name: ref for name, ref in known.ungraded.items() if (p := ref()) is not None and p.grad is None
                }

    def before_backward(self, item: Any) -> None:
        """Look at gradients that were never seen cleared."""
        for entry in self.optimizers:
            if entry.doubtful and entry.sample is not None:
                entry.look(item)
        self.doubtful = any(entry.doubtful for entry in self.optimizers)

    def _listen(self) -> None:
        """Once, for one update: which modules run? In a session an update may be part of a race."""
        observer = self.observer
        if observer.updates == WHEN and observer.config.line is None:
            if any(known.ungraded for known in self.known.values() if known.passes):
                observer.guarded("reach", self.reach.begin, observer.view.models)
        elif observer.updates > WHEN:
            self.reach.end()

    def skipped(self, optimizer: Any) -> None:
        """A scaler left out a step of this optimizer; late, if it had found a scale that works before."""
        entry = self.optimizer(optimizer)
        entry.skipped += 1
        self.skipped_late += entry.steps > 0

    def update_done(self) -> None:
        """Extra forwards that no backward pass reached in two updates were for looking only."""
        self._listen()
        if not self.pending:
            return
        waiting: list[Extra] = []
        unused: list[Extra] = []
        for extra in self.pending:
            extra.age += 1
            if not extra.used:
                (unused if extra.age >= 2 else waiting).append(extra)
        self.pending = waiting
        for number, extra in enumerate(unused):
            neighbours = unused[max(0, number - 1) : number + 2]
            # One by itself may be a detached generator or teacher; several in a row are a validation loop.
            if any(abs(other.number - extra.number) == 1 for other in neighbours if other is not extra):
                entry = self.validated.setdefault(extra.line, [0, 0.0])
                entry[0] += 1
                entry[1] += extra.seconds

    # optimizers

    def optimizer(self, optimizer: Any) -> KnownOptimizer:
        """The entry of an optimizer."""
        for entry in self.optimizers:
            if entry.optimizer is optimizer:
                return entry
        entry = KnownOptimizer(len(self.optimizers), optimizer)
        self.optimizers.append(entry)
        self.doubtful = True
        return entry

    def before_step(self, entry: KnownOptimizer) -> None:
        """Now and then: do the gradients belong to modules that were called?"""
        if entry.sample is None:
            entry.choose()
        if not self.observer.looking or self.direct:
            return
        import torch

        names: set[int] = set().union(*(known.names for known in self.known.values()))
        for group in entry.optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and id(parameter) not in names:
                    self.direct = self.direct or isinstance(parameter, torch.nn.Parameter)

    # loaders

    def loader_made(self, loader: Any, line: Line) -> None:
        """A DataLoader was constructed."""
        entry = KnownLoader(len(self.loaders), loader, line)
        if self.observer.updates and any(other.line == line for other in self.loaders):
            self.rebuilt[line] += 1
        self.loaders = [*self.loaders[-MOST_LINES:], entry]

    def loader(self, loader: Any) -> KnownLoader:
        """The entry of a loader."""
        for entry in reversed(self.loaders):
            if entry.ref() is loader:
                return entry
        self.loader_made(loader, Line("", 0, ""))
        return self.loaders[-1]

    # what is done beside the work

    def read(self, name: str, frame: FrameType, phase: int, on_host: bool) -> None:
        """A tensor's value was read; counted by the caller's place, which is looked up later."""
        key = (frame.f_code, frame.f_lasti, name, phase)
        entry = self.reads.get(key)
        if entry is not None:
            entry[0] += 1
        elif len(self.reads) < MOST_LINES:
            self.reads[key] = [1, user_line(frame), on_host]

    def beside(self, kind: str, line: Line, nanoseconds: int) -> None:
        """Something was saved or logged."""
        entry = self.besides.setdefault((kind, line), [0, 0.0])
        entry[0] += 1
        entry[1] += nanoseconds / 1e9

    def clipped_scaled(self, line: Line) -> None:
        """Gradients were clipped that a scaler still has to unscale."""
        if self.clip_before_unscale is None:
            self.clip_before_unscale = line

    # the tick

    @property
    def checksum(self) -> str | None:
        """Of the first training batches."""
        for entry in self.loaders:
            if entry.trains:
                return entry.hash.hexdigest()
        return self.first_hash

    def describe(self) -> None:
        """Take down what the models are; on the training thread, where nothing changes them meanwhile."""
        self.models_summary = [_model_facts(model) for model in self.observer.view.models]
        self.made_summary = self.made.summary(self.observer.view.models)

    def summary(self) -> dict[str, Any]:
        """The tick's `facts`."""
        import torch

        models = self.models_summary
        return {
            "loaders": [entry.summary() for entry in self.loaders[-MOST_LINES:] if entry.iterations],
            "evaluation": self._evaluation(),
            "parameters": self._parameters(),
            "order": self._order(),
            "syncs": self._syncs(),
            "places": self.places.summary() | self._loops(),
            "modules": self.made_summary[0],
            "weights": self.made_summary[1],
            "gaps": self.observer.account.stretches.summary(),
            "census": self.observer.guarded("census", self.observer.census.summary),
            "saves": self._besides("saves"),
            "logs": self._besides("logs"),
            "model": max(models, key=lambda model: model["parameters"], default=None),
            "models": models,
            "autocast": {"used": self.autocast is not None, "dtype": self.autocast},
            "scaler": self.scaler_used,
            "threads": torch.get_num_threads(),
            "direct_forward_calls": self.direct,
            "loader_rebuilt": _most(self.rebuilt),
            "batch": {"first": self.first_shapes, "last": self.last_shapes, "items": self._items()},
        }

    def _loops(self) -> dict[str, list[tuple[str, int]]]:
        """The loops that train and the calls that evaluate, as the source has them: asked by those who look for faults."""
        if self.observer.vitals is None:
            return {}
        seen = self.places.summary()
        asked = (("epochs", "backwards", loop), ("rounds", "evaluations", caller))
        return {
            kind: list(dict.fromkeys((file, at) for file, line in seen.get(of, ()) if (at := find(Line(file, line, ""))) is not None))
            for kind, of, find in asked
        }  # fmt: skip

    def _items(self) -> int | None:
        for entry in self.loaders:
            if entry.trains and entry.made["batch_size"]:
                return int(entry.made["batch_size"])
        return self.items

    def _evaluation(self) -> dict[str, Any]:
        observer = self.observer
        updates = max(1, observer.counted)
        with_gradients = max(self.validated.items(), key=lambda item: item[1][0], default=None)
        seconds = observer.account.total[NAMES.index("evaluation")] / 1e9
        return {
            "forwards": self.evaluations,
            "per_update": self.evaluations / updates,
            "seconds": seconds,
            "in_training_mode": self.in_training_mode,
            "own_forwards": self.own_evaluations,
            "own_rounds": self.own_rounds,
            "updates_between": max(self.updates_between, key=self.updates_between.__getitem__, default=None),
            "with_gradients": None
            if with_gradients is None
            else {
                "count": int(sum(count for count, _ in self.validated.values())),
                "file": with_gradients[0].file,
                "line": with_gradients[0].line,
                "seconds": sum(spent for _, spent in self.validated.values()),
            },
        }

    def _parameters(self) -> dict[str, Any]:
        # What was called with gradients and no backward pass after it, as by an export, was not trained.
        trained = [known for known in list(self.known.values()) if known.passes]
        enough = min(OFTEN, max((known.passes for known in trained), default=0))
        asked = [known for known in trained if known.passes >= enough]
        never = [name for known in asked for name in list(known.ungraded)]
        reached, rested = self._ran(asked)
        return {
            "total": sum(len(known.names) for known in trained),
            "with_gradient": sum(len(known.names) for known in trained) - len(never),
            "never": never[:MOST_NAMES],
            "never_count": len(never),
            "ran_and_never": None if reached is None else reached[:MOST_NAMES],
            "ran_and_never_count": None if reached is None else len(reached),
            "rested": rested[:MOST_NAMES],
            "in_no_optimizer": self._homeless(trained)[:MOST_NAMES],
        }

    def _ran(self, trained: list[Known]) -> tuple[list[str] | None, list[str]]:
        """Parameters without a gradient whose module ran, and those whose module rested; None when nobody listened."""
        if self.reach.ran is None or self.reach.listens:
            return None, []
        reached: list[str] = []
        rested: list[str] = []
        for known in trained:
            model = known.ref()
            if model is not None and known.ungraded:
                ran, others = self.reach.split(model, list(known.ungraded))
                reached += ran
                rested += others
        return reached, rested

    def _homeless(self, trained: list[Known]) -> list[str]:
        """Weights with a gradient that no optimizer moves, where there are optimizers at all."""
        if not any(entry.steps for entry in self.optimizers):
            return []
        held = {id(p) for entry in self.optimizers for group in entry.optimizer.param_groups for p in group["params"]}
        return [
            name
            for known in trained
            if (module := known.ref()) is not None
            for name, parameter in list(module.named_parameters())
            if parameter.requires_grad and name not in known.ungraded and id(parameter) not in held
        ]

    def _order(self) -> dict[str, Any]:
        clip = self.clip_before_unscale
        return {
            "clip_before_unscale": None if clip is None else [clip.file, clip.line],
            "skipped_updates": sum(entry.skipped for entry in self.optimizers),
            "skipped_late": self.skipped_late,
            "gradients_never_cleared": any(
                entry.steps > LOOKS and entry.looks >= LOOKS and not entry.cleared for entry in self.optimizers
            ),
        }

    def _syncs(self) -> list[dict[str, Any]]:
        updates = max(1, self.observer.counted)
        by_line: dict[tuple[Line, str, int, bool], int] = {}
        for (_, _, name, phase), (count, line, on_host) in list(self.reads.items()):
            key = (line, name, phase, on_host)
            by_line[key] = by_line.get(key, 0) + count
        return [
            {
                "file": line.file,
                "line": line.line,
                "call": name,
                "per_update": count / updates,
                "phase": NAMES[phase],
                "on_host": on_host,
            }
            for (line, name, phase, on_host), count in sorted(by_line.items(), key=lambda item: -item[1])
        ]

    def _besides(self, kind: str) -> list[dict[str, Any]]:
        return [
            {"file": line.file, "line": line.line, "count": int(count), "seconds": seconds}
            for (which, line), (count, seconds) in list(self.besides.items())
            if which == kind
        ]


def _most(rebuilt: Counter[Line]) -> dict[str, Any] | None:
    if not rebuilt:
        return None
    line, times = rebuilt.most_common(1)[0]
    return {"file": line.file, "line": line.line, "times": times}


def _model_facts(model: Any) -> dict[str, Any]:
    import torch

    inner = getattr(model, "_orig_mod", model)
    parameters = list(model.parameters())
    convolutions = [module for module in model.modules() if isinstance(module, torch.nn.Conv2d)]
    return {
        "kind": type(inner).__name__,
        "parameters": sum(parameter.numel() for parameter in parameters),
        "dtypes": sorted({str(parameter.dtype).removeprefix("torch.") for parameter in parameters}),
        "device": str(parameters[0].device) if parameters else "cpu",
        "conv2d": len(convolutions),
        "channels_last": any(_is_channels_last(module.weight) for module in convolutions),
        "compiled": inner is not model or getattr(model, "_compiled_call_impl", None) is not None,
        "training": bool(model.training),
        "modules_in_evaluation_mode": sum(not module.training for module in model.modules()),
    }


def _is_channels_last(weight: Any) -> bool:
    import torch

    # A 1×1 kernel is contiguous in both orders and says nothing.
    return bool(weight.is_contiguous(memory_format=torch.channels_last)) and not weight.is_contiguous()


def _tensors(value: Any, deep: int = 0) -> Iterator[Any]:
    """The tensors in nested containers, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict) or hasattr(value, "items"):
        for inner in list(value.values()) if deep < 5 else ():
            yield from _tensors(inner, deep + 1)
    elif isinstance(value, list | tuple) and deep < 5:
        for inner in value:
            yield from _tensors(inner, deep + 1)
    elif hasattr(value, "to_data_list") and hasattr(value, "x"):  # a batch of graphs
        yield from _tensors(value.x, deep + 1)


def _transformed() -> bool:
    """True inside a transform of torch.func, where values have no address and cannot be hashed."""
    import torch

    # Asking functorch itself would give this thread a state of its own, which every later backward pass then copies at
    # each of its nodes.
    return bool(torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode))


def _digest(digest: Any, value: Any) -> None:
    import torch

    for tensor in _tensors(value):
        plain = tensor.detach()
        digest.update(f"{tuple(plain.shape)} {plain.dtype}".encode())
        if plain.layout is not torch.strided:
            continue
        # Not `plain.cpu()`: that is one of the script's reads, which are counted.
        flat = torch._C.TensorBase.cpu(plain).contiguous().reshape(-1)
        whole = flat.view(torch.uint8) if flat.numel() else flat.to(torch.uint8)
        digest.update(_bytes(whole[:MOST_BYTES]))


def _bytes(flat: Any) -> bytes:
    import ctypes

    # numpy may be absent.
    return ctypes.string_at(flat.data_ptr(), flat.numel()) if flat.numel() else b""
