"""Asks models the same question twice when the script is over: alone and in a batch, in training and in evaluation mode."""

import math
import random
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from ..frames import Line
from ._base import Call, LossCall, Vital, Watch
from .modes import norming

# Models that are asked, rows that are kept of an evaluation, and of how many training batches all rows are.
MODELS, ROWS, BATCHES = 4, 128, 12
# Evaluations that are looked at whatever it costs (some 50 µs each): the first rounds show what differs between them.
GRANTED = 12
# Bytes of one kept batch; larger ones are cut to fewer rows, and training batches are not kept.
BYTES = 4 << 20
# Seconds that all questions may take together, and what a single pass may take to be asked at all.
SECONDS, PASS_S = 2.5, 0.25
# Rows that are asked alone.
ALONE = 12
# Of the answers' size: rows that are nearer to each other are one answer.
ALIKE = 1e-4
# Layers that are told of one model.
TOLD = 6
# Random functions by what they say of a model: dropped values are a mode's business, drawn ones may be what it is for.
DROPS = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
    "dropout_",
    "feature_dropout",
)
DRAWS = ("randn", "rand", "randn_like", "rand_like", "normal", "normal_", "bernoulli", "bernoulli_", "multinomial",
         "randint", "randint_like", "randperm", "uniform_", "poisson", "rrelu", "gumbel_softmax")  # fmt: skip


# Arguments of a call, their tensors copied.
Question = tuple[tuple[Any, ...], dict[str, Any]]


class Asked:
    """What is kept of one model's calls."""

    def __init__(self, module: Any) -> None:
        self.ref = weakref.ref(module)
        self.has_norms = any(norming(part) for part in module.modules())
        self.question: Question | None = None
        self.target: Any = None
        self.modes: dict[str, bool] = {}  # the mode of each module in the last evaluation
        self.evaluated = False
        self.again: Question | None = None  # the same place of a later pass, where its inputs differ
        self.compared = self.changed = 0
        self.input_change: float | None = None
        self.labels: Any = None
        self.loss: tuple[str, tuple[Any, ...], dict[str, Any]] | None = None
        self.trained: list[tuple[Question, Any]] = []
        self.pairs = 0  # training calls whose rows are those of their outputs and targets
        self.odd = 0
        self.single = False
        self.line: Line | None = None
        self.loader_line: Line | None = None


