"""What is saved and loaded: whose tensors a state holds, which names fit, and what is done with the model afterwards."""

import os
import sys
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from math import isfinite
from typing import Any, ClassVar

from ..frames import Line, user_line
from ._base import Call, Vital, Watch

# Loads, lines that save, and states that are remembered; a run that does more of it is seen in its first and last ones.
LOADS, LINES, STATES = 12, 32, 64
TOLD = 8  # names
# Tensors of one saved object that are looked at, and how deep.
TENSORS, DEPTH = 2000, 5
# Losses kept on either side of a load; batches compared with those of the start.
LOSSES, BATCHES = 24, 12
PREFIXES = ("module.", "_orig_mod.", "model.")


class State:
    """A state that was taken of a module: what it was then, and which objects it handed out."""

    def __init__(self, module: Any, result: Any, at: int) -> None:
        self.module = weakref.ref(module)
        self.at = at
        tensors = list(_floating(result))
        self.mark = mark(tensors)
        self.first = weakref.ref(tensors[0]) if tensors else None


class Load:
    """One load, and what came after it."""

    def __init__(self, module: Any, told: dict[str, Any], filled: list[Any]) -> None:
        self.module = weakref.ref(module)
        self.told = told
        self.waiting = [weakref.ref(one) for one in filled]  # the weights that were not in what was loaded
        self.kept = mark(filled)
        self.after: list[float] = []
        self.batches: list[float] = []
        self.graded = self.evaluated = 0
        self.asked = False  # whether the optimizer that went on was looked at

    def unmoved(self) -> bool:
        """Whether weights that were not loaded are what they were."""
        tensors = [one() for one in self.waiting]
        return bool(tensors) and None not in tensors and mark(tensors) == self.kept


