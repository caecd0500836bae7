"""What grows while a script trains: memory, the graph under its loss, hooks, worker processes, lists and caches."""

import contextlib
import os
import sys
import time
from collections import Counter, deque
from typing import Any, ClassVar
from weakref import ref

from ..frames import Line, user_line
from ._base import Call, Vital, Watch
from ._further import Further
from ._keepers import Named, bound, each_bytes, entries, line_of, tensors_in, variables

# Samples of memory: when there are as many, every second one goes, and the next are twice as far apart.
SAMPLES = 128
# A walk through a graph ends here, a millisecond or two, or at six times the first graph, whatever is more: one that grows
# shows it by then. A graph of so many nodes takes much longer to make than to walk through.
NODES, TIMES, MOST_NODES = 3000, 6, 30_000
# Graphs that are marked, and how many updates a mark has to outlive to count as kept. Nobody averages over fewer.
MARKS, OLD = 64, 20
# Updates at which the sequence numbers of graphs were noted: what is older than the first of them is old enough.
BOUNDARIES = 64
# Looks at all variables of the user's functions: a millisecond each.
SEARCHES = 12
# Hooks and weights are counted by going through all modules.
COUNTS = 64
# Reads of the memory of workers: the kernel walks their page tables for each.
READS = 24
# Python objects in a container of a data set: fewer fit in a few pages.
MANY = 10_000
# Outputs of one evaluation that are watched.
OUTPUTS = 4096


class _Mark:
    """Lives as long as the node of a graph that it was put on."""

    __slots__ = ("__weakref__",)