class Consistent(Vital):
    """Keeps a little of what went in, and asks at the end."""

    kind: ClassVar[str] = "Consistency"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.asked: dict[int, Asked] = {}
        self.last: tuple[Asked, Any, Any, bool] | None = None  # what was called, weak output, inputs, with a graph
        self.batch_refs: tuple[Any, Any] = (None, None)
        self.loader: Any = None
        self.begins = True
        self.updates = -1
        self.evaluations = 0
        self.told: list[dict[str, Any]] = []

    def _of(self, module: Any) -> Asked | None:
        known = self.asked.get(id(module))
        if known is not None and known.ref() is module:
            return known
        if len(self.asked) >= 4 * MODELS and known is None:
            return None
        known = self.asked[id(module)] = Asked(module)
        return known

    # what goes in

    def every_batch(self, loader: Any, batch: Any) -> None:
        """A batch came: its labels may be those of the next call."""
        self.loader = loader
        if loader.batches == loader.first_of_epoch:
            self.begins = True
        if isinstance(batch, list | tuple) and len(batch) == 2:
            self.batch_refs = (_weak(batch[0]), _weak(batch[1]))
        else:
            self.batch_refs = (None, None)

    def called(self, call: Call) -> None:
        """Keep what went into training."""
        if call.grad:
            self._keep(call)

    def every_called(self, call: Call) -> None:
        """The first call of a round or a pass of evaluation is looked at in the first rounds, later when there is room."""
        if call.grad:
            return
        self.last = None
        begins = self.begins or self.updates != self.watch.updates
        self.updates, self.begins = self.watch.updates, False
        if begins and (self.evaluations < GRANTED or self.watch.affords()):
            self.evaluations += 1
            self._keep(call)

    def _keep(self, call: Call) -> None:
        known = self._of(call.module)
        rows = _rows(call)
        if known is None or not rows:
            return
        if rows == 1:
            known.single = True
        if call.grad:
            self._keep_training(known, call, rows)
            return
        known.evaluated = True
        known.modes = {name: part.training for name, part in call.module.named_modules()}
        known.line = known.line or call.line
        target = self._target_of(call, rows)
        self._compare(known, call, target)
        if known.question is None or (known.target is None and target is not None):
            known.question = _copy(call, rows, ROWS)
            known.target = None if target is None else _cut(target, rows, ROWS)
        self.last = (known, _weak(call.output), None, False)

    def _keep_training(self, known: Asked, call: Call, rows: int) -> None:
        self.last = None
        if len(known.trained) >= BATCHES and self.watch.updates % 7:
            return
        kept = _copy(call, rows, rows) if rows <= 512 else None
        self.last = (known, _weak(call.output), kept, True)

    def _target_of(self, call: Call, rows: int) -> Any:
        target = self.batch_refs[1]() if self.batch_refs[1] is not None else None
        if target is None or not target.dim() or target.shape[0] != rows:
            return None
        return target

    def _compare(self, known: Asked, call: Call, target: Any) -> None:
        """The first batch of a validation pass against that of the first pass, where labels say that it is the same one."""
        import torch

        inputs = self.batch_refs[0]() if self.batch_refs[0] is not None else None
        given = _first(call)
        loader = self.loader
        if target is None or inputs is None or loader is None or loader.trains or inputs.shape[0] != given.shape[0]:
            return
        if target.numel() != target.shape[0] or inputs.data_ptr() != given.data_ptr() or known.question is None:
            return
        first = _first_of(known.question)
        cut = _cut(target, target.shape[0], ROWS)
        if known.target is None or first.shape[1:] != given.shape[1:] or not torch.equal(cut, known.target):
            return
        # Labels that are all the same say nothing of whose they are.
        if len(cut) < 8 or bool((cut == cut[0]).all()):
            return
        known.compared += 1
        now = given[: len(first)]
        if torch.equal(now, first):
            return
        known.changed += 1
        known.loader_line = known.loader_line or loader.line
        if known.again is None and now.is_floating_point():
            known.input_change = _rms(now - first) / max(float(first.std()), 1e-12)
            known.again = _copy(call, call_rows(call), ROWS)

    def every_loss(self, call: LossCall) -> None:
        """The loss that judges what was just given."""
        if self.last is None:
            return
        known, output, kept, grad = self.last
        target = call.target
        if grad is not call.grad or not _is(output, call.input) or not hasattr(target, "shape") or not target.dim():
            return
        known.loss = (call.name, (), {k: v for k, v in call.kwargs.items() if k not in ("input", "target")})
        if grad and kept is not None:
            self._pair(known, kept, target, call.input)
        elif not grad and known.question is not None and known.target is None:
            rows = _first_of(known.question).shape[0]
            if target.shape[0] >= rows:
                known.target = target[:rows].clone()
        self.last = None

    def _pair(self, known: Asked, kept: Question, target: Any, given: Any) -> None:
        rows = _first_of(kept).shape[0]
        if not rows == target.shape[0] == given.shape[0]:
            known.odd += 1
            return
        known.pairs += 1
        if len(known.trained) >= BATCHES:
            known.trained.pop(0)
        known.trained.append((kept, target.detach().clone()))

    # questions

    def over(self) -> None:
        """Ask the models that are still there."""
        self.until = time.perf_counter() + SECONDS
        there = [(known, known.ref()) for known in self.asked.values()]
        order = sorted((pair for pair in there if pair[1] is not None), key=lambda pair: not pair[0].evaluated)
        for known, module in order[:MODELS]:
            if known.trained and (known.question is None or _first_of(known.question).shape[0] < 2):
                known.question, known.target = known.trained[-1]
            if known.question is None or time.perf_counter() > self.until:
                continue
            with as_it_was(module) as restore:
                answers = self.watch.observer.guarded("vital consistency", Answers, self, known, module, restore)
                if answers is not None:
                    self.watch.observer.guarded("vital consistency", answers.ask)
                    self.told.append(answers.told)

    def left(self) -> bool:
        """Whether there is time for more."""
        return time.perf_counter() < self.until

    def summary(self) -> dict[str, Any] | None:
        """What they answered."""
        return {"models": self.told} if self.told else None


