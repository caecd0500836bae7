"""In which mode modules were called, for training and for evaluation, and which running statistics moved meanwhile."""

import sys
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from ..frames import Line, user_line
from ._base import Call, LossCall, Vital, Watch

# More different top-level modules than this are not one training; the first ones are.
MOST = 24
# Rounds in which a module that is only evaluated is looked at.
ROUNDS = 64
# Layers that are told of one module.
TOLD = 6
# Calls without a backward pass that wait to learn what they were for.
WAITING = 4096


class Seen:
    """What is known of one module that was called at top level. It holds no reference to the module."""

    def __init__(self, module: Any) -> None:
        self.ref = weakref.ref(module)
        self.model = type(module).__name__
        self.drops = [part for part in module.modules() if dropping(part)]
        self.named_norms = [(name, part) for name, part in module.named_modules() if norming(part)]
        self.norms = [part for _, part in self.named_norms]
        self.sensitive = [weakref.proxy(part) for part in (*self.drops, *self.norms)]
        self.dropout_p = max((_p(part) for part in self.drops), default=0.0)
        self.dropouts, self.drops = len(self.drops), [weakref.proxy(part) for part in self.drops]
        self.named_norms = [(name or self.model, weakref.proxy(part)) for name, part in self.named_norms]
        self.norms = [part for _, part in self.named_norms]
        self.parameters = sum(1 for _ in module.parameters())
        self.spectral = _spectral(module)
        self.spectral_gain: float | None = None
        self.spectral_layer = ""
        self.trained_since = False
        self.frozen = 0
        self.training = self.in_eval = 0
        self.began_training = self.evaluated_before = False
        self.stuck_from: int | None = None
        self.evaluations = self.in_training = self.sampled = self.rounds = self.rounds_in_training = 0
        self.last_round = self.last_training_round = -1
        self.input: Callable[[], Any] = _nothing  # weak reference to what went in last
        self.run = self.repeats = 0
        self.scored = self.judged = self.moved = False
        self.seen_batches: int | None = None
        self.asleep: dict[int, tuple[Any, Any, int]] = {}  # frozen layers: statistics when they froze, calls since
        self.training_line: Line | None = None
        self.evaluation_line: Line | None = None
        self.first_weight: float | None = None
        self.weight_moves = 0
        self.bare = False
        self.output: Any = None  # weak reference to what it gave last, and its shape
        self.shape: tuple[int, ...] | None = None

    def awake(self) -> bool:
        """Whether anything in it that behaves otherwise in training is in training mode."""
        return bool(self.sensitive) and any(part.training for part in self.sensitive)


def dropping(part: Any) -> bool:
    """Whether this module drops values at random in training mode."""
    from torch import nn

    if isinstance(part, nn.modules.dropout._DropoutNd | nn.RNNBase | nn.MultiheadAttention):
        return _p(part) > 0 and not (isinstance(part, nn.RNNBase) and part.num_layers < 2)
    return False


def _p(part: Any) -> float:
    value = getattr(part, "p", None)
    return float(value if isinstance(value, int | float) else getattr(part, "dropout", 0.0) or 0.0)


def _spectral(module: Any) -> list[tuple[str, Any, Any]]:
    """Layers that are divided by an estimate of their norm which only training brings up to date, and the hook that does it."""
    from torch.nn.utils.spectral_norm import SpectralNorm

    return [
        (name, weakref.proxy(part), hook)
        for name, part in module.named_modules()
        for hook in part._forward_pre_hooks.values()
        if isinstance(hook, SpectralNorm)
    ][:TOLD]


def _spectral_gain(layers: list[tuple[str, Any, Any]]) -> tuple[float, str]:
    """How many times larger the true norm of a layer is than the one that it is divided by, in the worst layer."""
    import torch

    found = []
    for name, part, hook in layers:
        weight = hook.reshape_weight_to_matrix(getattr(part, f"{hook.name}_orig")).detach().double()
        u, v = (getattr(part, f"{hook.name}_{side}").double() for side in "uv")
        used = abs(float(u @ weight @ v))
        found.append((float(torch.linalg.matrix_norm(weight, 2)) / max(used, 1e-12), name))
    return max(found)