class Saves(Vital):
    """Stands beside torch.save, torch.load and the methods that hand states out and take them in."""

    kind: ClassVar[str] = "SaveUse"

    def __init__(self, watch: Watch) -> None:
        import torch

        super().__init__(watch)
        self.states: list[State] = []
        self.taken: dict[int, int] = {}  # states taken of a module, by its id
        self.loads: list[Load] = []
        self.lines: dict[Line, dict[str, Any]] = {}
        self.files: dict[
            int, tuple[str, bool, int]
        ] = {}  # of a loaded state's first tensor: path, optimizer, loads so far
        self.loaded: list[Any] = []  # weak references that keep those ids honest
        self.optimizer_loads = 0
        self.filled: set[int] = set()  # modules that were trained or loaded
        self.first: list[float] = []  # marks of the first training batches
        self.settings: dict[int, tuple[str, int, float]] = {}
        self.last_settings: tuple[str, int, float] | None = None
        self.concerned: dict[int, list[Load]] = {}
        patches = watch.observer.replacements
        patches.replace("vital save", torch, "save", self._saving)
        patches.replace("vital load", torch, "load", self._loading)
        patches.replace("vital state_dict", torch.nn.Module, "state_dict", self._handing_out)
        patches.replace("vital load_state_dict", torch.nn.Module, "load_state_dict", self._taking_in)
        patches.replace("vital optimizer state", torch.optim.Optimizer, "load_state_dict", self._resuming)

    # around the calls

    def _look(self, method: Any, *what: Any) -> Any:
        watch = self.watch
        if watch.busy or watch.ended or not watch.observer.candidate() or watch.observer.is_compiling():
            return None
        kept: list[Any] = []
        watch._call([("saves", lambda: kept.append(method(*what)))], ())
        return kept[0] if kept else None

    def _saving(self, original: Any) -> Any:
        def save(obj: Any, *args: Any, **kwargs: Any) -> Any:
            self._look(self._saved, obj, sys._getframe(1))
            return original(obj, *args, **kwargs)

        return save

    def _loading(self, original: Any) -> Any:
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(f, *args, **kwargs)
            self._look(self._read, f, found)
            return found

        return load

    def _handing_out(self, original: Any) -> Any:
        def state_dict(module: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(module, *args, **kwargs)
            if not args and kwargs.get("destination") is None and not kwargs.get("prefix"):
                self._look(self._handed_out, module, result)
            return result

        return state_dict

    def _taking_in(self, original: Any) -> Any:
        def load_state_dict(module: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
            before = self._look(self._before, module, state_dict)
            result = original(module, state_dict, *args, **kwargs)
            if before is not None:
                strict = bool(args[0] if args else kwargs.get("strict", True))
                self._look(self._took_in, module, state_dict, before, (result, strict, sys._getframe(1)))
            return result

        return load_state_dict

    def _resuming(self, original: Any) -> Any:
        def load_state_dict(optimizer: Any, state_dict: Any) -> Any:
            self.optimizer_loads += 1
            return original(optimizer, state_dict)

        return load_state_dict

    # saves and files

    def _saved(self, obj: Any, frame: Any) -> None:
        tensors = list(_tensors(obj))
        line = user_line(frame)
        if not tensors or (line not in self.lines and len(self.lines) >= LINES):
            return
        size = sum(one.numel() * one.element_size() for one in tensors)
        storages = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}
        known = self.lines.setdefault(line, {"times": 0, "bytes": 0, "stored": 0, "alias_age": 0, "captures": 0})
        known["times"] += 1
        stored = sum(storages.values())
        if stored - size >= known["stored"] - known["bytes"]:
            known["bytes"], known["stored"] = size, stored
        state = self._state_of(tensors)
        known["alias_age"], known["captures"] = 0, 0
        if state is not None:
            known["alias_age"] = self.watch.updates - state.at
            known["captures"] = self.taken.get(id(state.module()), 0)

    def _read(self, f: Any, found: Any) -> None:
        path = os.path.basename(str(f)) if isinstance(f, str | os.PathLike) else ""
        tensors = list(_tensors(found))
        with_optimizer = _holds_optimizer(found)
        for one in tensors[:TENSORS]:
            self.files[id(one)] = (path, with_optimizer, self.optimizer_loads)
        self.loaded = [*self.loaded[-STATES:], *map(weakref.ref, tensors[:1])]

    # states

    def _handed_out(self, module: Any, result: Any) -> None:
        self.taken[id(module)] = self.taken.get(id(module), 0) + 1
        if self.taken[id(module)] > 32 and not self.watch.affords():
            return
        state = State(module, result, self.watch.updates)
        if state.first is None:
            return
        self.states.append(state)
        if len(self.states) > STATES:
            # The first ones and the latest ones; a state of the middle is seldom what is loaded.
            del self.states[STATES // 4]

    def _state_of(self, tensors: list[Any]) -> State | None:
        """The state that handed one of these objects out: they are still a module's own tensors."""
        mine = {id(one) for one in tensors}
        for state in reversed(self.states):
            first = state.first() if state.first is not None else None
            if first is not None and id(first) in mine and state.module() is not None:
                return state
        return None

    # loads

    def _before(self, module: Any, given: Any) -> dict[str, Any]:
        own = OrderedDict(
            (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
        )
        tensors = {name: one for name, one in given.items() if hasattr(one, "data_ptr")}
        same = [
            name for name, one in tensors.items()
            if name in own and own[name].numel() and own[name].data_ptr() == one.data_ptr()
        ]  # fmt: skip
        floating = list(_floating(given))
        state = self._state_of(floating)
        seen = mark(floating)
        captured = next((one.at for one in reversed(self.states) if one.mark == seen), None)
        if state is not None:
            captured = state.at
        missing = [name for name, _ in module.named_parameters() if name not in given]
        return {
            "alias": bool(same) and len(same) >= len([name for name in tensors if name in own]) and state is not None,
            "captured": captured,
            "missing": {name: mark([own[name]]) for name in missing},
            "filled": id(module) in self.filled or any(id(part) in self.filled for part in module.modules()),
        }

    def _took_in(self, module: Any, given: Any, before: dict[str, Any], how: tuple[Any, bool, Any]) -> None:
        result, strict, frame = how
        parameters = dict(module.named_parameters())
        missing = [name for name in before["missing"] if mark([parameters[name]]) == before["missing"][name]]
        unexpected = list(getattr(result, "unexpected_keys", ()))
        total = sum(one.numel() for one in parameters.values()) or 1
        shapes = [tuple(given[name].shape) for name in unexpected if hasattr(given[name], "shape")]
        twins = 0
        for name in missing:
            if (shape := tuple(parameters[name].shape)) in shapes:
                shapes.remove(shape)
                twins += 1
        first = next(_floating(given), None)
        path, with_optimizer, before_loads = self.files.get(id(first), ("", False, self.optimizer_loads))
        told = {
            "model": type(module).__name__,
            "at": self.watch.updates,
            "strict": strict,
            "keys": len(parameters),
            "missing": missing[:TOLD],
            "missing_count": len(missing),
            "missing_share": sum(parameters[name].numel() for name in missing) / total,
            "unexpected": unexpected[:TOLD],
            "unexpected_count": len(unexpected),
            "twins": twins,
            "prefix": _prefix(missing, unexpected),
            "filled_before": before["filled"],
            "captured": before["captured"],
            "alias": before["alias"],
            "captures": self.taken.get(id(module), 0),
            "file": path,
            "with_optimizer": with_optimizer,
            "optimizer_loads": -before_loads,
            "where": _place(user_line(frame)),
            "before": self._losses(self.watch.updates - LOSSES, self.watch.updates),
        }
        if len(missing) < len(parameters):  # of which nothing fitted was filled with nothing
            self.filled.update(id(part) for part in module.modules())
        if len(self.loads) >= LOADS:
            del self.loads[LOADS // 2]
        self.last_settings = next(reversed(self.settings.values()), None)
        self.loads.append(Load(module, told, [parameters[name] for name in missing]))
        self.concerned.clear()

    def _losses(self, since: int, until: int) -> list[float]:
        return [one for one in self.watch.observer.losses[max(0, since) : until] if one is not None and _finite(one)]

    # what is done with the model

    def _of(self, module: Any) -> list[Load]:
        known = self.concerned.get(id(module))
        if known is None:
            parts = {id(part) for part in module.modules()} if self.loads else set()
            known = [one for one in self.loads if (mine := one.module()) is not None and id(mine) in parts]
            if len(self.concerned) > STATES:
                self.concerned.clear()
            self.concerned[id(module)] = known
        return known

    def every_called(self, call: Call) -> None:
        """A model that was loaded is used, or one trains that may be loaded later."""
        if call.grad and len(self.first) < BATCHES:
            self.first.append(_batch_mark(call))
            self.filled.update(id(part) for part in call.module.modules())
        if not self.loads:
            return
        for load in self._of(call.module):
            if call.grad:
                load.graded += 1
                if len(load.batches) < BATCHES:
                    load.batches.append(_batch_mark(call))
                    self.filled.update(id(part) for part in call.module.modules())
            else:
                load.evaluated += 1
                if load.waiting and not load.evaluated & (load.evaluated - 1):
                    load.told["unmoved"] = load.unmoved()

    def every_stepped(self, optimizer: Any) -> None:
        """The first step after a load tells whether the optimizer went on or began anew."""
        if id(optimizer) not in self.settings:
            self.settings[id(optimizer)] = _settings(optimizer)
        for load in self.loads:
            if not load.asked and load.graded and (module := load.module()) is not None:
                load.asked = True
                load.told["fresh"] = self._fresh(optimizer, module)
                load.told["same_settings"] = _settings(optimizer) == self.last_settings

    def _fresh(self, optimizer: Any, module: Any) -> str | None:
        mine = {id(one) for one in module.parameters()}
        steps = [
            float(state["step"])
            for group in optimizer.param_groups
            for one in group["params"]
            if id(one) in mine and "step" in (state := optimizer.state.get(one, {}))
        ]
        return type(optimizer).__name__ if steps and max(steps) <= 1 else None

    # what is told

    def over(self) -> None:
        """What was not loaded may still be what it was."""
        for load in self.loads:
            if load.waiting and (load.evaluated or load.graded) and None not in [one() for one in load.waiting]:
                load.told["unmoved"] = load.unmoved()

    def summary(self) -> dict[str, Any] | None:
        """Loads in their order, and lines that save."""
        if not self.loads and not self.lines:
            return None
        return {
            "updates": self.watch.updates,
            "loads": [self._told(load) for load in self.loads],
            "saves": [{**known, "where": _place(line)} for line, known in self.lines.items()],
            "optimizer_loads": self.optimizer_loads,
        }

    def _told(self, load: Load) -> dict[str, Any]:
        at = load.told["at"]
        trained = self.watch.updates - at if load.graded else 0
        repeats = 0
        while repeats < min(len(load.batches), len(self.first)) and load.batches[repeats] == self.first[repeats]:
            repeats += 1
        loads = load.told["optimizer_loads"] + self.optimizer_loads
        return {
            **load.told,
            "optimizer_loads": loads,
            "evaluated": load.evaluated,
            "trained": trained,
            "after": self._losses(at, at + LOSSES) if trained else [],
            "repeats": repeats,
        }


def mark(tensors: list[Any]) -> tuple[float, ...]:
    """A few sums by which the same numbers are known again."""
    chosen = tensors if len(tensors) <= 4 else [*tensors[:2], *tensors[-2:]]
    return tuple(_sum(one) for one in chosen)


def _sum(tensor: Any) -> float:
    flat = tensor.detach().reshape(-1)
    return float(flat[:: max(1, flat.numel() // 256) | 1].double().sum()) if flat.numel() else 0.0


def _batch_mark(call: Call) -> float:
    first: Any = call.args[0] if call.args else next(iter(call.kwargs.values()), None)
    return _sum(first) if hasattr(first, "detach") and not first.is_complex() else 0.0


def _floating(state: Any) -> Iterator[Any]:
    for one in state.values():
        if hasattr(one, "is_floating_point") and one.is_floating_point() and one.numel():
            yield one


def _tensors(obj: Any, depth: int = DEPTH) -> Iterator[Any]:
    import torch

    left = [(obj, depth)]
    found = 0
    while left and found < TENSORS:
        one, room = left.pop()
        if isinstance(one, torch.Tensor):
            found += 1
            if one.layout == torch.strided and one.device.type != "meta":
                yield one
        elif isinstance(one, torch.nn.Module):
            left.extend((each, 0) for each in (*one.parameters(), *one.buffers()))
        elif room and isinstance(one, dict):
            left.extend((each, room - 1) for each in reversed(list(one.values())[:TENSORS]))
        elif room and isinstance(one, list | tuple):
            left.extend((each, room - 1) for each in reversed(list(one)[:TENSORS]))


def _holds_optimizer(found: Any, depth: int = 2) -> bool:
    if not isinstance(found, dict):
        return False
    if {"state", "param_groups"} <= set(map(str, found)):
        return bool(found["state"])
    return depth > 0 and any(_holds_optimizer(one, depth - 1) for one in list(found.values())[:64])


def _prefix(missing: list[str], unexpected: list[str]) -> str:
    """The wrapper's name by which all missing names differ from unexpected ones."""
    if not missing or not unexpected:
        return ""
    for prefix in PREFIXES:
        if {prefix + name for name in missing} <= set(unexpected) or set(missing) <= {
            prefix + name for name in unexpected
        }:
            return prefix
    return ""


def _settings(optimizer: Any) -> tuple[str, int, float]:
    groups = optimizer.param_groups
    sizes = sum(one.numel() for group in groups for one in group["params"])
    return type(optimizer).__name__, sizes, float(groups[0].get("initial_lr", groups[0].get("lr", 0.0)))


def _finite(number: float) -> bool:
    return isfinite(number)


def _place(line: Line) -> dict[str, Any] | None:
    return {"file": line.file, "line": line.line} if line.file else None


VITAL = Saves