class Answers:
    """One model's answers, in numbers."""

    def __init__(self, vital: Consistent, known: Asked, module: Any, restore: Any) -> None:
        self.vital, self.known, self.module, self.restore = vital, known, module, restore
        assert known.question is not None
        self.question: Question = known.question
        self.args, self.kwargs = self.question
        self.rows = _first_of(self.question).shape[0]
        self.parts = list(module.named_modules())
        self.told: dict[str, Any] = {
            "model": type(module).__name__,
            "rows": self.rows,
            "single_rows": known.single,
            "own_only": sum(1 for _, part in self.parts if _own_only(part)),
            "compared": known.compared,
            "changed": known.changed,
            "input_change": known.input_change,
            "loader_where": _place(known.loader_line),
            "where": _place(known.line),
        }

    def ask(self) -> None:
        """Everything, as far as time goes; what matters most first."""
        began = time.perf_counter()
        self.mode(_nobody)
        self.chance = Chance()
        with self.chance:
            self.plain = self.answer(self.question)
        if time.perf_counter() - began > PASS_S or self.plain is None:
            return
        self.spread = _spread(self.plain)
        if not self.spread:
            return
        for ask in (
            self.twice,
            self.as_evaluated,
            self.other_inputs,
            self.training,
            self.alone,
            self.names,
        ):
            if self.vital.left():
                self.vital.watch.observer.guarded(f"vital consistency {ask.__name__}", ask)
                self.restore()
                self.mode(_nobody)

    def mode(self, training: Any) -> None:
        """Each module in training mode where `training(name, module)` says so."""
        for name, part in self.parts:
            part.training = bool(training(name, part))

    def answer(self, question: Question) -> Any:
        """The first tensor of floating point that comes out, as float64; None if there is none or it is not finite."""
        import torch

        args, kwargs = question
        output = _tensor(self.module(*args, **kwargs))
        if output is None or not output.dim() or not bool(torch.isfinite(output).all()):
            return None
        return output.detach().double()

    def apart(self, one: Any, other: Any) -> float | None:
        """How different two answers are, in spreads."""
        if one is None or other is None or one.shape != other.shape:
            return None
        return _rms(one - other) / self.spread

    def twice(self) -> None:
        """The same again."""
        self.told["again"] = self.apart(self.answer(self.question), self.plain)
        self.told["chance"] = self.chance.name

    def as_evaluated(self) -> None:
        """In the mode in which the script evaluates."""
        import torch

        self.mode(_everybody)
        self.told["in_training"] = self.apart(self.answer(self.question), self.plain)
        self.restore.buffers()
        modes = self.known.modes
        if not any(modes.values()):
            return
        self.mode(lambda name, _: modes.get(name, False))
        state = _seed()
        one = self.answer(self.question)
        self.restore.buffers()
        torch.rand(1)
        other = self.answer(self.question)
        self.restore.buffers()
        del state
        self.told["as_evaluated"] = self.apart(one, self.plain)
        self.told["as_evaluated_again"] = self.apart(one, other)
        self.told["flips"] = _flips(one, self.plain)
        target = self.known.target
        if target is not None and target.shape[0] == self.rows:
            self.told["loss_eval"] = self.loss_of(self.plain, target)
            self.told["loss_as_evaluated"] = self.loss_of(one, target)
        if self.known.has_norms:
            self.mode(lambda name, part: norming(part) and modes.get(name, False))
            self.told["by_norms"] = self.apart(self.answer(self.question), self.plain)

    def loss_of(self, output: Any, target: Any) -> float | None:
        """The script's own loss of this output."""
        import torch.nn.functional as F

        if self.known.loss is None or output is None or target is None:
            return None
        name, args, kwargs = self.known.loss
        kwargs = {key: value for key, value in kwargs.items() if key not in ("reduction", "weight", "pos_weight")}
        target = target.double() if target.is_floating_point() else target
        try:
            value = float(getattr(F, name)(output, target, *args, **kwargs))
        except (RuntimeError, ValueError, TypeError, IndexError):
            return None
        return value if math.isfinite(value) else None

    def other_inputs(self) -> None:
        """The inputs that came with the same labels in a later pass."""
        if self.known.again is None:
            return
        other = self.answer(self.known.again)
        self.told["answer_change"] = self.apart(other, self.plain)
        self.told["answer_flips"] = _flips(other, self.plain)

    # training batches

    def training(self) -> None:
        """The script's training batches with their own statistics, and with the running ones."""
        if not self.known.has_norms or not self.known.trained:
            return
        norms = [(name, part) for name, part in self.parts if norming(part)]
        heard: dict[str, list[Any]] = {name: [] for name, _ in norms}
        own, running = [], []
        rows = 0
        handles = [part.register_forward_pre_hook(_listener(heard[name])) for name, part in norms]
        try:
            for question, target in self.known.trained:
                if not self.vital.left():
                    break
                self.mode(_norms_only)
                one = self.loss_of(self.answer(question), target)
                self.restore.buffers()
                for parts in heard.values():
                    parts.append(None)
                self.mode(_nobody)
                two = self.loss_of(self.answer(question), target)
                for parts in heard.values():  # only what went in while each batch had its own statistics
                    del parts[parts.index(None) :]
                rows = max(rows, _first_of(question).shape[0])
                if one is not None and two is not None:
                    own.append(one)
                    running.append(two)
        finally:
            for handle in handles:
                handle.remove()
        self.told["norms"] = _norms(norms, heard)
        self.told["mixed"] = _mixed(heard)
        self.told["batches"], self.told["batch_rows"] = len(own), rows
        if own:
            self.told["train_loss"] = sum(own) / len(own)
            self.told["train_loss_eval"] = sum(running) / len(running)
            self.told["worse_batches"] = sum(1 for a, b in zip(own, running, strict=True) if b > a)

    # rows

    def by_rows(self) -> bool:
        """Whether the first axis of inputs, outputs and targets is certainly that of the rows."""
        first = _first_of(self.question)
        return (
            self.plain.shape[0] == self.rows
            and self.known.pairs > 0
            and not self.known.odd
            and not (first.dim() > 1 and first.shape[1] == self.rows)
            and self.rows > 1
        )

    def alone(self) -> None:
        """Single rows by themselves."""
        import torch

        if not self.by_rows() or self.told.get("again"):
            return
        places = (
            [round(place * (self.rows - 1) / (ALONE - 1)) for place in range(ALONE)]
            if self.rows > ALONE
            else range(self.rows)
        )
        given, single = [], []
        for place in places:
            if not self.vital.left():
                return
            answer = self.answer(_rows_of(self.question, self.rows, place))
            if answer is None:
                return
            if answer.shape != self.plain[:1].shape:
                self.told["alone_shape"] = list(answer.shape)
                self.told["row_shape"] = list(self.plain[:1].shape)
                return
            given.append(self.plain[place])
            single.append(answer[0])
        one, other = torch.stack(single), torch.stack(given)
        self.told["alone"] = self.apart(one, other)
        self.told["alone_flips"] = _flips(one, other)

    # classes

    def names(self) -> None:
        """Whether the answers are right under other names."""
        import torch

        target, plain = self.known.target, self.plain
        if (
            target is None
            or plain.dim() != 2
            or target.dim() != 1
            or target.is_floating_point()
            or len(target) != self.rows
        ):
            return
        if target is self.known.trained[-1][1] if self.known.trained else False:
            return
        classes = plain.shape[1]
        if not 3 <= classes <= 200 or int(target.max()) >= classes or int(target.min()) < 0:
            return
        chosen = plain.argmax(1)
        table = torch.bincount(target * classes + chosen, minlength=classes * classes).reshape(classes, classes)
        self.told["classes"] = classes
        self.told["accuracy"] = float((chosen == target).double().mean())
        self.told["permuted_accuracy"] = _best(table.tolist()) / self.rows
        hits = rows = 0
        for question, labels in self.known.trained[-4:]:
            answer = self.answer(question)
            if answer is not None and answer.dim() == 2 and labels.shape == answer.shape[:1]:
                hits += int((answer.argmax(1) == labels).sum())
                rows += len(labels)
        self.told["train_accuracy"] = hits / rows if rows else None


