"""How the loss goes: in training, by optimizer, with the learning rate beside it; and in each round of an evaluation."""

import math
from typing import Any, ClassVar

from ..frames import Line, user_line
from ._base import LossCall, Vital, Watch

MOST_BINS = 128
MOST_ROUNDS = 128
MOST_EVALUATIONS = 8
MOST_COURSES = 8
# Losses on a device come two updates late, or some more where nothing waits for it.
MOST_AWAITED = 64
CLASSES = ("cross_entropy", "nll_loss")
BITS = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


class Bins:
    """Losses in bins of equal width, which doubles when there are too many. Updates that nobody listened to leave holes."""

    def __init__(self) -> None:
        self.width = 1
        self.bins: list[list[float]] = []  # at, count, sum, sum of squares, rate
        self.updates = 0

    def add(self, at: int, loss: float | None, rate: float) -> None:
        """Update number `at`; None where its loss is not known or not finite."""
        self.updates = max(self.updates, at + 1)
        while at >= MOST_BINS * self.width:
            self._halve()
        start = at - at % self.width
        if not self.bins or self.bins[-1][0] != start:
            self.bins.append([start, 0, 0.0, 0.0, rate])
        if loss is not None:
            last = self.bins[-1]
            last[1] += 1
            last[2] += loss
            last[3] += loss * loss

    def _halve(self) -> None:
        self.width *= 2
        wider: list[list[float]] = []
        for at, count, total, squares, rate in self.bins:
            start = at - at % self.width
            if wider and wider[-1][0] == start:
                wider[-1][1] += count
                wider[-1][2] += total
                wider[-1][3] += squares
            else:
                wider.append([start, count, total, squares, rate])
        self.bins = wider

    def summary(self) -> list[dict[str, Any]]:
        """Means and spreads; without the bins that hold no loss."""
        return [_bin(*each) for each in self.bins if each[1] and math.isfinite(each[2]) and math.isfinite(each[3])]


def _bin(at: float, count: float, total: float, squares: float, rate: float) -> dict[str, Any]:
    mean = total / count
    spread = math.sqrt(max(0.0, squares / count - mean * mean))
    return {"at": int(at), "count": int(count), "loss": mean, "spread": spread, "rate": rate}


class Targets:
    """What a constant answer could reach, from the targets of the batches that were looked at."""

    def __init__(self) -> None:
        self.name = ""
        self.classes: int | None = None
        self.counts: Any = None
        self.number = 0
        self.total = self.squares = 0.0
        self.summed = False

    def look(self, call: LossCall) -> None:
        """The targets of one training batch."""
        import torch

        output, target = call.input, call.target
        if (
            not isinstance(output, torch.Tensor)
            or not isinstance(target, torch.Tensor)
            or self.name not in ("", call.name)
        ):
            return
        self.name = call.name
        self.summed = (
            self.summed or call.kwargs.get("reduction", "mean") != "mean" or bool(call.kwargs.get("label_smoothing"))
        )
        target = target.detach()
        if call.name in CLASSES and not target.is_floating_point() and output.dim() >= 2:
            self.classes = output.shape[1]
            kept = target[(target >= 0) & (target < self.classes)].reshape(-1)
            counts = torch.bincount(kept, minlength=self.classes).double().cpu()
            self.counts = counts if self.counts is None else self.counts + counts
        elif call.name in BITS or (call.name == "mse_loss" and output.shape == target.shape):
            wide = target.double()
            self.number += target.numel()
            self.total += float(wide.sum())
            self.squares += float(wide.square().sum())

    @property
    def chance(self) -> float | None:
        """The loss of the best constant; None where nobody knows it."""
        if self.summed:
            return None
        if self.counts is not None:
            shares = self.counts / self.counts.sum().clamp(min=1)
            return float(-(shares[shares > 0] * shares[shares > 0].log()).sum())
        if self.number < 2:
            return None
        mean = self.total / self.number
        if self.name == "mse_loss":
            return max(0.0, self.squares / self.number - mean * mean)
        if 0 < mean < 1:
            return -mean * math.log(mean) - (1 - mean) * math.log(1 - mean)
        return None