def norming(part: Any) -> bool:
    """Whether it normalises by a batch's statistics in training, and by running ones in evaluation."""
    from torch import nn

    return isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is not None


class Modes(Vital):
    """Notes the mode of each call; a call of a module with sixty norm layers costs some microseconds."""

    kind: ClassVar[str] = "ModeUse"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.seen: dict[int, Seen] = {}
        self.waiting: list[tuple[Seen, bool, bool]] = []
        self.usual: int | None = None
        self.last: Seen | None = None
        self.axis: tuple[int, tuple[int, ...], Line | None] = (0, (), None)
        self.crossed: tuple[int, tuple[tuple[int, ...], ...], Line | None] = (0, (), None)
        self.chosen: Any = None
        self.answer: Any = None  # weak reference to what an evaluation gave last
        self.hits = {"compared": 0, "equal": 0}
        self.hits_line: Line | None = None
        self.ranked = False  # the last training loss has its own rows as targets: who belongs to whom
        self._listen()

    def _listen(self) -> None:
        import torch

        patches = self.watch.observer.replacements
        for name in ("argmax", "max"):
            for owner in (torch, torch.Tensor):
                patches.replace(f"modes {name}", owner, name, self._choosing)
        for name in ("eq", "__eq__"):
            patches.replace(f"modes {name}", torch.Tensor, name, self._comparing)

    def _choosing(self, original: Any) -> Any:
        enabled, compiling = self.watch.observer.is_grad_enabled, self.watch.observer.is_compiling

        def choose(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if not compiling() and not enabled() and not self.watch.busy and (len(args) > 1 or kwargs):
                self.watch.observer.guarded("vital modes", self._chose, args, kwargs, found, sys._getframe(1))
            return found

        return choose

    def _comparing(self, original: Any) -> Any:
        compiling = self.watch.observer.is_compiling

        def eq(self_: Any, other: Any) -> Any:
            found = original(self_, other)
            chosen, answer = self.chosen, self.answer
            if answer is not None and not compiling() and not self.watch.busy and answer() is self_:
                self.watch.observer.guarded("vital modes", self._hit, self_, other, found, sys._getframe(1))
            if chosen is not None and not compiling() and not self.watch.busy:
                chosen = chosen()
                if chosen is not None and (chosen is self_ or chosen is other):
                    self.watch.observer.guarded("vital modes", self._compared, self_, other, found, sys._getframe(1))
            return found

        return eq

    def _chose(self, args: tuple[Any, ...], kwargs: dict[str, Any], found: Any, frame: Any) -> None:
        known, given = self.last, args[0]
        axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if known is None or not isinstance(axis, int):
            return
        self.chosen = _weak(found[1] if isinstance(found, tuple) else found)
        known.scored = True
        of_it = _same(known.output, given) or (known.shape is not None and known.shape == tuple(given.shape))
        if given.dim() == 2 and axis in (0, -2) and of_it and known.judged and not self.ranked:
            count, shape, line = self.axis
            self.axis = (count + 1, shape or tuple(given.shape), line or user_line(frame))

    def _compared(self, left: Any, right: Any, found: Any, frame: Any) -> None:
        if not hasattr(right, "numel") or found.numel() <= max(left.numel(), right.numel()):
            return
        count, shapes, line = self.crossed
        self.crossed = (count + 1, shapes or (tuple(left.shape), tuple(right.shape)), line or user_line(frame))

    def _hit(self, answer: Any, truth: Any, found: Any, frame: Any) -> None:
        """A model's own numbers are asked whether they are exactly the true ones, which are no whole numbers."""
        same = hasattr(truth, "is_floating_point") and truth.is_floating_point() and truth.shape == answer.shape
        if not same or not answer.is_floating_point() or truth is answer or bool((truth == truth.round()).all()):
            return
        self.hits["compared"] += found.numel()
        self.hits["equal"] += int(found.sum())
        self.hits_line = self.hits_line or user_line(frame)

    def _of(self, module: Any) -> Seen | None:
        known = self.seen.get(id(module))
        if known is not None and known.ref() is module:
            return known
        if len(self.seen) >= MOST and known is None:
            return None
        known = self.seen[id(module)] = Seen(module)
        return known

    # calls

    def every_called(self, call: Call) -> None:
        """A module was called: in which mode?"""
        known = self._of(call.module)
        if known is None:
            return
        top, awake = call.module.training, known.awake()
        self.last = known
        if call.grad:
            if known.training_line is None:
                known.training_line = call.line
            if not known.judged:  # its loss is still to be met
                known.output = _weak(call.output)
            if len(self.waiting) < WAITING:
                self.waiting.append((known, top, awake))
            return
        self.answer = known.output = _weak(call.output)
        known.shape = getattr(call.output, "shape", None)
        self._evaluated(known, top, awake, call)

    def _evaluated(self, known: Seen, top: bool, awake: bool, call: Call) -> None:
        updates = self.watch.updates
        if updates != known.last_round:
            known.last_round = updates
            known.rounds += 1
            known.run = 0
            if not known.training and known.norms and not top and known.rounds <= ROUNDS:
                self._bare(known, call.module)
            if known.spectral and not known.rounds & (known.rounds - 1):
                known.spectral_gain, known.spectral_layer = _spectral_gain(known.spectral)
                known.trained_since = False
        known.evaluations += 1
        if known.evaluation_line is None:
            known.evaluation_line = call.line
        first = call.args[0] if call.args else None
        known.run = known.run + 1 if first is not None and known.input() is first else 1
        known.repeats = max(known.repeats, known.run)
        known.input = _weak(first) or _nothing
        if top and (awake or not known.sensitive):
            known.in_training += 1
            if updates != known.last_training_round:
                known.last_training_round = updates
                known.rounds_in_training += 1
            known.moved = known.moved or any(part.training for part in known.norms)
        elif awake:
            known.sampled += 1

    def every_backward(self, _loss: Any) -> None:
        """What was called since the last backward pass was for training; what is more than usual was looked at only."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return
        self.usual = len(waiting) if self.usual is None else min(self.usual, len(waiting))
        # What comes before the last usual ones may be an evaluation that forgot no_grad, or a step with more calls: nobody
        # knows which, so it counts for neither.
        for known, top, awake in waiting[-self.usual :]:
            self._trained(known, top, awake)

    def _trained(self, known: Seen, top: bool, awake: bool) -> None:
        known.training += 1
        known.trained_since = True
        if top:
            known.began_training = True
            known.stuck_from = None
        else:
            known.in_eval += 1
            if known.stuck_from is None and not awake:
                known.stuck_from = self.watch.updates
                known.evaluated_before = known.rounds > 0
        if known.norms and awake:
            self._drift(known)

    def _drift(self, known: Seen) -> None:
        """Layers whose own weights are frozen, and which still learn statistics."""
        for place, part in enumerate(known.norms):
            frozen = part.training and part.weight is not None and not part.weight.requires_grad
            if not frozen:
                known.asleep.pop(place, None)
            elif place in known.asleep:
                mean, var, calls = known.asleep[place]
                known.asleep[place] = (mean, var, calls + 1)
            elif len(known.asleep) < 64:
                known.asleep[place] = (part.running_mean.clone(), part.running_var.clone(), 0)

    def _bare(self, known: Seen, module: Any) -> None:
        """Whether a module that is only evaluated gets weights and no statistics."""
        first = float(next(iter(module.parameters())).detach().double().sum())
        if known.first_weight is not None and first != known.first_weight:
            known.weight_moves += 1
        known.first_weight = first
        known.bare = all(_as_made(part) for part in known.norms[:2])

    def every_loss(self, call: LossCall) -> None:
        """A loss of what a module gave just now is a score, or what training goes by."""
        if self.last is None:
            return
        if call.grad:
            if not self.last.judged and _same(self.last.output, call.input):
                self.last.judged = True
                self.ranked = _counts_up(call.target)
        else:
            self.last.scored = True

    # what is told

    def over(self) -> None:
        """How far frozen statistics have come."""
        for known in self.seen.values():
            module = known.ref()
            if module is not None:
                known.frozen = sum(1 for one in module.parameters() if not one.requires_grad)
        self.told = [self._model(known) for known in self.seen.values() if known.training or known.evaluations]
        self.copies = self._copies()

    def summary(self) -> dict[str, Any] | None:
        """All modules that were called."""
        if not self.seen:
            return None
        if not hasattr(self, "told"):
            self.watch.observer.guarded("vital modes", self.over)
        return {
            "updates": self.watch.updates,
            "models": getattr(self, "told", []),
            "copies": getattr(self, "copies", []),
            "wrong_axis": self.axis[0],
            "axis_shape": list(self.axis[1]),
            "axis_where": _place(self.axis[2]),
            "hits_compared": self.hits["compared"],
            "hits_equal": self.hits["equal"],
            "hits_where": _place(self.hits_line),
            "crossed": self.crossed[0],
            "crossed_shapes": [list(shape) for shape in self.crossed[1]],
            "crossed_where": _place(self.crossed[2]),
        }

    def _copies(self) -> list[dict[str, Any]]:
        trained = [known for known in self.seen.values() if known.training and known.norms and known.ref() is not None]
        told = []
        for known in self.seen.values():
            twins = [one for one in trained if one.model == known.model and len(one.norms) == len(known.norms)]
            if known.training or not known.bare or known.weight_moves < 1 or not twins:
                continue
            told.append({
                "model": known.model,
                "norms": len(known.norms),
                "rounds": known.rounds,
                "moved": known.weight_moves,
                "trained_distance": max(_from_new(part) for part in twins[0].norms),
                "where": _place(known.evaluation_line),
            })  # fmt: skip
        return told

    def _model(self, known: Seen) -> dict[str, Any]:
        return {
            "model": known.model,
            "parameters": known.parameters,
            "dropouts": known.dropouts,
            "dropout_p": known.dropout_p,
            "norms": len(known.norms),
            "training_calls": known.training,
            "training_in_eval": known.in_eval,
            "began_training": known.began_training,
            "stuck_from": known.stuck_from,
            "evaluated_before": known.evaluated_before,
            "evaluations": known.evaluations,
            "in_training": known.in_training,
            "sampled": known.sampled,
            "rounds": known.rounds,
            "rounds_in_training": known.rounds_in_training,
            "repeats": known.repeats,
            "scored": known.scored,
            "judged": known.judged,
            "statistics_moved": known.moved,
            "drifts": self._drifts(known) if known.ref() is not None else [],
            "frozen_parameters": known.frozen,
            "spectral_gain": None if known.trained_since else known.spectral_gain,
            "spectral_layer": known.spectral_layer,
            "training_where": _place(known.training_line),
            "evaluation_where": _place(known.evaluation_line),
        }

    def _drifts(self, known: Seen) -> list[dict[str, Any]]:
        told = []
        for place, (mean, var, calls) in known.asleep.items():
            name, part = known.named_norms[place]
            spread = var.clamp_min(1e-12).sqrt()
            ratio = part.running_var.clamp_min(1e-12) / var.clamp_min(1e-12)
            told.append({
                "name": name,
                "calls": calls,
                "mean_moved": float(((part.running_mean - mean).abs() / spread).median()),
                "variance_ratio": float(ratio.maximum(1 / ratio).median()),
            })  # fmt: skip
        return sorted(told, key=lambda one: -one["mean_moved"])[:TOLD]


def _as_made(part: Any) -> bool:
    return not bool(part.running_mean.any()) and bool((part.running_var == 1).all())


def _from_new(part: Any) -> float:
    return float(part.running_mean.abs().max())


def _nothing() -> Any:
    return None


def _weak(output: Any) -> Any:
    try:
        return weakref.ref(output)
    except TypeError:
        return None


def _same(ref: Any, tensor: Any) -> bool:
    """Whether the tensor is what the reference stood for, or a view of it."""
    output = ref() if ref is not None else None
    if output is None or not hasattr(output, "data_ptr") or not hasattr(tensor, "data_ptr"):
        return False
    return output is tensor or output.data_ptr() == tensor.data_ptr()


def _counts_up(target: Any) -> bool:
    import torch

    rows = getattr(target, "shape", None)
    if rows is None or target.dim() != 1 or target.is_floating_point():
        return False
    return torch.equal(target, torch.arange(len(target), device=target.device, dtype=target.dtype))


def _place(line: Line | None) -> dict[str, Any] | None:
    return {"file": line.file, "line": line.line} if line is not None and line.file else None


VITAL = Modes
