"""How well the model does, while it trains and when it is evaluated, whatever the scale of its loss."""

import math
from collections import deque
from functools import partial
from typing import Any, ClassVar
from weakref import ref

from ._base import SPARSE, LossCall, Vital, Watch

CLASSES = ("cross_entropy", "nll_loss")
BITS = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
NUMBERS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
# Training batches at either end, and evaluations, that are kept.
BATCHES, ROUNDS = 24, 200
WORST = -1.0  # an R² below this says no more than that the model is worse than nothing


class Tally:
    """Sums over the batches of one evaluation. `right` counts hits; the others make an R²."""

    __slots__ = ("error", "loss", "losses", "measure", "right", "rows", "square", "total")

    def __init__(self) -> None:
        self.measure = "loss"
        self.rows = self.losses = 0
        self.right = self.error = self.square = self.total = self.loss = 0.0

    @property
    def score(self) -> float | None:
        """Accuracy or R²; None when nothing was scored."""
        if not self.rows:
            return None
        if self.measure == "accuracy":
            return self.right / self.rows
        spread = self.square - self.total * self.total / self.rows
        return max(WORST, 1 - self.error / spread) if spread > 0 and math.isfinite(self.error) else WORST


class Scored(Vital):
    """Scores losses' inputs against their targets, and hears `argmax(...) == labels`."""

    kind: ClassVar[str] = "Scores"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.first: list[float] = []
        self.latest: deque[tuple[int, float]] = deque(maxlen=BATCHES)  # after which update, and how well
        self.rounds: list[dict[str, Any]] = []
        self.tally = Tally()
        self.measure = "loss"
        self.chosen: list[Any] = []  # weak references to what argmax gave last
        self.heard = False  # hits were counted by the script itself, outside of any loss
        self._listen()

    def _listen(self) -> None:
        import torch

        patches = self.watch.observer.replacements
        for owner in (torch, torch.Tensor):
            patches.replace("vital argmax", owner, "argmax", self._argmax)
        patches.replace("vital max", torch.Tensor, "max", self._argmax)
        for name in ("eq", "__eq__"):
            patches.replace("vital eq", torch.Tensor, name, partial(self._equal))

    def _argmax(self, original: Any) -> Any:
        is_grad_enabled, is_compiling, chosen = self._asks()

        def argmax(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if not is_grad_enabled() and not is_compiling():
                index = found if not isinstance(found, tuple) else found[1]
                chosen[:] = [*chosen[-3:], ref(index)]
            return found

        return argmax

    def _equal(self, original: Any) -> Any:
        is_grad_enabled, is_compiling, chosen = self._asks()

        def eq(self_: Any, other: Any) -> Any:
            found = original(self_, other)
            if chosen and not is_grad_enabled() and not is_compiling():
                mine = {id(one) for one in (each() for each in chosen) if one is not None}
                if id(self_) in mine or id(other) in mine:
                    self.watch.observer.guarded("vital scores", self._hits, found)
            return found

        return eq

    def _asks(self) -> tuple[Any, Any, list[Any]]:
        seen = self.watch.observer
        return seen.is_grad_enabled, seen.is_compiling, self.chosen

    def _hits(self, found: Any) -> None:
        if getattr(found, "dim", lambda: 0)() == 0 or self.watch.busy:
            return
        if not self.heard and self.tally.measure != "accuracy":
            self.tally.rows, self.tally.right = 0, 0.0
        self.heard = True
        self.tally.measure = self.measure = "accuracy"
        self.tally.rows += found.numel()
        self.tally.right += float(found.detach().sum())

    def every_loss(self, call: LossCall) -> None:
        """Evaluations always, training batches on looks."""
        if call.grad:
            if self.watch.looking or self.watch.updates % SPARSE == 0:
                tally = Tally()
                _score(tally, call)
                if tally.score is not None:
                    self._keep(tally)
            return
        _score(self.tally, call, hits=not self.heard)
        value = float(call.result.detach().mean())
        if math.isfinite(value):
            self.tally.loss += value
            self.tally.losses += 1

    def _keep(self, tally: Tally) -> None:
        self.measure = tally.measure if not self.heard else self.measure
        score = tally.score
        assert score is not None
        if len(self.first) < BATCHES // 4:
            self.first.append(score)
        self.latest.append((self.watch.updates, score))

    def every_update(self, number: int) -> None:
        """What was scored since the last update was one evaluation."""
        self._close(number - 1)

    def _close(self, at: int) -> None:
        tally = self.tally
        if not tally.rows and not tally.losses:
            return
        self.tally = Tally()
        if not self.heard and tally.rows:
            self.measure = tally.measure
        loss = tally.loss / tally.losses if tally.losses else None
        self.rounds.append({"at": at, "score": tally.score, "loss": loss, "rows": tally.rows})
        if len(self.rounds) > ROUNDS:
            del self.rounds[ROUNDS // 2]

    def over(self) -> None:
        """The last evaluation comes after the last update."""
        self._close(self.watch.updates)

    def summary(self) -> dict[str, Any] | None:
        """Means of both ends, and the evaluations."""
        if not self.latest and not self.rounds:
            return None
        # What was last seen long before the end says nothing of it.
        latest = [score for at, score in self.latest if 2 * at >= self.watch.updates]
        return {
            "measure": self.measure,
            "train_first": sum(self.first) / len(self.first) if self.first else None,
            "train_last": sum(latest) / len(latest) if latest else None,
            "rounds": self.rounds,
        }


def _score(tally: Tally, call: LossCall, *, hits: bool = True) -> None:
    import torch

    output, target = call.input, call.target
    if not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor) or not output.numel():
        return
    output = output.detach()
    if call.name in CLASSES and output.dim() >= 2 and hits:
        _classes(tally, call, output, target.detach())
    elif call.name in BITS and hits and output.shape == target.shape:
        tally.measure = "accuracy"
        tally.right += float(((output > (0.0 if "logits" in call.name else 0.5)) == (target > 0.5)).sum())
        tally.rows += target.numel()
    elif call.name in NUMBERS and output.numel() == target.numel():
        wanted = target.detach().reshape(-1).double()
        tally.measure = "r2"
        tally.error += float((output.reshape(-1).double() - wanted).square().sum())
        tally.square += float(wanted.square().sum())
        tally.total += float(wanted.sum())
        tally.rows += wanted.numel()


def _classes(tally: Tally, call: LossCall, output: Any, target: Any) -> None:
    if target.is_floating_point():  # shares of classes: smoothed, mixed, or a teacher's
        target = target.argmax(1)
    ignored = call.kwargs.get("ignore_index", -100)
    counted = target != ignored
    tally.measure = "accuracy"
    tally.right += float(((output.argmax(1) == target) & counted).sum())
    tally.rows += int(counted.sum())


VITAL = Scored