class Kept:
    """The course of one optimizer."""

    def __init__(self, number: int, optimizer: Any, line: Line | None) -> None:
        self.number = number
        self.kind = type(optimizer).__name__
        self.identity = id(optimizer)
        self.line = line
        self.bins = Bins()
        self.targets = Targets()
        self.first: float | None = None
        self.broke: int | None = None
        self.nonfinite = 0
        self.last_finite = True
        self.summed: dict[int, int] = {}

    def add(self, at: int, loss: float | None, rate: float, passes: int) -> None:
        """Step number `at` was made."""
        self.summed[passes] = self.summed.get(passes, 0) + 1
        if loss is not None:
            self.last_finite = math.isfinite(loss)
            if not self.last_finite:
                self.nonfinite += 1
                if self.broke is None:
                    self.broke = at
                loss = None
            elif self.first is None:
                self.first = loss
        self.bins.add(at, loss, rate)

    def summary(self, passes: float | None) -> dict[str, Any]:
        """A course."""
        line = self.line
        return {
            "optimizer": self.number,
            "kind": self.kind,
            "updates": self.bins.updates,
            "bins": self.bins.summary(),
            "first": self.first,
            "chance": self.targets.chance,
            "classes": self.targets.classes,
            "loss": self.targets.name,
            "broke": self.broke,
            "nonfinite": self.nonfinite,
            "last_finite": self.last_finite,
            "summed": max(self.summed, key=self.summed.__getitem__, default=1),
            "passes": passes,
            "where": {"file": line.file, "line": line.line} if line is not None and line.file else None,
        }


class Rounds:
    """The rounds of one evaluation."""

    def __init__(self, line: Line, name: str, trains: bool) -> None:
        self.line, self.name, self.trains = line, name, trains
        self.rounds: list[dict[str, Any]] = []
        self.at = -1
        self.loss = self.hits = 0.0
        self.count = self.scored = 0

    def add(self, at: int, loss: float, samples: int, hits: float | None) -> None:
        """One batch of a round; another update than the last one's begins a new round."""
        if at != self.at:
            self.close()
            self.at = at
        self.loss += loss * samples
        self.count += samples
        if hits is not None:
            self.hits += hits
            self.scored += samples

    def close(self) -> None:
        """The round is over."""
        if not self.count:
            return
        loss, accuracy = self.loss / self.count, self.hits / self.scored if self.scored else None
        if math.isfinite(loss):
            self.rounds.append({"update": self.at, "loss": loss, "accuracy": accuracy, "samples": self.count})
        if len(self.rounds) > MOST_ROUNDS:
            # Every second one of the older half goes; the ends stay.
            half = len(self.rounds) // 2
            self.rounds[1:half] = self.rounds[1:half:2]
        self.loss = self.hits = 0.0
        self.count = self.scored = 0


