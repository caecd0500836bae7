"""What gradients and weights do at the steps that are looked at: sizes, ways, rows, who is moved and who is not."""

import math
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar

from ..frames import Line, user_line
from ._base import Call, Vital, Watch

# A part of each weight is proof enough, and bounds what is copied.
PART = 16_384
# Tensors of one optimizer that are followed; of more of them every so-and-so-many-th.
MOST_TENSORS = 128
MOST_STEPPERS = 8
KEPT = 64
# Looks that a row must go without gradient, at the end, to be called dead.
DEAD_LOOKS = 4
# Far more than a step changes, or a step undone.
FAR, UNDONE = 5.0, 0.01
EARLY = 4
# When models are looked at for what no optimizer holds: after some updates, and twice, since some join later.
CENSUS = (3, 12, 200)
MISSPELT = (
    "require_grad",
    "required_grad",
    "requires_grads",
    "require_grads",
    "requiresgrad",
    "trainable",
    "requires_gradient",
)


class Row:
    """One parameter of an optimizer."""

    __slots__ = (
        "after", "alive", "dead_looks", "first", "gain", "gradients", "group", "kind", "last_spread", "looks", "missing",
        "name", "nonfinite", "norm_first", "norm_last", "parameter", "ratio_first", "ratios", "rewritten", "shape",
        "spread", "start", "way", "zero",
    )  # fmt: skip

    def __init__(self, parameter: Any, name: str, kind: str, group: int) -> None:
        self.parameter = parameter  # the optimizer holds it as well
        self.name, self.kind, self.group = name, kind, group
        self.shape = tuple(parameter.shape)
        self.looks = self.missing = self.zero = self.rewritten = 0
        self.gradients: deque[float] = deque(maxlen=KEPT)
        self.ratios: deque[float] = deque(maxlen=KEPT)
        self.ratio_first: float | None = None
        self.norm_first: float | None = None
        self.norm_last: float | None = None
        self.first = part(parameter).clone()
        self.after: Any = None
        self.start: Any = None
        self.way: float = 0.0
        self.alive: Any = None
        self.dead_looks = 0
        self.spread: float | None = None
        self.last_spread: float | None = None
        self.gain: float | None = None
        self.nonfinite = False


class Entry:
    """One optimizer."""

    def __init__(self, index: int, optimizer: Any) -> None:
        self.index = index
        self.optimizer = optimizer
        self.kind = type(optimizer).__name__
        self.rows: list[Row] = []
        self.known: set[int] = set()
        self.steps = self.looks = self.cleared = 0
        self.passes: Counter[int] = Counter()
        self.rates: list[list[float]] = []
        self.norms: deque[float] = deque(maxlen=KEPT)
        self.flushed: deque[float] = deque(maxlen=KEPT)
        self.divided: deque[float] = deque(maxlen=KEPT)
        self.decays: deque[float] = deque(maxlen=KEPT)
        self.eps: deque[float] = deque(maxlen=KEPT)
        self.made: float | None = None  # numbers of gradients that were not zero after the last backward pass
        self.strange_graded: set[int] = set()
        self.line: Line | None = None

    def rated(self) -> None:
        """The learning rates of this step."""
        groups = self.optimizer.param_groups
        while len(self.rates) < len(groups):
            rate = float(groups[len(self.rates)]["lr"])
            self.rates.append([rate, rate, rate])
        for kept, group in zip(self.rates, groups, strict=False):
            rate = kept[2] = float(group["lr"])
            kept[1] = max(rate, kept[1])