class Grows(Vital):
    """Looks now and then at what should stay as large as it is."""

    kind: ClassVar[str] = "Growth"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.resident: list[tuple[int, int]] = []
        self.running: list[tuple[int, float]] = []
        self.stride = 1
        self.look = Further()
        self.graphs: list[tuple[int, int, int, bool]] = []
        self.boundaries: deque[tuple[int, int]] = deque(maxlen=BOUNDARIES)
        self.newest = -1
        self.passes = self.before = 0  # backward passes; those before anybody knew what an update is
        self.marks: deque[tuple[int, Any]] = deque(maxlen=MARKS)
        self.marked = self.kept = 0
        self.keeper: tuple[str, str, str] | None = None
        self.carried: Line | None = None
        self.hooks: list[tuple[int, int]] = []
        self.hook_lines: Counter[Line] = Counter()
        self.children: list[tuple[int, int]] = []
        self.swelling: dict[tuple[str, str, str], list[tuple[int, int, int | None]]] = {}
        self.searches = 0
        self.private: list[tuple[int, int, int]] = []
        self.batches = 0
        self.next_read = 2
        self.dataset, self.objects = "", 0
        self.state: tuple[int, int, int] = (0, 0, 0)
        self.steps: dict[int, int] = {}  # the update of each optimizer's last step
        self.round: list[tuple[Any, int]] = []
        self.outputs, self.outputs_kept, self.outputs_line = 0, 0, Line("", 0, "")
        self.page = os.sysconf("SC_PAGE_SIZE")
        self._listen()

    def _listen(self) -> None:
        import torch

        names = (
            "register_forward_hook",
            "register_forward_pre_hook",
            "register_full_backward_hook",
            "register_full_backward_pre_hook",
        )
        patches = self.watch.observer.replacements
        for name in names:
            patches.replace(f"vital {name}", torch.nn.Module, name, self._registering)

    def _registering(self, original: Any) -> Any:
        is_compiling, frame_of, lines = self.watch.observer.is_compiling, sys._getframe, self.hook_lines

        def register(*args: Any, **kwargs: Any) -> Any:
            if not is_compiling():
                with contextlib.suppress(Exception):
                    lines[user_line(frame_of(1))] += 1
            return original(*args, **kwargs)

        return register

    # always

    def every_update(self, number: int) -> None:
        """A page of numbers about this process, at ever longer distances."""
        if number == 1:
            self._begin()
        self._over(number + self.before)

    def _over(self, number: int) -> None:
        if self.newest >= 0:
            self.boundaries.append((number, self.newest))
        if self.look.now:
            self._update(number)
        self.look.over(number)
        if number % self.stride:
            return
        self.resident.append((number, self._resident()))
        self.running.append((number, time.thread_time_ns() / 1e9))
        if len(self.resident) >= SAMPLES:
            self.stride *= 2
            self.resident, self.running = self.resident[1::2], self.running[1::2]

    def _begin(self) -> None:
        """Updates are counted from here on. Where they are backward passes, those that went before were some too."""
        if self.watch.observer.counted_by == "backward":
            self.before = self.passes - 1
        else:
            self.graphs.clear()
            self.boundaries.clear()
            self.marks.clear()
            self.resident, self.running, self.stride = [], [], 1
            self.look = Further()

    def _resident(self) -> int:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * self.page

    def every_backward(self, loss: Any) -> None:
        """How old a graph is, by the numbers that autograd gives its nodes."""
        node = getattr(loss, "grad_fn", None)
        if node is not None:
            self.newest = max(self.newest, node._sequence_nr())
            self.passes += 1
            if self.look.now:
                self._backward(node)
            if not self.watch.updates and not self.watch.observer.stepping:
                self._over(self.passes)  # nobody knows yet what an update is

    def every_stepped(self, optimizer: Any) -> None:
        """One that steps no more is nobody's burden: it goes with the stage that it served."""
        self.steps[id(optimizer)] = self.watch.updates

    def every_called(self, call: Call) -> None:
        """Outputs of an evaluation: are they kept?"""
        if call.grad:
            if self.round:
                self.round = []
            if self.look.now:
                self._called(call)
            return
        if len(self.round) >= OUTPUTS:
            return
        output = call.output[0] if isinstance(call.output, tuple) and call.output else call.output
        if hasattr(output, "nbytes") and hasattr(output, "grad_fn"):
            self.round.append((ref(output), output.nbytes))
            count = len(self.round)
            if count >= 8 and not count & (count - 1):
                self._weigh(call)

    def _weigh(self, call: Call) -> None:
        alive = [size for output, size in self.round if output() is not None]
        if len(alive) >= 0.9 * len(self.round) and sum(alive) > self.outputs_kept:
            self.outputs, self.outputs_kept, self.outputs_line = len(alive), sum(alive), call.line

    def every_batch(self, loader: Any, batch: Any) -> None:
        """Now and then: what loader workers have for themselves."""
        del batch
        self.batches += 1
        if self.batches < self.next_read or not loader.made["workers"] or len(self.private) >= READS:
            return
        self.next_read = self.batches + max(8, self.batches // 4)
        self._read_workers(loader)

    def _read_workers(self, loader: Any) -> None:
        pids = [child.pid for child in _children() if child.is_alive()]
        if not pids:
            return
        if not self.objects:
            self.dataset, self.objects = _objects(getattr(loader.ref(), "dataset", None))
        sizes = [_private(pid) for pid in pids]
        self.private.append((self.batches, len(sizes), sum(sizes)))

    # at the first updates, and then ever further apart

    def _called(self, call: Call) -> None:
        """A module is called with a tensor whose graph is of an earlier update."""
        if self.carried is not None or len(self.boundaries) < 2 * self._cycle() + 2:
            return
        limit = self.boundaries[-self._cycle()][1]
        for given in (*call.args, *call.kwargs.values()):
            for tensor in tensors_in(given):
                node = tensor.grad_fn
                if node is not None and node._sequence_nr() <= limit:
                    self.carried = call.line
                    return

    def _backward(self, node: Any) -> None:
        """How large is the graph, and how much of it is old?"""
        at = self._at()
        if self.graphs and at == self.graphs[-1][0]:
            return
        cycle = self._cycle()
        limit = self.boundaries[-cycle][1] if len(self.boundaries) >= cycle else -1
        most = NODES if not self.graphs else min(MOST_NODES, max(NODES, TIMES * self.graphs[0][1]))
        nodes, old, first = _walk(node, limit, most)
        self.graphs.append((at, nodes, old, nodes >= most))
        mark = _Mark()
        # Whoever holds any part of the graph of a model's output holds what was computed first in it.
        node.metadata["netdyno"] = first.metadata["netdyno"] = mark
        self.marks.append((at, ref(mark)))

    def _update(self, number: int) -> None:
        """Marks that should be gone, hooks, children; and, at growing distances, all variables."""
        old = [mark for at, mark in self.marks if number - at >= OLD]
        self.marked, self.kept = len(old), sum(mark() is not None for mark in old)
        if len(self.hooks) < COUNTS:
            self.hooks.append((number, sum(map(_hooks, self.watch.models))))
        children = len(_children())
        if not self.children or (self.children[-1][1] != children and len(self.children) < COUNTS):
            self.children.append((number, children))
        self._weigh_state()
        if number >= 2 ** (self.searches + 1) and self.searches < SEARCHES:
            self._search(number)

    def _at(self) -> int:
        return self.watch.updates + self.before if self.watch.updates else self.passes - 1

    def _cycle(self) -> int:
        return max(self.watch.observer.cycle or 1, len(self.watch.optimizers), 1)

    def _search(self, number: int) -> None:
        """Who holds a graph, and what has more entries than before?"""
        self.searches = max(self.searches + 1, number.bit_length() - 1)
        limit = self.boundaries[-1 - self._cycle()][1] if len(self.boundaries) > self._cycle() else -1
        suspects: list[tuple[int, Named]] = []
        for named in variables(sys._getframe()):
            age = min(
                (t.grad_fn._sequence_nr() for t in tensors_in(named.value) if t.grad_fn is not None), default=None
            )
            if age is not None:
                suspects.append((age, named))
            self._count(number, named)
        held = [(age, one) for age, one in suspects if isinstance(one.value, list | dict | deque) and age <= limit]
        if held:
            self._keeps(min(held, key=lambda item: item[0])[1])
        elif self.kept >= 4 or (self.graphs and self.graphs[-1][2]):
            deepest = max(suspects, key=lambda item: _depth(item[1].value), default=None)
            if deepest is not None:
                self._keeps(deepest[1])

    def _keeps(self, named: Named) -> None:
        self.keeper = (named.name, named.file, named.function)

    def _count(self, number: int, named: Named) -> None:
        count = entries(named.value)
        if count is None or bound(named.value):
            return
        key = (named.name, named.file, named.function)
        seen = self.swelling.get(key)
        if seen is None:
            if len(self.swelling) < 256:
                self.swelling[key] = [(number, count, None)]
        elif count > seen[-1][1]:
            seen.append((number, count, each_bytes(named.value)))
        elif count < seen[-1][1]:
            seen[:] = [(number, count, None)]  # it is emptied now and then

    def _weigh_state(self) -> None:
        """Bytes of state, and those of weights that are frozen by now."""
        parameters = state = frozen = 0
        latest = self.watch.updates - 2 * self._cycle()
        for one in self.watch.optimizers:
            works = self.steps.get(id(one), -1) >= latest
            for group in one.param_groups:
                for weight in group["params"]:
                    held = one.state.get(weight) or {}
                    size = sum(v.nbytes for v in held.values() if getattr(v, "ndim", 0))
                    parameters += weight.nbytes
                    state += size
                    frozen += size if works and not weight.requires_grad else 0
        self.state = (parameters, state, frozen)

    def summary(self) -> dict[str, Any] | None:
        """What was seen, as far as it grew or might have."""
        if not self.resident and not self.private:
            return None
        hook_line, adds = (self.hook_lines.most_common(1) or [(Line("", 0, ""), 0)])[0]
        return {
            "updates": self._at() + (not self.watch.updates),
            "cycle": self._cycle(),
            "resident": list(self.resident),
            "running_s": list(self.running),
            "graphs": [
                {"update": at, "nodes": nodes, "old": old, "capped": cut} for at, nodes, old, cut in list(self.graphs)
            ],
            "marked": self.marked,
            "kept": self.kept,
            "keeper": self.keeper[0] if self.keeper else "",
            "keeper_where": _placed(self.keeper) if self.keeper else None,
            "carried": _place(self.carried),
            "hooks": list(self.hooks),
            "hook_where": _place(hook_line),
            "hook_adds": adds,
            "children": list(self.children),
            "swellings": list(self._swellings()),
            "private": [{"batches": at, "workers": many, "bytes": size} for at, many, size in self.private],
            "dataset": self.dataset,
            "objects": self.objects,
            "parameter_bytes": self.state[0],
            "state_bytes": self.state[1],
            "frozen_state_bytes": self.state[2],
            "outputs": self.outputs,
            "outputs_kept_bytes": self.outputs_kept,
            "outputs_where": _place(self.outputs_line),
        }

    def _swellings(self) -> Any:
        # Twice more is what an epoch's list may show; three times in a row is no accident.
        for key, seen in list(self.swelling.items()):
            if len(seen) >= 4 and not any(key[0] == f"{other}.{key[0]}" for other, *_ in self.swelling):
                yield {
                    "name": key[0],
                    "where": _placed(key),
                    "first": seen[0][1],
                    "last": seen[-1][1],
                    "updates": seen[-1][0] - seen[0][0],
                    "each_bytes": seen[-1][2],
                }


def _walk(root: Any, limit: int, most: int = NODES) -> tuple[int, int, Any]:
    """Nodes that can be reached from `root`, those of them made before `limit`, and the first that was made after it.

    The nearest to the root are counted first, so that of a graph which is too large the old ones are left out.
    """
    seen, waiting, old = {root}, deque((root,)), 0
    first, earliest = root, root._sequence_nr()
    while waiting and len(seen) < most:
        for node, _ in waiting.popleft().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
                made = node._sequence_nr()
                if made <= limit:
                    old += 1
                elif made < earliest:
                    first, earliest = node, made
    return len(seen), old, first


def _depth(value: Any) -> int:
    return max((_walk(tensor.grad_fn, -1)[0] for tensor in tensors_in(value) if tensor.grad_fn is not None), default=0)


def _hooks(model: Any) -> int:
    modules = sum(
        len(module._forward_hooks)
        + len(module._forward_pre_hooks)
        + len(module._backward_hooks)
        + len(module._backward_pre_hooks)
        for module in model.modules()
    )
    return modules + sum(len(weight._backward_hooks or ()) for weight in model.parameters())


def _children() -> Any:
    """Processes that multiprocessing started and nobody has joined; asking for active ones would join them."""
    module = sys.modules.get("multiprocessing.process")
    return list(module._children) if module is not None else []


def _private(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Private_"))
    return 0


def _objects(dataset: Any) -> tuple[str, int]:
    """The attribute of a data set that holds most Python objects, none of them shared constants, and how many."""
    best = ("", 0)
    for _ in range(4):  # subsets and wrappers
        for name, value in list(getattr(dataset, "__dict__", {}).items()):
            if isinstance(value, list | tuple | dict) and len(value) >= max(MANY, best[1] + 1):
                one = next(iter(value.values() if isinstance(value, dict) else value))
                if isinstance(one, dict | list | tuple | str | bytes | float | int) or hasattr(one, "__dict__"):
                    best = (f"{type(dataset).__name__}.{name}", len(value))
        dataset = getattr(dataset, "dataset", None)
    return best


def _place(line: Line | None) -> dict[str, Any] | None:
    return {"file": line.file, "line": line.line} if line is not None and line.file else None


def _placed(key: tuple[str, str, str]) -> dict[str, Any]:
    return {"file": key[1], "line": line_of(*key)}


VITAL = Grows
