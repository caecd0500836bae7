"""What the losses are given: shapes, ranges, targets that are left out; losses without a graph; gradients that cross over."""

import weakref
from typing import Any, ClassVar

import torch

from ..frames import user_line
from ._base import Call, LossCall, Vital, Watch, caller
from ._trace import place

# Lines with a loss of their own; and values of one call that are looked at.
MOST = 24
MOST_VALUES = 100_000
# So close to 1 is a sum of 32-bit probabilities; of logits, next to none is.
UNIT = 1e-3
# What a ReLU or a saturated tanh gives lies this close to its bound.
NEAR = 1e-3
IDS = 64  # different ids that targets may have to be counted
CLASSIFIES = ("cross_entropy", "nll_loss")
WHERE_IGNORED = {"cross_entropy": 3, "nll_loss": 3}
WHERE_REDUCED = {"mse_loss": 4, "l1_loss": 4, "smooth_l1_loss": 4, "kl_div": 4, "cross_entropy": 6, "nll_loss": 6}


class Losses(Vital):
    """Reads what each loss was given in looked-at updates."""

    kind: ClassVar[str] = "LossCalls"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.uses: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.ids: Any = None
        self.graphless = self.passes = 0
        self.graph_where: dict[str, Any] | None = None
        self.crossing = Crossing()

    def called(self, call: Call) -> None:
        """A model was called: were its arguments ids?"""
        self.ids = None
        for one in (*call.args, *call.kwargs.values()):
            if (
                isinstance(one, torch.Tensor)
                and one.dim() == 2
                and not one.is_floating_point()
                and one.dtype != torch.bool
            ):
                self.ids = one
                break

    def loss(self, call: LossCall) -> None:
        """A loss was called."""
        score, target = call.input, call.target
        if (
            not isinstance(score, torch.Tensor)
            or not score.numel()
            or torch._C._functorch.peek_interpreter_stack() is not None
        ):
            return
        line = call.line
        key = (call.name, line.file, line.line, call.grad)
        if key not in self.uses and len(self.uses) >= MOST:
            return
        use = self.uses.get(key)
        if use is None:
            use = self.uses[key] = _new(call, place(line), score, target)
        use["times"] += 1
        _read(use, call, score.detach()[:MOST_VALUES] if score.dim() else score.detach(), target)
        self._follow(use, target)

    def _follow(self, use: dict[str, Any], target: Any) -> None:
        ids = self.ids
        if (
            ids is None
            or not isinstance(target, torch.Tensor)
            or target.is_floating_point()
            or target.numel() != ids.numel()
        ):
            return
        aligned = target.reshape(ids.shape)
        keeps = aligned != use["ignores"] if use["ignores"] is not None else torch.ones_like(aligned, dtype=torch.bool)
        same = bool(((aligned == ids) | ~keeps).all()) and bool(keeps.float().mean() > 0.5)
        following = bool(((aligned[:, :-1] == ids[:, 1:]) | ~keeps[:, :-1]).all()) if ids.shape[1] > 1 else False
        self._ends(use, aligned)
        found = "same" if same else "next" if following else "none"
        use["shifted"] = found if use["shifted"] in ("", found) else "none"

    def _ends(self, use: dict[str, Any], aligned: Any) -> None:
        """Runs of one id at the ends of rows, if it stands nowhere else."""
        pad = int(aligned[:, -1].mode().values)
        is_pad = aligned == pad
        runs = is_pad.flip(1).int().cumprod(dim=1).sum(dim=1)
        share = float(is_pad.float().mean())
        if int(runs.sum()) == int(is_pad.sum()) and int((runs > 1).sum()) > 1 and share > use["padding"]:
            use["padding"], use["pad"] = share, pad

    def backward(self, loss: Any) -> None:
        """Does a graph lead to it?"""
        self.passes += 1
        roots = loss if isinstance(loss, list | tuple) else (loss,)
        if all(isinstance(one, torch.Tensor) and one.grad_fn is None for one in roots):
            self.graphless += 1
            if self.graph_where is None:
                self.graph_where = place(user_line(caller(0)))
        self.crossing.before(self.watch.optimizers)

    def differentiated(self, loss: Any) -> None:
        """Whose gradients did it change?"""
        self.crossing.after()

    def step(self, optimizer: Any) -> None:
        """What lies in its gradients?"""
        self.crossing.step(optimizer, lambda: place(user_line(caller(0))))

    def summary(self) -> dict[str, Any] | None:
        """Uses of losses by their lines."""
        if not self.uses and not self.passes:
            return None
        return {
            "losses": [
                {name: value for name, value in use.items() if not name.startswith("_")} for use in self.uses.values()
            ],
            "graphless": self.graphless,
            "passes": self.passes,
            "graph_where": self.graph_where,
            "crossed": self.crossing.crossed,
            "steps": self.crossing.steps,
            "crossed_where": self.crossing.where,
        }