class Gradients(Vital):
    """Reads gradients at the step, weights before and after it."""

    kind: ClassVar[str] = "Gradients"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.entries: list[Entry] = []
        self.passes = 0
        self.value: float | None = None  # of the last loss function
        self.ratio: float | None = None
        self.line: Line | None = None
        self.clips: dict[Line, list[Any]] = {}
        self.looks = 0
        self.fresh = False  # weights were kept as a step left them
        self.facts: dict[str, Any] = {}
        self.copies: list[tuple[Any, Any, str, str]] = []
        self.models: dict[str, list[tuple[int, int]]] = {}

    # backward

    def loss(self, call: Any) -> None:
        """What the loss function gave."""
        if call.grad and getattr(call.result, "numel", lambda: 0)() == 1:
            self.value = float(call.result.detach())

    def every_backward(self, loss: Any) -> None:
        """Passes of one step are counted."""
        self.passes += 1

    def backward(self, loss: Any) -> None:
        """From where, and how what is differentiated compares with what the loss function gave."""
        if self.line is None:
            self.line = user_line(sys._getframe(1))
        if self.value and getattr(loss, "numel", lambda: 0)() == 1:
            self.ratio = float(loss.detach()) / self.value
        self.value = None

    def differentiated(self, loss: Any) -> None:
        """What the pass left in the gradients of the optimizers that are known."""
        for entry in self.entries:
            entry.made = _nonzero(entry.rows)

    def clip(self, name: str, parameters: Any, limit: Any, result: Any) -> None:
        """How the limit compares with the norm."""
        if name != "clip_grad_norm_" or limit is None:
            return
        kept = self.clips.setdefault(user_line(sys._getframe(1)), [0, 0, [], []])
        norm, limit = float(result), float(limit)
        if math.isfinite(norm) and len(self.clips) <= MOST_STEPPERS:
            kept[0] += 1
            kept[1] += norm > limit
            kept[2] = [*kept[2][-KEPT:], limit]
            kept[3] = [*kept[3][-KEPT:], norm]

    # the step

    def step(self, optimizer: Any) -> None:
        """Gradients as the step meets them."""
        entry = self._entry(optimizer)
        if entry is None:
            return
        self._join(entry)
        entry.looks += 1
        if self.ratio is not None:
            entry.divided.append(self.ratio)
            self.ratio = None
        self._gradients(entry)
        graded = [row for row in entry.rows if _dense(row.parameter.grad)]
        for row in graded:
            row.start = part(row.parameter).clone()

    def _gradients(self, entry: Entry) -> None:
        import torch

        rows = [row for row in entry.rows if _dense(row.parameter.grad)]
        there = {id(row) for row in rows}
        for row in entry.rows:
            row.looks += 1
            row.missing += id(row) not in there and row.parameter.grad is None
        nonzero = _nonzero(rows) if entry.made is not None else None
        if entry.made:
            entry.cleared += not nonzero
            if nonzero:
                entry.flushed.append(max(0.0, 1 - nonzero / entry.made))
        entry.made = None
        if not rows:
            return
        norms = torch.stack(torch._foreach_norm([part(row.parameter.grad).float() for row in rows])).tolist()
        whole = math.sqrt(sum(norm * norm for norm in norms))
        if math.isfinite(whole):
            entry.norms.append(whole)
        for row, norm in zip(rows, norms, strict=True):
            row.gradients.append(norm)
            row.zero += norm == 0
            row.nonfinite = row.nonfinite or not math.isfinite(norm)
            if whole > 0 and norm > 0:
                _alive(row)

    def stepped(self, optimizer: Any) -> None:
        """How far it went."""
        import torch

        entry = self._entry(optimizer)
        if entry is None:
            return
        rows = [row for row in entry.rows if row.start is not None]
        if not rows:
            return
        now = [part(row.parameter) for row in rows]
        ways = torch._foreach_norm(torch._foreach_sub(now, [row.start for row in rows]))
        sizes = torch._foreach_norm([row.start for row in rows])
        told = torch.stack([*ways, *sizes]).double().tolist()
        for row, way, size, tensor in zip(rows, told[: len(rows)], told[len(rows) :], now, strict=True):
            row.norm_first = size if row.norm_first is None else row.norm_first
            row.norm_last = size
            row.way = way
            if size > 0:
                row.ratios.append(way / size)
                if row.looks <= EARLY:
                    row.ratio_first = max(row.ratio_first or 0.0, way / size)
            row.nonfinite = row.nonfinite or not math.isfinite(way)
            row.after = tensor.clone()
            self.fresh = True
        self._pull(entry, rows, told[: len(rows)], told[len(rows) :])
        for row in rows:
            row.start = None

    def _pull(self, entry: Entry, rows: list[Row], ways: list[float], sizes: list[float]) -> None:
        groups = entry.optimizer.param_groups
        decoupled = entry.kind == "AdamW" or groups[0].get("decoupled_weight_decay") is True
        pull = force = 0.0
        for row, way, size in zip(rows, ways, sizes, strict=True):
            group = groups[min(row.group, len(groups) - 1)]
            decay = float(group.get("weight_decay") or 0.0)
            if not decay:
                continue
            pull += (decay * size * (float(group["lr"]) if decoupled else 1.0)) ** 2
            force += (way if decoupled else row.gradients[-1]) ** 2
        if force > 0 and math.isfinite(force):
            entry.decays.append(math.sqrt(pull / force))
        self._eps(entry, rows)

    def _eps(self, entry: Entry, rows: list[Row]) -> None:
        eps = entry.optimizer.param_groups[0].get("eps")
        # Below this it never weighs against gradients that matter, and a look costs.
        if not eps or float(eps) < 1e-5:
            return
        shares = []
        for row in rows[:16]:
            state = entry.optimizer.state.get(row.parameter, {})
            square, steps = state.get("exp_avg_sq"), state.get("step")
            if square is None or steps is None:
                continue
            beta = float(entry.optimizer.param_groups[0].get("betas", (0.9, 0.999))[1])
            mean = float(part(square).mean()) / max(1e-12, 1 - beta ** float(steps))
            if mean > 0:
                shares.append(float(eps) / math.sqrt(mean))
        if shares:
            entry.eps.append(median(shares))

    def every_stepped(self, optimizer: Any) -> None:
        """Count the step."""
        passes, self.passes = self.passes, 0
        entry = self._entry(optimizer)
        if entry is not None:
            entry.steps += 1
            entry.passes[max(1, passes)] += 1
            entry.rated()
            if self.fresh and not self.watch.looking:
                self._stale()

    def _stale(self) -> None:
        """What a later forward meets is another step's."""
        self.fresh = False
        for entry in self.entries:
            for row in entry.rows:
                row.after = None

    def called(self, call: Call) -> None:
        """After a training forward: are weights still what the step made of them?"""
        if not call.grad:
            return
        import torch

        rows = [row for entry in self.entries for row in entry.rows if row.after is not None and row.way > 0]
        if not rows:
            return
        now = [part(row.parameter) for row in rows]
        moved = torch.stack(torch._foreach_norm(torch._foreach_sub(now, [row.after for row in rows]))).tolist()
        for row, way, tensor in zip(rows, moved, now, strict=True):
            if way > FAR * row.way or (way > 0 and row.first is not None and _same(tensor, row.first)):
                row.rewritten += 1
            row.after = None

    # who is who

    def _entry(self, optimizer: Any) -> Entry | None:
        for entry in reversed(self.entries):
            if entry.optimizer is optimizer:
                return entry
        if len(self.entries) >= MOST_STEPPERS:
            return None
        entry = Entry(len(self.entries), optimizer)
        self.entries.append(entry)
        return entry

    def _join(self, entry: Entry) -> None:
        """Parameters that the optimizer holds and that are not followed yet."""
        held = [
            (number, parameter)
            for number, group in enumerate(entry.optimizer.param_groups)
            for parameter in group["params"]
        ]
        if len(held) == len(entry.known):
            return
        names = self._names()
        fresh = [(number, parameter) for number, parameter in held if id(parameter) not in entry.known]
        entry.known.update(id(parameter) for _, parameter in fresh)
        every = max(1, len(fresh) // MOST_TENSORS)
        for number, parameter in fresh[::every]:
            name, kind = names.get(id(parameter), ("", ""))
            row = Row(parameter, name, kind, number)
            _begin(row)
            entry.rows.append(row)
        if entry.looks == 0 and len(self.entries) == 1:
            self._twins(entry.rows)

    def _twins(self, rows: list[Row]) -> None:
        """Pairs of large parameters of different kinds of modules that are equal now."""
        import torch

        seen: dict[int, list[Row]] = {}
        for row in rows:
            if len(row.shape) >= 2 and row.spread:
                seen.setdefault(row.parameter.numel(), []).append(row)
        for same in seen.values():
            tables = [row for row in same if "Embedding" in row.kind]
            for table in tables[:4]:
                for other in same[:16]:
                    if other.kind != table.kind and _alike(torch, table.parameter, other.parameter):
                        self.copies.append((table.parameter, other.parameter, table.name, other.name))

    def _names(self) -> dict[int, tuple[str, str]]:
        """Names and kinds of modules of the parameters of all models that were called."""
        found: dict[int, tuple[str, str]] = {}
        for model in self.watch.models:
            for prefix, module in list(model.named_modules()):
                for name, parameter in list(module._parameters.items()):
                    if parameter is not None and id(parameter) not in found:
                        pruned = name.endswith("_orig")
                        kind = f"pruned {type(module).__name__}" if pruned else type(module).__name__
                        found[id(parameter)] = (f"{prefix}.{name}" if prefix else name, kind)
        return found

    # what models are

    def update(self, number: int) -> None:
        """A look is over."""
        self.looks += 1
        if number in CENSUS:
            self._census()

    def every_update(self, number: int) -> None:
        """A new model of a kind that was trained before?"""
        models = self.watch.models
        if not models:
            return
        model = models[-1]
        kept = self.models.setdefault(type(model).__name__, [])
        if not kept or kept[-1][0] != id(model):
            loaders = [each for each in self.watch.observer.facts.loaders if each.trains]
            passes = loaders[-1].iterations if len(loaders) == 1 else -1
            if len(kept) < KEPT:
                kept.append((id(model), passes))

    def over(self) -> None:
        """Last looks, while objects live."""
        self._census()
        for entry in self.entries:
            for row in entry.rows:
                _end(row)
        pairs = [(one, two) for a, b, one, two in self.copies if not _same(part(a), part(b))]
        self.facts["copies"] = pairs[:4]

    def _census(self) -> None:
        import torch

        models = self.watch.models
        held = {id(p) for entry in self.entries for group in entry.optimizer.param_groups for p in group["params"]}
        held |= {id(p) for o in self.watch.optimizers for group in o.param_groups for p in group["params"]}
        named = {id(p): (name, p) for model in models[-4:] for name, p in model.named_parameters()}
        homeless = [name for name, p in named.values() if p.requires_grad and p.grad is not None and id(p) not in held]
        for entry in self.entries:
            for group in entry.optimizer.param_groups:
                entry.strange_graded |= {id(p) for p in group["params"] if id(p) not in named and p.grad is not None}
        hidden = [
            (name, p.grad is not None)
            for name, p in _hidden(models[-4:], named)
            if id(p) not in held and p.requires_grad
        ]
        modules = [module for model in models[-4:] for module in model.modules()]
        drops = [m.p for m in modules if "Dropout" in type(m).__name__ and isinstance(getattr(m, "p", None), float)]
        if len(homeless) >= len(self.facts.get("homeless_all", ())):
            self.facts["homeless_all"] = homeless
        if hidden or "hidden" not in self.facts:
            self.facts["hidden"] = hidden
            self.facts["hidden_where"] = self._made_at(
                [p for _, p in _hidden(models[-4:], named) if id(p) not in held and p.requires_grad]
            )
        self.facts |= {
            "trainable": sum(p.requires_grad for _, p in named.values()),
            "frozen": sum(p.numel() for _, p in named.values() if not p.requires_grad),
            "numbers": sum(p.numel() for _, p in named.values()),
            "misspelt": list(dict.fromkeys(_misspelt(models[-4:], torch)))[:8],
            "normalised": any("Norm" in type(m).__name__ for m in modules),
            "recurrent": any(isinstance(m, torch.nn.RNNBase | torch.nn.RNNCellBase) for m in modules),
            "dropout": max(drops, default=None),
            "dropout_where": self._made_at(
                [m for m in modules if drops and "Dropout" in type(m).__name__ and getattr(m, "p", None) == max(drops)]
            ),
            "strange": {
                entry.index: sum(id(p) not in named for group in entry.optimizer.param_groups for p in group["params"])
                for entry in self.entries
            },
        }

    def _made_at(self, things: list[Any]) -> dict[str, Any] | None:
        """The line on which the first of these modules or weights that was seen made was made."""
        made = self.watch.observer.facts.made
        return next((place for thing in things if (place := _place(made.line(thing))) is not None), None)

    # what is told

    def summary(self) -> dict[str, Any] | None:
        """Everything so far."""
        if not self.entries:
            return None
        facts = self.facts
        homeless = facts.get("homeless_all", [])
        models, passes = self._models()
        return {
            "updates": self.watch.updates,
            "looks": self.looks,
            "weights": [_weight(entry, row) for entry in self.entries for row in list(entry.rows)],
            "steppers": [self._stepper(entry) for entry in self.entries],
            "clips": [_clipping(line, kept) for line, kept in list(self.clips.items()) if kept[0]],
            "hidden": [{"name": name, "graded": graded} for name, graded in facts.get("hidden", [])[:32]],
            "homeless": homeless[:8],
            "homeless_count": len(homeless),
            "trainable": facts.get("trainable", 0),
            "frozen": facts.get("frozen", 0),
            "numbers": facts.get("numbers", 0),
            "models": models,
            "models_passes": passes,
            "misspelt": facts.get("misspelt", []),
            "copies": facts.get("copies", []),
            "normalised": facts.get("normalised", False),
            "recurrent": facts.get("recurrent", False),
            "dropout": facts.get("dropout"),
            "dropout_where": facts.get("dropout_where"),
            "hidden_where": facts.get("hidden_where"),
            "backward_where": _place(self.line),
            "optimizer_where": self._first_place("optimizers"),
            "model_where": self._first_place("forwards"),
        }

    def _models(self) -> tuple[int, float | None]:
        kept = max(self.models.values(), key=len, default=[])
        if len(kept) < 2 or any(passes < 0 for _, passes in kept):
            return len(kept), None
        begins = [passes for _, passes in kept]
        # The usual distance: of those that came while nobody listened, some are missing.
        return len(kept), float(median(b - a for a, b in pairwise(begins)))

    def _first_place(self, kind: str) -> dict[str, Any] | None:
        places = self.watch.observer.facts.places.summary().get(kind)
        return {"file": places[-1][0], "line": places[-1][1]} if places else None

    def _stepper(self, entry: Entry) -> dict[str, Any]:
        return {
            "index": entry.index,
            "kind": entry.kind,
            "groups": [
                _group(group, rates) for group, rates in zip(entry.optimizer.param_groups, entry.rates, strict=False)
            ],
            "steps": entry.steps,
            "looks": entry.looks,
            "parameters": sum(len(group["params"]) for group in entry.optimizer.param_groups),
            "strange": self.facts.get("strange", {}).get(entry.index, 0),
            "strange_graded": len(entry.strange_graded),
            "cleared": entry.cleared,
            "flushed": _median(entry.flushed),
            "backwards": max(entry.passes, key=entry.passes.__getitem__, default=1),
            "divided": _median(entry.divided),
            "norms": list(entry.norms),
            "decay": _median(entry.decays),
            "eps_share": _median(entry.eps),
            "where": None,
        }


def part(tensor: Any) -> Any:
    """Some of its numbers, as they lie in memory; no copy where they lie in order."""
    flat = tensor.detach()
    flat = flat.view(-1) if flat.is_contiguous() else flat.reshape(-1)
    return flat[:PART]


def _dense(gradient: Any) -> bool:
    import torch

    return gradient is not None and gradient.layout is torch.strided and gradient.numel() > 0


def _nonzero(rows: Iterable[Row]) -> float:
    """Numbers of their gradients that are not zero, in the smaller ones of them."""
    import torch

    found = [part(row.parameter.grad)[:4096].count_nonzero() for row in list(rows)[:12] if _dense(row.parameter.grad)]
    return float(torch.stack(found).sum()) if found else 0.0


def _matrix(tensor: Any) -> Any:
    """Its rows, as many as were looked at."""
    rows = tensor.detach().reshape(tensor.shape[0], -1)
    return rows[: max(1, PART // max(1, rows.shape[1]))]


def _begin(row: Row) -> None:
    parameter = row.parameter
    if parameter.dim() < 2 or not parameter.is_floating_point():
        return
    rows = _matrix(parameter).float()
    row.spread = _spread(rows)
    inputs = math.prod(row.shape[1:])
    deviation = float(rows.std(unbiased=False))
    row.gain = deviation * math.sqrt(inputs) if math.isfinite(deviation) else None


def _spread(rows: Any) -> float | None:
    if rows.shape[0] < 2:
        return None
    norm = float(rows.norm())
    return float((rows - rows.mean(0)).norm()) / norm if norm > 0 and math.isfinite(norm) else None


def _alive(row: Row) -> None:
    """Which rows have a gradient in this look; counted anew from time to time, so that what died shows."""
    import torch

    gradient = row.parameter.grad
    if gradient.dim() < 2 or gradient.shape[0] < 2:
        return
    alive = (_matrix(gradient) != 0).any(1)
    if row.alive is None:
        row.alive = [alive.clone(), None, 0]
    current, _, looks = row.alive
    if looks and looks % DEAD_LOOKS == 0:
        row.alive = [alive, current, looks + 1]
    else:
        row.alive[0] = torch.logical_or(current, alive)
        row.alive[2] = looks + 1
    row.dead_looks += 1


def _dead(row: Row) -> float | None:
    """The share of rows that have weights and had no gradient in the last full window of looks and since."""
    if row.alive is None or row.dead_looks < DEAD_LOOKS:
        return None
    alive = row.alive[0] if row.alive[1] is None else row.alive[0] | row.alive[1]
    used = (_matrix(row.parameter) != 0).any(1)
    if alive.shape != used.shape or not bool(used.any()):
        return None
    return float((used & ~alive).sum()) / float(used.sum())


def _end(row: Row) -> None:
    if row.parameter.dim() >= 2 and row.parameter.is_floating_point():
        row.last_spread = _spread(_matrix(row.parameter).float())
    row.gradients = deque(row.gradients, maxlen=KEPT)
    now = part(row.parameter).float()
    norm = float(now.norm())
    row.nonfinite = row.nonfinite or not math.isfinite(norm)
    row.norm_last = norm
    if row.first is not None and row.norm_first is None:
        row.norm_first = float(row.first.float().norm())
    if row.first is not None and row.norm_first:
        row.way = float((now - row.first.float()).norm()) / row.norm_first
    else:
        row.way = math.nan


def _same(one: Any, other: Any) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def _alike(torch: Any, one: Any, other: Any) -> bool:
    if one is other or one.data_ptr() == other.data_ptr():
        return False
    if one.shape == other.shape:
        return bool(torch.equal(one, other))
    return one.shape == other.shape[::-1] and bool(torch.equal(one, other.t()))


def _hidden(models: list[Any], named: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    """Parameters in plain lists, tuples and dictionaries that are attributes of modules."""
    import torch

    seen = set(named)
    for model in models:
        for prefix, module in list(model.named_modules()):
            for attribute, value in list(vars(module).items()):
                if attribute.startswith("_") and attribute in ("_parameters", "_buffers", "_modules", "_forward_hooks"):
                    continue
                for place, thing in _contained(value):
                    name = ".".join(part for part in (prefix, f"{attribute}{place}") if part)
                    found = thing.named_parameters() if isinstance(thing, torch.nn.Module) else [("", thing)]
                    for inner, parameter in found:
                        if id(parameter) not in seen:
                            seen.add(id(parameter))
                            yield f"{name}.{inner}" if inner else name, parameter


def _contained(value: Any) -> Iterator[tuple[str, Any]]:
    import torch

    items = (
        list(value.items())[:200]
        if isinstance(value, dict)
        else list(enumerate(value[:200]))
        if isinstance(value, list | tuple)
        else []
    )
    for key, thing in items:
        if isinstance(thing, torch.nn.Module | torch.nn.Parameter):
            yield f"[{key!r}]", thing
        elif isinstance(thing, list | tuple) and len(thing) <= 16:
            for number, inner in enumerate(thing):
                if isinstance(inner, torch.nn.Module | torch.nn.Parameter):
                    yield f"[{key!r}][{number}]", inner


def _misspelt(models: list[Any], torch: Any) -> Iterator[str]:
    """Attributes that say frozen, on modules and parameters that train."""
    for model in models:
        for prefix, module in list(model.named_modules()):
            trains = any(p.requires_grad and p.grad is not None for p in module.parameters())
            own = vars(module)
            words = [word for word in (*MISSPELT[:-2], "requires_grad") if own.get(word) is False]
            if words and trains:
                yield f"{prefix or type(module).__name__}.{words[0]}"
        for name, parameter in list(model.named_parameters()):
            words = [word for word in MISSPELT if getattr(parameter, "__dict__", {}).get(word) is False]
            if words and parameter.requires_grad and parameter.grad is not None:
                yield f"{name}.{words[0]}"


def _median(values: Iterable[float]) -> float | None:
    kept = [value for value in values if math.isfinite(value)]
    return median(kept) if kept else None


def _place(line: Line | None) -> dict[str, Any] | None:
    return {"file": line.file, "line": line.line} if line is not None and line.file else None


def _group(group: dict[str, Any], rates: list[float]) -> dict[str, Any]:
    momentum = group.get("momentum")
    if momentum is None and "betas" in group:
        momentum = float(group["betas"][0])
    return {
        "parameters": len(group["params"]),
        "lr_first": rates[0],
        "lr_most": rates[1],
        "lr_last": rates[2],
        "weight_decay": _number(group.get("weight_decay")),
        "momentum": _number(momentum),
        "eps": _number(group.get("eps")),
    }


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None


def _clipping(line: Line, kept: list[Any]) -> dict[str, Any]:
    return {
        "where": _place(line),
        "looks": kept[0],
        "clipped": kept[1],
        "limit": median(kept[2]),
        "norm": median(kept[3]),
    }


def _weight(entry: Entry, row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "module": row.kind,
        "shape": list(row.shape),
        "optimizer": entry.index,
        "group": row.group,
        "looks": row.looks,
        "missing": row.missing,
        "zero": row.zero,
        "gradient": _median(row.gradients),
        "norm_first": row.norm_first,
        "norm_last": row.norm_last,
        "moved": row.way if row.norm_first else None,
        "ratio": _median(row.ratios),
        "ratio_first": row.ratio_first,
        "dead": _dead(row),
        "dead_looks": row.dead_looks,
        "row_spread_first": row.spread,
        "row_spread_last": row.last_spread,
        "gain": row.gain,
        "rewritten": row.rewritten,
        "nonfinite": row.nonfinite,
    }


VITAL = Gradients
