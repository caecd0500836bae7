"""What a script pays for though it may not need it: precision, modes, recompilations, second passes, copies, flushes."""

import builtins
import contextlib
import io
import os
import sys
import time
from collections import Counter
from typing import Any, ClassVar
from weakref import ref

from .. import frames
from ..account import DATA, OPTIMIZER
from ..frames import Line, user_line
from ._base import Call, Vital, Watch
from ._further import Further

NOWHERE = Line("", 0, "")
# Lines of each kind, files, functions that are told apart.
MOST = 64
# Looking up whose line it was takes microseconds; the first times tell.
LOOKED_UP = 256
LONGEST = 300
# Calls of models that are remembered within an update.
CALLS = 16


class Spends(Vital):
    """Counts what is cheap to count always, and looks at the rest on looked-at updates."""

    kind: ClassVar[str] = "Waste"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.look = Further()
        self.threads_set: int | None = None
        self.threads_line = self.double_line = self.anomaly_line = NOWHERE
        self.anomaly = self.backwards = 0
        self.float64: tuple[int, int] = (0, 0)
        self.retained = self.passes = 0
        self.retained_lines: Counter[Line] = Counter()
        self.grads = 0
        self.copied: dict[Line, list[float]] = {}
        self.synced: dict[Line, list[float]] = {}
        self.opened: dict[str, list[Any]] = {}
        self.calls: list[dict[str, Any]] = []
        self.again: Counter[Line] = Counter()
        self.again_graph = self.again_updates = self.again_looked = 0
        self.again_random = False
        self.idle: tuple[int, int, int, str, bool] = (0, 0, 0, "", False)
        self.batch: int | None = None
        self.sizes: tuple[int, ...] = ()
        self._listen()

    def _listen(self) -> None:
        import torch
        from torch.autograd import anomaly_mode

        patches = self.watch.observer.replacements
        patches.replace("vital set_num_threads", torch, "set_num_threads", self._threads)
        patches.replace("vital double", torch.nn.Module, "double", self._doubled)
        for kind in (anomaly_mode.detect_anomaly, anomaly_mode.set_detect_anomaly):
            patches.replace("vital anomaly", kind, "__init__", self._minded)
        patches.replace("vital backward", torch.autograd, "backward", self._retaining)
        patches.replace("vital deepcopy", torch.nn.Parameter, "__deepcopy__", self._copying)
        patches.replace("vital fsync", os, "fsync", self._syncing)
        for module in (builtins, io):
            patches.replace("vital open", module, "open", self._opening)

    # listening

    def _threads(self, original: Any) -> Any:
        def set_num_threads(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            line = user_line(sys._getframe(1))
            if line.file:
                self.threads_set, self.threads_line = int((*args, *kwargs.values())[0]), line
            return result

        return set_num_threads

    def _doubled(self, original: Any) -> Any:
        def double(*args: Any, **kwargs: Any) -> Any:
            self.double_line = user_line(sys._getframe(1))
            return original(*args, **kwargs)

        return double

    def _minded(self, original: Any) -> Any:
        def init(*args: Any, **kwargs: Any) -> None:
            self.anomaly_line = user_line(sys._getframe(1))
            original(*args, **kwargs)

        return init

    def _retaining(self, original: Any) -> Any:
        is_compiling = self.watch.observer.is_compiling

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_compiling() and not self.watch.busy:
                self.passes += 1
                retain = args[1] if len(args) > 1 else kwargs.get("retain_graph")
                create = args[2] if len(args) > 2 else kwargs.get("create_graph")
                if retain and not create:
                    self.retained += 1
                    if self.retained <= LOOKED_UP:
                        self.retained_lines[user_line(sys._getframe(1))] += 1
            return original(tensors, *args, **kwargs)

        return backward

    def _copying(self, original: Any) -> Any:
        def deepcopy(parameter: Any, memo: Any) -> Any:
            began = time.perf_counter_ns()
            copy = original(parameter, memo)
            if self.watch.observer.candidate():
                line = user_line(sys._getframe(1))
                self._note(self.copied, line, time.perf_counter_ns() - began)
            return copy

        return deepcopy

    def _syncing(self, original: Any) -> Any:
        def fsync(*args: Any) -> Any:
            began = time.perf_counter_ns()
            try:
                return original(*args)
            finally:
                if self.watch.observer.candidate():
                    self._note(self.synced, user_line(sys._getframe(1)), time.perf_counter_ns() - began)

        return fsync

    def _note(self, where: dict[Line, list[float]], line: Line, spent: int) -> None:
        if line in where or len(where) < MOST:
            entry = where.setdefault(line, [0, 0.0])
            entry[0] += 1
            entry[1] += spent / 1e9

    def _opening(self, original: Any) -> Any:
        account, opened = self.watch.observer.account, self.opened

        def opening(file: Any, *args: Any, **kwargs: Any) -> Any:
            # While a batch is fetched on this thread; `account` is on only there and then.
            if account.on and account.current == DATA and isinstance(file, str | os.PathLike):
                with contextlib.suppress(Exception):
                    name = os.fspath(file)
                    entry = opened.get(name)
                    if entry is not None:
                        entry[0] += 1
                    elif len(opened) < MOST:
                        opened[name] = [1, user_line(sys._getframe(1))]
            return original(file, *args, **kwargs)

        return opening

    # at the first updates, and then ever further apart

    def every_update(self, number: int) -> None:
        """Is the next one looked at?"""
        if self.look.now:
            self._passed()
        self.look.over(number)
        self.calls = []

    def every_called(self, call: Call) -> None:
        """Was it called on the same input a moment ago, with the same weights?"""
        if not self.look.now:
            return
        tensor = next((one for one in (*call.args, *call.kwargs.values()) if hasattr(one, "data_ptr")), None)
        if tensor is None or not tensor.numel():
            return
        if call.grad and tensor.ndim:
            # The last size of numbers is their features; what is gone through step by step lies before it.
            steps = tensor.shape[1:-1] if tensor.is_floating_point() else tensor.shape[1:]
            self.batch, self.sizes = int(tensor.shape[0]), tuple(steps)
        if self.watch.observer.stepping or self.watch.observer.account.current == OPTIMIZER:
            return  # a closure calls as often as its optimizer asks
        output = call.output[0] if isinstance(call.output, tuple) and call.output else call.output
        node = getattr(output, "grad_fn", None)
        if len(self.calls) >= CALLS or (node is None and not self.calls):
            return
        entry = {
            "module": id(call.module),
            "input": ref(tensor),
            "state": (tensor._version, call.module.training),
            "line": call.line,
            "graph": node is not None,
            "used": False,
            "random": False,
        }
        if node is not None:
            node.register_prehook(lambda *_: entry.update(used=True))
        if any(self._same(entry, other) for other in self.calls):
            entry["random"] = any(
                "Dropout" in type(child).__name__ and child.training for child in call.module.modules()
            )
        self.calls.append(entry)

    def _same(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        given = one["input"]()
        return (
            given is not None
            and other["input"]() is given
            and one["module"] == other["module"]
            and one["state"] == other["state"]
        )

    def every_backward(self, loss: Any) -> None:
        """Is anomaly mode on?"""
        if not self.look.now:
            return
        import torch

        del loss
        self.backwards += 1
        self.anomaly += torch.is_anomaly_enabled()

    def _passed(self) -> None:
        """Which calls were for nothing that a backward pass could use, now that it has passed?"""
        calls = self.calls
        if not calls:
            return
        self.again_looked += 1
        unused = [one for one in calls if not one["used"] and any(o["used"] and self._same(one, o) for o in calls)]
        for one in unused:
            self.again[one["line"]] += 1
            self.again_graph += one["graph"]
            self.again_random = self.again_random or one["random"]
        self.again_updates += bool(unused)

    def every_step(self, optimizer: Any) -> None:
        """Which weights get gradients that nobody uses? And in which precision are they?"""
        import torch

        del optimizer
        if not self.look.now or self.watch.updates < 2:
            return
        weights = [weight for model in self.watch.models for weight in model.parameters()]
        total = sum(weight.numel() for weight in weights)
        self.float64 = (sum(w.numel() for w in weights if w.dtype == torch.float64), total)
        self._look_for_idle(total)

    def _look_for_idle(self, total: int) -> None:
        entries = self.watch.observer.facts.optimizers
        held = {id(p) for entry in entries for group in entry.optimizer.param_groups for p in group["params"]}
        count = size = 0
        first, resting = "", True
        seen: set[int] = set()
        for model in self.watch.models:
            for name, module in model.named_modules():
                for short, weight in module.named_parameters(recurse=False):
                    if id(weight) in seen or id(weight) in held or not weight.requires_grad or weight.grad is None:
                        continue
                    seen.add(id(weight))
                    first = first or f"{type(model).__name__}.{name + '.' if name else ''}{short}"
                    count, size = count + 1, size + weight.numel()
                    resting = resting and not module.training
        self.idle = (count, size, total, first, resting and count > 0)

    def over(self) -> None:
        """Nothing is held any longer."""
        self.calls = []

    def summary(self) -> dict[str, Any] | None:
        """What was counted."""
        import torch

        observer = self.watch.observer
        if not self.watch.updates and not self.passes:
            return None
        count, size, total, first, resting = self.idle
        line, again = (self.again.most_common(1) or [(NOWHERE, 0)])[0]
        recompiled, limit, compile_s = _recompiled()
        return {
            "updates": self.watch.updates,
            "cores": len(os.sched_getaffinity(0)),
            "threads": torch.get_num_threads(),
            "threads_set": self.threads_set,
            "threads_where": _place(self.threads_line),
            "float64_share": self.float64[0] / self.float64[1] if self.float64[1] else 0.0,
            "float64_where": _place(self.double_line),
            "float64_default": torch.get_default_dtype() == torch.float64,
            "first_loss": _finite(observer.first_loss),
            "last_loss": _finite(observer.last_loss),
            "anomaly": self.anomaly,
            "backwards": self.backwards,
            "anomaly_where": _place(self.anomaly_line),
            "recompiled": recompiled,
            "recompile_limit": limit,
            "compile_s": compile_s,
            "retained": self.retained,
            "passes": self.passes,
            "retained_where": _place(next(iter(self.retained_lines), NOWHERE)),
            "again": again,
            "again_updates": self.again_updates,
            "again_looked": self.again_looked,
            "again_graph": self.again_graph,
            "again_random": self.again_random,
            "again_where": _place(line),
            "idle_share": size / total if total else 0.0,
            "idle_count": count,
            "idle_first": first,
            "idle_resting": resting,
            "copies": self._repeated("copies", self.copied),
            "fsyncs": self._repeated("fsync", self.synced),
            "opens": [
                {"what": os.path.basename(name), "where": _place(where), "times": times, "updates": self.watch.updates}
                for name, (times, where) in sorted(self.opened.items(), key=lambda item: -item[1][0])[:8]
            ],
            "batch": self.batch,
            "sizes": list(self.sizes),
        }

    def _repeated(self, what: str, where: dict[Line, list[float]]) -> list[dict[str, Any]]:
        return [
            {"what": what, "where": _place(line), "times": int(times), "updates": self.watch.updates, "seconds": spent}
            for line, (times, spent) in sorted(where.items(), key=lambda item: -item[1][1])[:8]
        ]


def _recompiled() -> tuple[list[dict[str, Any]], int, float]:
    """Functions that the compiler took on several times, how often is too often for it, and its seconds."""
    utils, config = sys.modules.get("torch._dynamo.utils"), sys.modules.get("torch._dynamo.config")
    if utils is None or not hasattr(utils, "get_compilation_metrics"):
        return [], 0, 0.0
    told: dict[tuple[str, str, int], dict[str, Any]] = {}
    spent = 0.0
    for one in utils.get_compilation_metrics():
        key = (str(one.co_name), str(one.co_filename), int(one.co_firstlineno or 0))
        seconds = float(one.entire_frame_compile_time_s or 0.0)
        spent += seconds
        if one.co_name is None or frames.is_ours(str(one.co_filename)):
            continue  # a frame that was not taken on, as after the limit; or what we do to a model at the end
        entry = told.setdefault(
            key,
            {"function": key[0], "where": {"file": key[1], "line": key[2]}, "times": 0, "seconds": 0.0, "reason": ""},
        )
        entry["times"] += 1
        entry["seconds"] += seconds
        entry["reason"] = str(getattr(one, "recompile_reason", None) or entry["reason"])[:LONGEST]
    limit = int(getattr(config, "recompile_limit", 0) or getattr(config, "cache_size_limit", 0) or 0)
    return sorted(told.values(), key=lambda entry: -entry["times"])[:8], limit, spent


def _finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < float("inf") else None


def _place(line: Line) -> dict[str, Any] | None:
    return {"file": line.file, "line": line.line} if line.file else None


VITAL = Spends