class Crossing:
    """Whether an optimizer steps with gradients that were there before another one stepped, and its own loss was added to."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, Any]] = {}  # an optimizer, one of its parameters
        self.held: dict[int, Any] = {}
        self.stale: set[int] = set()
        self.mixed: set[int] = set()
        self.crossed = self.steps = 0
        self.where: dict[str, Any] | None = None

    def before(self, optimizers: list[Any]) -> None:
        """A backward pass begins."""
        self.held = {}
        if not 1 < len(optimizers) <= 4:
            self.known.clear()
            return
        # Those of a model that was replaced are gone, and another may have their place.
        self.known = {key: pair for key, pair in self.known.items() if pair[0]() is not None and pair[1]() is not None}
        for one in optimizers:
            if id(one) not in self.known:
                parameter = next((p for group in one.param_groups for p in group["params"] if p.requires_grad), None)
                if parameter is not None:
                    self.known[id(one)] = (weakref.ref(one), weakref.ref(parameter))
        self.held = {key: self._norm(key) for key in self.known}
        for key, norm in self.held.items():
            if not norm:
                self.stale.discard(key)
                self.mixed.discard(key)

    def after(self) -> None:
        """It is over."""
        for key, norm in self.held.items():
            if key in self.stale and norm and self._norm(key) != norm:
                self.mixed.add(key)

    def step(self, optimizer: Any, where: Any) -> None:
        """An optimizer is about to step: gradients of others grow old."""
        if len(self.known) < 2:
            return
        self.steps += 1
        if id(optimizer) in self.mixed:
            self.crossed += 1
            self.where = self.where or where()
        self.mixed.discard(id(optimizer))
        self.stale.discard(id(optimizer))
        # Only what a backward pass changed since its own last step is a gradient of somebody else's loss.
        self.stale |= {key for key in self.known if key != id(optimizer) and self._norm(key)}

    def _norm(self, key: int) -> float:
        parameter = self.known[key][1]() if key in self.known else None
        if parameter is None or parameter.grad is None or parameter.grad.is_sparse:
            return 0.0
        return float(parameter.grad.detach().float().norm())


def _new(call: LossCall, where: Any, score: Any, target: Any) -> dict[str, Any]:
    tensor = isinstance(target, torch.Tensor)
    ignores = None
    if call.name in CLASSIFIES:
        at = WHERE_IGNORED[call.name]
        ignores = call.kwargs.get("ignore_index", call.args[at + 1] if len(call.args) > at + 1 else -100)
    reduced = WHERE_REDUCED.get(call.name, 99)
    reduction = call.kwargs.get("reduction", call.args[reduced] if len(call.args) > reduced else "mean")
    return {
        "name": call.name,
        "where": where,
        "training": bool(call.grad),
        "times": 0,
        "input_shape": list(score.shape),
        "target_shape": list(target.shape) if tensor else [],
        "input_dtype": str(score.dtype).removeprefix("torch."),
        "target_dtype": str(target.dtype).removeprefix("torch.") if tensor else "",
        "reduction": reduction if isinstance(reduction, str) else "mean",
        "ignores": int(ignores) if isinstance(ignores, int) else None,
        "ignored": 0.0,
        "all_ignored": 0,
        "padding": 0.0,
        "shifted": "",
        "_ids": set(),
    }


def _read(use: dict[str, Any], call: LossCall, score: Any, target: Any) -> None:
    numbers = score.float()
    low, high = numbers.min(), numbers.max()
    parts = [low, high]
    rows = numbers.movedim(1, -1).reshape(-1, score.shape[1]) if score.dim() > 1 and score.shape[1] > 1 else None
    if rows is not None and (call.name in CLASSIFIES or call.name == "kl_div"):
        use["classes"] = score.shape[1]
        sums = rows.sum(dim=1)
        parts.append((((sums - 1).abs() < UNIT) & (rows >= 0).all(dim=1)).float().mean())
        parts.append((torch.logsumexp(rows, dim=1).abs() < UNIT).float().mean())
    found = torch.stack(parts).tolist()
    _widen(use, "input", found[0], found[1])
    if len(found) > 2:
        use["unit_rows"] = min(use.get("unit_rows", 1.0), found[2])
        use["log_rows"] = min(use.get("log_rows", 1.0), found[3])
    bounds = torch.stack(
        [
            ((numbers - low).abs() <= NEAR * (high - low)).float().mean(),
            ((high - numbers).abs() <= NEAR * (high - low)).float().mean(),
        ]
    )
    use["at_low"], use["at_high"] = bounds.tolist()
    if isinstance(target, torch.Tensor) and target.numel():
        _read_target(use, target.detach())
    result = call.result
    if isinstance(result, torch.Tensor) and result.numel() == 1:
        value = float(result.detach())
        if value - value == 0:
            use.setdefault("first", value)
            use["last"] = value


def _read_target(use: dict[str, Any], target: Any) -> None:
    whole = target.dim() and not target.is_floating_point()
    if whole and use["ignores"] is not None:
        left_out = target == use["ignores"]
        share = float(left_out.float().mean())
        use["ignored"] = max(use["ignored"], share)
        if share == 1.0:
            use["all_ignored"] += 1
            return
        target = target[~left_out]
    flat = target.reshape(-1)[:MOST_VALUES]
    numbers = flat.float()
    low, high = torch.stack([numbers.min(), numbers.max()]).tolist()
    _widen(use, "target", low, high)
    integers = not flat.is_floating_point() or bool((numbers == numbers.round()).all())
    use["whole_targets"] = integers and use.get("whole_targets", True)
    ids = use["_ids"]
    if integers and len(ids) <= IDS:
        ids.update(flat[:4096].unique()[: IDS + 1].tolist())
        use["distinct"] = len(ids)
    if whole and low - low == 0:
        use["lowest"] = min(use.get("lowest", low), low)
    if integers and flat.numel() > 1:
        use["common"] = max(use.get("common", 0.0), float((flat == flat.mode().values).float().mean()))


def _widen(use: dict[str, Any], what: str, low: float, high: float) -> None:
    if low - low == 0:
        use[f"{what}_low"] = min(use.get(f"{what}_low", low), low)
    if high - high == 0:
        use[f"{what}_high"] = max(use.get(f"{what}_high", high), high)


VITAL = Losses