class LossCurve(Vital):
    """Losses of the updates that are listened to, and of every evaluation that calls a loss of torch."""

    kind: ClassVar[str] = "LossCurve"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.courses: list[Kept] = []
        self.evaluations: dict[tuple[Any, ...], Rounds] = {}
        self.passes = 0
        self.latest: LossCall | None = None
        self.line: Line | None = None
        self.targets = Targets()
        self.awaited: dict[int, tuple[Kept, int, float, int]] = {}  # by update: steps whose loss is still on a device
        self.arrived: dict[int, float] = {}  # of those, what came so far

    # training

    def every_backward(self, loss: Any) -> None:
        """Micro-batches of one step are counted."""
        self.passes += 1

    def backward(self, loss: Any) -> None:
        """Where it is called."""
        if self.line is None:
            import sys

            self.line = user_line(sys._getframe(1))

    def loss(self, call: LossCall) -> None:
        """A training loss, whose targets are looked at when its optimizer steps."""
        if call.grad:
            self.targets.look(call)

    def every_stepped(self, optimizer: Any) -> None:
        """An update has its loss."""
        passes, self.passes = self.passes, 0
        kept = self._course(optimizer)
        if kept is not None:
            rate = float(optimizer.param_groups[0]["lr"])
            step = kept, self._steps(optimizer) - 1, rate, max(1, passes)
            if self.watch.observer.awaits:
                self._await(step)
            else:
                self._keep(step, self.watch.observer._loss)

    def _await(self, step: tuple[Kept, int, float, int]) -> None:
        """Its loss is told some updates late; what is not told by then has none."""
        self.awaited[self.watch.updates] = step
        while len(self.awaited) > MOST_AWAITED:
            oldest = next(iter(self.awaited))
            self._keep(self.awaited.pop(oldest), self.arrived.pop(oldest, None))

    def told_late(self, at: int, loss: float) -> None:
        """A loss has come from a device: that of the update after `at` others, or of one of its micro-batches."""
        self._arrived_before(at)
        if at in self.awaited:
            self.arrived[at] = self.arrived.get(at, 0.0) + loss

    def _arrived_before(self, at: float) -> None:
        # They come in order: what comes for a later update says that an earlier one is complete.
        for earlier in [update for update in self.arrived if update < at]:
            self._keep(self.awaited.pop(earlier), self.arrived.pop(earlier))

    def _keep(self, step: tuple[Kept, int, float, int], loss: float | None) -> None:
        kept, at, rate, passes = step
        kept.add(at, loss, rate, passes)

    def _steps(self, optimizer: Any) -> int:
        """Steps that it made, those among them that nobody listened to."""
        return int(self.watch.observer.facts.optimizer(optimizer).steps)

    def stepped(self, optimizer: Any) -> None:
        """The targets since the last step are this optimizer's."""
        kept = self._course(optimizer)
        if kept is not None:
            kept.targets = self.targets if not kept.targets.name else kept.targets
            if kept.targets is not self.targets and len(self.courses) == 1:
                return
            if len(self.courses) > 1:
                self.targets = Targets()

    def _course(self, optimizer: Any) -> Kept | None:
        for kept in reversed(self.courses):
            if kept.identity == id(optimizer):
                return kept
        if len(self.courses) >= MOST_COURSES:
            return None
        kept = Kept(len(self.courses), optimizer, self.line)
        self.courses.append(kept)
        if len(self.courses) > 1 and self.courses[0].targets is self.targets:
            self.targets = Targets()
        return kept

    # evaluation

    def every_loss(self, call: LossCall) -> None:
        """A loss without gradients belongs to an evaluation's round."""
        if call.grad or not self.watch.updates:
            return
        value = call.result
        if getattr(value, "numel", lambda: 0)() != 1:
            return
        rounds = self._rounds(call)
        if rounds is not None:
            samples, summed = _samples(call)
            loss = float(value.detach())
            rounds.add(self.watch.updates, loss / samples if summed else loss, samples, _hits(call))

    def _rounds(self, call: LossCall) -> Rounds | None:
        loader = self.watch.observer.fetched
        line = call.line
        key = (line, call.name, loader.number if loader is not None else len(call.target) if _sized(call.target) else 0)
        found = self.evaluations.get(key)
        if found is None and len(self.evaluations) < MOST_EVALUATIONS:
            found = self.evaluations[key] = Rounds(line, call.name, bool(loader is not None and loader.trains))
        return found

    def over(self) -> None:
        """The last rounds are over."""
        self._arrived_before(math.inf)
        for rounds in self.evaluations.values():
            rounds.close()

    def summary(self) -> dict[str, Any] | None:
        """Courses and evaluations."""
        if not self.courses and not self.evaluations:
            return None
        loaders = [each for each in self.watch.observer.facts.loaders if each.trains and each.made["length"]]
        passes = max((each.batches / each.made["length"] for each in loaders), default=None)
        steps = {id(one): self._steps(one) for one in self.watch.optimizers}
        for kept in list(self.courses):
            kept.bins.updates = max(kept.bins.updates, steps.get(kept.identity, 0))
        return {
            "courses": [kept.summary(passes) for kept in list(self.courses)],
            "evaluations": [
                {
                    "where": {"file": rounds.line.file, "line": rounds.line.line} if rounds.line.file else None,
                    "trains": rounds.trains,
                    "loss": rounds.name,
                    "rounds": list(rounds.rounds),
                }
                for rounds in list(self.evaluations.values())
            ],
        }


def _sized(target: Any) -> bool:
    return getattr(target, "dim", lambda: 0)() > 0


def _samples(call: LossCall) -> tuple[int, bool]:
    """Samples of a batch, and whether their losses were added up."""
    target = call.target
    samples = len(target) if _sized(target) else 1
    return max(1, samples), call.kwargs.get("reduction") == "sum"


def _hits(call: LossCall) -> float | None:
    """Right answers per sample, added up."""
    if call.name not in CLASSES:
        return None
    output, target = call.input.detach(), call.target.detach()
    if target.is_floating_point() or target.dim() != output.dim() - 1 or not target.numel():
        return None
    return float((output.argmax(1) == target).sum()) * len(target) / target.numel()


VITAL = LossCurve