class Chance:
    """Hears which random function runs within."""

    def __init__(self) -> None:
        from torch.overrides import TorchFunctionMode

        found: list[str] = []

        class Listen(TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                name = getattr(func, "__name__", "")
                kwargs = kwargs or {}
                if (name in DROPS and (kwargs.get("training", args[2] if len(args) > 2 else True))) or name in DRAWS:
                    found.append(name)
                return func(*args, **kwargs)

        self.mode, self.found = Listen(), found

    def __enter__(self) -> None:
        self.mode.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.mode.__exit__(*error)

    @property
    def name(self) -> str | None:
        """Drawn values before dropped ones: where a model draws, nobody knows what for."""
        drawn = [name for name in self.found if name not in DROPS]
        return drawn[0] if drawn else self.found[0] if self.found else None


@contextmanager
def as_it_was(module: Any) -> Iterator[Any]:
    """Modes, buffers and every random generator are given back as they were found, bit by bit."""
    import torch

    modes = [(part, part.training) for part in module.modules()]
    kept = [(buffer, buffer.detach().clone()) for buffer in module.buffers() if buffer is not None]
    python, numpy = random.getstate(), sys.modules.get("numpy")
    drawn = numpy.random.get_state() if numpy is not None and hasattr(numpy, "random") else None
    seed = _seed()

    def buffers() -> None:
        for buffer, was in kept:
            buffer.copy_(was)

    def restore() -> None:
        buffers()
        for part, training in modes:
            part.training = training

    restore.buffers = buffers  # type: ignore[attr-defined]
    try:
        yield restore
    finally:
        restore()
        torch.set_rng_state(seed[0])
        if seed[1] is not None:
            torch.cuda.set_rng_state_all(seed[1])
        random.setstate(python)
        if drawn is not None and numpy is not None:
            numpy.random.set_state(drawn)


def _seed() -> tuple[Any, Any]:
    import torch

    on_device = torch.cuda.is_available() and torch.cuda.is_initialized()
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if on_device else None


def _nobody(_name: str, _part: Any) -> bool:
    return False


def _own_only(part: Any) -> bool:
    """Whether it normalises by the batch's statistics in every mode, as its author said."""
    from torch import nn

    return isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None


def _everybody(_name: str, _part: Any) -> bool:
    return True


def _norms_only(_name: str, part: Any) -> bool:
    return norming(part)


def call_rows(call: Call) -> int:
    """Rows of the first tensor that went in."""
    return _rows(call)


def _first(call: Call) -> Any:
    return _first_of((call.args, call.kwargs))


def _first_of(question: Any) -> Any:
    args, kwargs = question
    return next((one for one in (*args, *kwargs.values()) if hasattr(one, "data_ptr")), None)


def _rows(call: Call) -> int:
    first = _first(call)
    return int(first.shape[0]) if first is not None and first.dim() else 0


def _copy(call: Call, rows: int, most: int) -> Question | None:
    """The arguments, at most `most` rows; None when they hold what cannot be copied, or too much."""
    values = (*call.args, *call.kwargs.values())
    if any(not hasattr(one, "data_ptr") and not isinstance(one, int | float | bool | str | None) for one in values):
        return None
    size = sum(one.numel() * one.element_size() for one in values if hasattr(one, "data_ptr"))
    if size > BYTES:
        most = min(most, max(1, int(rows * BYTES / size))) if most < rows else 0
    if not most:
        return None
    args = tuple(_cut(one, rows, most) for one in call.args)
    return (args, {name: _cut(one, rows, most) for name, one in call.kwargs.items()})


def _cut(one: Any, rows: int, most: int) -> Any:
    if not hasattr(one, "data_ptr"):
        return one
    return one[:most].detach().clone() if one.dim() and one.shape[0] == rows else one.detach().clone()


def _rows_of(question: Question, rows: int, place: int) -> Question:
    args, kwargs = question

    def row(one: Any) -> Any:
        return one[place : place + 1] if hasattr(one, "data_ptr") and one.dim() and one.shape[0] == rows else one

    return (tuple(row(one) for one in args), {name: row(one) for name, one in kwargs.items()})


def _tensor(output: Any) -> Any:
    if hasattr(output, "data_ptr"):
        return output if output.is_floating_point() else None
    values = output.values() if isinstance(output, dict) else output if isinstance(output, list | tuple) else ()
    return next((found for found in map(_tensor, values) if found is not None), None)


def _rms(values: Any) -> float:
    return float(values.double().square().mean().sqrt())


def _spread(answer: Any) -> float:
    """The root mean square distance of rows from their mean; 0 where there is none."""
    if answer.shape[0] < 2:
        return 0.0
    spread = _rms(answer - answer.mean(0, keepdim=True))
    # Rows that are alike but for rounding answer nothing: 32-bit sums in another order differ by a millionth of their size.
    return spread if math.isfinite(spread) and spread > max(1e-12, ALIKE * _rms(answer)) else 0.0


def _flips(one: Any, other: Any) -> float | None:
    """The share of rows whose largest output is another one."""
    if one is None or other is None or one.shape != other.shape or one.dim() != 2 or one.shape[1] < 2:
        return None
    return float((one.argmax(1) != other.argmax(1)).double().mean())


def _weak(value: Any) -> Any:
    try:
        return weakref.ref(value) if hasattr(value, "data_ptr") else None
    except TypeError:
        return None


def _is(ref: Any, tensor: Any) -> bool:
    output = ref() if ref is not None else None
    if output is None or not hasattr(tensor, "data_ptr"):
        return False
    return output is tensor or output.data_ptr() == tensor.data_ptr()


def _listener(into: list[Any]) -> Any:
    def hear(_module: Any, args: tuple[Any, ...]) -> None:
        given = args[0].detach().double()
        if given.dim() > 2:
            given = given.flatten(2)
            into.append((given.mean(2), given.var(2, unbiased=False)))
        else:
            into.append((given, given.new_zeros(given.shape)))

    return hear


def _norms(norms: list[tuple[str, Any]], heard: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Each layer's running statistics beside those of the kept batches."""
    import torch

    told = []
    for name, part in norms[:TOLD]:
        batches = heard[name]
        if not batches:
            continue
        means = torch.cat([mean for mean, _ in batches])
        within = torch.stack([(mean.var(0, unbiased=False) + var.mean(0)) for mean, var in batches]).mean(0)
        spread = within.clamp_min(1e-12).sqrt()
        ratio = part.running_var.double().clamp_min(1e-12) / within.clamp_min(1e-12)
        told.append({
            "name": name,
            "momentum": part.momentum,
            "batches": int(part.num_batches_tracked) if part.num_batches_tracked is not None else 0,
            "mean_distance": float(((part.running_mean.double() - means.mean(0)).abs() / spread).median()),
            "variance_ratio": float(ratio.maximum(1 / ratio).median()),
        })  # fmt: skip
    return told


def _mixed(heard: dict[str, list[Any]]) -> float | None:
    """By how much the batches' means of the first layer differ more than rows drawn at random would make them."""
    import torch

    batches = next(iter(heard.values()), [])
    if len(batches) < 3:
        return None
    rows = min(len(mean) for mean, _ in batches)
    if rows < 4:
        return None
    means = torch.stack([mean.mean(0) for mean, _ in batches])
    within = torch.stack([mean.var(0) for mean, _ in batches]).mean(0)
    between = means.var(0) * rows
    ratio = between[within > 1e-12] / within[within > 1e-12]
    return float(ratio.median()) if len(ratio) else None


def _best(table: list[list[int]]) -> int:
    """Most right rows under any exchange of names, found greedily."""
    cells = sorted(((count, i, j) for i, row in enumerate(table) for j, count in enumerate(row) if count), reverse=True)
    rows: set[int] = set()
    columns: set[int] = set()
    right = 0
    for count, i, j in cells:
        if i not in rows and j not in columns:
            rows.add(i)
            columns.add(j)
            right += count
    return right


def _place(line: Line | None) -> dict[str, Any] | None:
    return {"file": line.file, "line": line.line} if line is not None and line.file else None


VITAL = Consistent
