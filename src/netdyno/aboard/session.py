"""Orders and answers between two updates: the script waits at an iteration's boundary until the lab tells it to step."""

import atexit
import collections
import contextlib
import ctypes
import json
import os
import resource
import socket
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from .config import Config
from .knobs import _base
from .knobs._print import different, look

# Where no iteration is like most others (episodes of any length), none is odd: an event string must cover this share.
MAJORITY = 0.5
REMEMBERED = 64  # iterations on which that is judged
# A period that is still unknown after so many updates (it is looked for in 64) is taken to be one update.
PATIENCE = 80
# A turn that meets so many odd iterations per usual one will not come to its end: what was usual no longer is.
MOST_ODD = 8
# A thread that ran for less than this share of a turn did not stand in anybody's way.
AT_WORK = 0.01

Message = dict[str, Any]


class Session:
    """Drives one script. Once `warmup` updates are done and its period is known, it steps only when the lab orders."""

    def __init__(self, config: Config, observer: Any) -> None:
        self._config = config
        self._observer = observer
        self._process = os.getpid()
        self._recipe = _base.Recipe(observer.view)
        self._line: Line | None = None
        self._recent: collections.deque[str] = collections.deque(maxlen=REMEMBERED)
        self._events: list[str] = []
        self._work: Turn | Weighing | None = None
        # Of several ranks the first is driven; the others wait for it in their common operations.
        self._over = os.environ.get("RANK", "0") != "0"
        self._ending = False
        self._cycle: int | None = None
        _base.watch(observer.view)
        for change in config.recipe:
            if _base.when(change) == "start":
                _base.made(observer.view, change).on()
        observer.boundary.append(self.boundary)
        _tie_children()

    def boundary(self) -> None:
        """After each update, on the training thread. Raises Stop when the lab says so, and nothing else."""
        if self._ending:
            _stop()  # it was swallowed
        if self._over:
            return
        if os.getpid() != self._process:
            if self._line is not None:
                return  # the line is the parent's
            self._process = os.getpid()  # a script that forks, and trains in the child
        observer = self._observer
        self._events.append(event_of(observer))
        # Once driven, the period stays what it was: iterations must be alike.
        cycle = self._cycle or observer.cycle or (1 if observer.updates > PATIENCE else None)
        if cycle is None or observer.updates % cycle:
            return
        kind = " | ".join(self._events[-cycle:])
        self._events.clear()
        self._recent.append(kind)
        if self._line is not None or (observer.updates >= self._config.warmup and self._joined(cycle, kind)):
            self._iteration(kind)

    def _joined(self, cycle: int, kind: str) -> bool:
        """Join the lab, unless another process of this script has."""
        path = self._config.line
        if path is None or not _claimed(path):
            self._over = True
            return False
        try:
            self._line = Line(path)
        except OSError:
            self._over = True
            return False
        self._cycle = cycle
        self._observer.account.exact = True
        atexit.register(self._ended)
        self._say(_ready(self._observer, cycle, kind))
        return True

    def _iteration(self, kind: str) -> None:
        """One iteration is over; unless a turn goes on, the script waits here for orders."""
        if self._work is not None:
            if not self._work.took(kind, self._usual()):
                return
            work, self._work = self._work, None
            self._say(work.told())
        while not self._over and self._work is None:
            self._obey()
        if self._work is not None:
            self._work.begin()

    def _usual(self) -> str | None:
        """The event string of most iterations, or None when there is no such."""
        kind, count = collections.Counter(self._recent).most_common(1)[0]
        return kind if count > MAJORITY * len(self._recent) else None

    def _obey(self) -> None:
        order = self._line.receive() if self._line is not None else None
        if order is None or order["do"] == "end":
            self._end()
            return
        obey: Callable[[Message], Message | None] = getattr(self, f"_do_{order['do']}")
        try:
            answer = obey(order)
        except Exception as error:
            answer = {"is": "failed", "says": _sentence(error), "place": place_of(error)}
            answer["trace"] = traceback.format_exc()[-4000:]  # a long traceback, not a log
        if answer is not None:
            self._say(answer)

    def _do_turn(self, order: Message) -> None:
        before = self._observer.reading()
        self._recipe.follow(self._toggles(order.get("recipe")))
        spent = _own(before, self._observer.reading())
        lead, whole = order.get("lead", 1), order.get("whole", False)
        self._work = Turn(self._observer, order["steps"], lead=lead, switching=spent, whole=whole)

    def _do_ask(self, order: Message) -> Message:
        self._recipe.follow(self._toggles(order.get("recipe")))
        try:
            why = _base.refused(self._observer.view, order["change"])
        except Exception as error:
            why = f"it could not be looked at: {_sentence(error)}"
        return {"is": "answer", "refused": why, "when": _base.when(order["change"])}

    def _do_undo(self, order: Message) -> Message:
        base = self._toggles(order.get("recipe"))
        self._recipe.follow(base)
        # Once before the first look: what is made once and kept, such as a cache, is no trace of a change.
        self._recipe.follow([*base, order["change"]])
        self._recipe.follow(base)
        before = look(self._observer.view)
        self._recipe.follow([*base, order["change"]])
        self._recipe.follow(base)
        return {"is": "undone", "different": different(before, look(self._observer.view))}

    def _do_memory(self, order: Message) -> None:
        self._recipe.follow(self._toggles(order.get("recipe")))
        self._work = Weighing(self._observer.view)

    def _do_go(self, order: Message) -> None:
        self._recipe.clear()
        self._over = True

    def _toggles(self, recipe: list[Message] | None) -> list[Message]:
        """What can be switched now. What only works from the start must be on since then."""
        since = [change["id"] for change in self._config.recipe]
        for change in recipe or ():
            if _base.when(change) == "start" and change["id"] not in since:
                raise ValueError(f"`{change['id']}` only works from the start of a script")
        return [change for change in recipe or () if _base.when(change) != "start"]

    def _say(self, message: Message) -> None:
        if self._line is not None and not self._line.send(message):
            self._end()

    def _end(self) -> None:
        with contextlib.suppress(Exception):
            self._recipe.clear()
        self._ending = True
        _stop()

    def _ended(self) -> None:
        """When Python ends: the script came to its own end, or to an error that nobody caught."""
        if self._line is None or self._ending or self._over or os.getpid() != self._process:
            return
        error = getattr(sys, "last_value", None)
        says = "the script came to its end" if error is None else _sentence(error)
        self._line.send({
            "is": "over", "says": says, "failed": error is not None, "updates": self._observer.updates,
            "place": "" if error is None else place_of(error),
        })  # fmt: skip


class Line:
    """The socket to the lab: JSON, one message a line."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._pending = b""

    def send(self, message: Message) -> bool:
        """False when nobody listens any more."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True

    def receive(self) -> Message | None:
        """The next order, or None when the lab is gone."""
        while b"\n" not in self._pending:
            try:
                more = self._socket.recv(1 << 16)
            except OSError:
                return None
            if not more:
                return None
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        order: Message = json.loads(line)
        return order


class Turn:
    """Some usual iterations and where their time went. The first `lead` ones are not counted: what was just switched
    compiles, fills caches, or finds a queue of batches that grew while the script waited for orders.

    A `whole` turn counts unusual iterations too, among them those in which a pass over the loader starts.
    """

    def __init__(self, observer: Any, steps: int, *, lead: int, switching: int, whole: bool = False) -> None:
        self._whole = whole
        self._observer = observer
        self._wanted = steps
        self._lead = lead
        self._leading: list[int] = []
        self._switching = switching
        self._steps = self._odd = 0
        self._split = [0, 0, 0]  # wall, running, waiting
        self._phases: dict[str, list[int]] = {}
        self._losses: list[tuple[int, int]] = []  # how many were known before and after each counted iteration
        self._known = 0
        self._all = 0
        self._beside: Beside | None = None
        self._before: Mapping[str, Any] = {}

    def begin(self) -> None:
        """The last thing before the script goes on."""
        _settle()
        if self._lead <= len(self._leading):
            self._beside = beside()
        self._known = len(self._observer.losses)
        self._before = self._observer.reading()

    def took(self, kind: str, usual: str | None) -> bool:
        """One more iteration is over; True when it was the last."""
        odd = (
            not self._whole
            and usual is not None
            and kind != usual
            and self._odd < MOST_ODD * (self._steps + REMEMBERED)
        )
        leading = len(self._leading) < self._lead
        if leading or (not odd and self._steps + 1 == self._wanted):
            _settle()  # what a device still has to do belongs to the iterations that asked for it
        now = self._observer.reading()
        if leading:
            self._leading.append(_own(self._before, now))
        elif odd:
            self._odd += 1
        else:
            self._count(now)
        self._all += 0 if leading else now["wall"] - self._before["wall"]
        if self._steps == self._wanted:
            return True
        if leading and len(self._leading) == self._lead:
            self._beside = beside()
        self._known = len(self._observer.losses)
        self._before = self._observer.reading()
        return False

    def _count(self, now: Mapping[str, Any]) -> None:
        self._steps += 1
        self._losses.append((self._known, len(self._observer.losses)))
        for position, clock in enumerate(("wall", "running", "waiting")):
            self._split[position] += now[clock] - self._before[clock]
        for name, parts in now["phases"].items():
            before = self._before["phases"].get(name, (0, 0, 0))
            total = self._phases.setdefault(name, [0, 0, 0])
            for position in range(3):
                total[position] += parts[position] - before[position]

    def told(self) -> Message:
        """The answer. Here, with the clock stopped, losses are read, which may wait for a device."""
        wall, running, waiting = self._split
        others = beside().since(self._beside, self._all) if self._beside is not None else Others()
        return {
            "is": "turn", "steps": self._steps, "odd": self._odd, "wall": wall, "running": running, "waiting": waiting,
            "phases": {name: parts for name, parts in self._phases.items() if any(parts)},
            "losses": self._loss_of_each(), "lead": self._leading, "switching": self._switching,
            # Odd iterations were watched too; what went on beside them is left out in proportion.
            "others": others.part(wall / self._all if self._all else 1.0, running)._asdict(),
        }  # fmt: skip

    def _loss_of_each(self) -> list[float]:
        """The loss of each iteration's last update; none at all unless each has one."""
        if not all(before < after for before, after in self._losses):
            return []
        return [float(self._observer.losses[after - 1]) for _, after in self._losses]


class Weighing:
    """One iteration in which the storages that autograd keeps are counted, each once and whole."""

    def __init__(self, view: Any) -> None:
        self._view = view
        self._known: set[int] = set()
        self._saved: dict[int, int] = {}
        self._held: list[Any] = []  # so that memory used twice is not taken for one storage

    def begin(self) -> None:
        self._known = {key for key, _ in _storages((*_base.parameters(self._view), *_buffers(self._view)))}
        self._enter, self._look = self._keeping, self._arguments  # kept, to be found again
        self._view.around_forward.append(self._enter)
        self._view.inputs.append(self._look)

    def _arguments(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        self._known |= {key for key, _ in _storages(_base.tensors((args, kwargs)))}
        return args, kwargs

    @contextlib.contextmanager
    def _keeping(self) -> Iterator[None]:
        import torch

        def pack(tensor: Any) -> Any:
            for key, held in _storages((tensor,)):
                if key not in self._saved:
                    self._saved[key] = held.nbytes()
                    self._held.append(held)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield

    def took(self, kind: str, usual: str | None) -> bool:
        _base.drop(self._view.around_forward, self._enter)
        _base.drop(self._view.inputs, self._look)
        return True

    def told(self) -> Message:
        kept = [*_base.parameters(self._view), *_buffers(self._view)]
        kept += [each.grad for each in kept if each.grad is not None]
        for optimizer in self._view.optimizers:
            kept += _base.tensors([dict(state) for state in optimizer.state.values()])
        state = {key: held.nbytes() for key, held in _storages(kept)}
        activations = sum(size for key, size in self._saved.items() if key not in self._known)
        self._held.clear()
        return {"is": "memory", "state": sum(state.values()), "activations": activations}


def _buffers(view: Any) -> list[Any]:
    return [buffer for model in view.models for buffer in model.buffers()]


def _storages(tensors: Any) -> Iterator[tuple[int, Any]]:
    import torch

    for tensor in tensors:
        if tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            if storage.data_ptr():
                yield storage.data_ptr(), storage


class Others(NamedTuple):
    """What went on beside the training thread, in seconds, and whether more than the cores can hold was at work."""

    running: float = 0.0
    waiting: float = 0.0
    foreign: float = 0.0
    crowded: bool = False

    def part(self, share: float, own_ns: int) -> "Others":
        """The part that belongs to a share of the time, in which the thread itself ran for `own_ns`."""
        foreign = max(0.0, self.foreign * share - own_ns / 1e9)
        return Others(self.running * share, self.waiting * share, foreign, self.crowded)


class Beside(NamedTuple):
    """Run time and run delay of every other thread of this process and of its children, and what all programs ran."""

    tasks: dict[int, tuple[float, float]]
    ended: float
    busy: float

    def since(self, before: "Beside", wall_ns: int) -> Others:
        """What lies between; `foreign` still holds the training thread's own time."""
        gone = sum(run for task, (run, _) in before.tasks.items() if task not in self.tasks)
        spent = [
            (run - before.tasks.get(task, (0.0, 0.0))[0], wait - before.tasks.get(task, (0.0, 0.0))[1])
            for task, (run, wait) in self.tasks.items()
        ]
        # What a worker ran before was counted then; what it ran in all is known once it has ended.
        running = sum(run for run, _ in spent) + max(0.0, self.ended - before.ended - gone)
        at_work = 1 + sum(run > AT_WORK * wall_ns / 1e9 for run, _ in spent)
        return Others(
            running, sum(wait for _, wait in spent), self.busy - before.busy - running, at_work > _base.cores()
        )


def beside() -> Beside:
    """What the other threads, the children and the machine have done so far. Read twice a turn."""
    own, me = os.getpid(), threading.get_native_id()
    tasks: dict[int, tuple[float, float]] = {}
    for process in (own, *_children(own)):
        for task in _tasks(process):
            if task != me:
                with contextlib.suppress(OSError, ValueError), open(f"/proc/{process}/task/{task}/schedstat") as file:
                    run, wait = file.read().split()[:2]
                    tasks[task] = (int(run) / 1e9, int(wait) / 1e9)
    dead = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Beside(tasks, dead.ru_utime + dead.ru_stime, _busy())


def _busy() -> float:
    """What all programs spent on the cores that this process may use, in seconds."""
    with contextlib.suppress(OSError, ValueError, AttributeError), open("/proc/stat") as file:
        mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        rows = [line.split() for line in file if line.partition(" ")[0] in mine]
        # user, nice, system, interrupts and soft interrupts: neither idle nor waiting for a disk
        return sum(int(row[at]) for row in rows for at in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _children(process: int) -> list[int]:
    found: list[int] = []
    for task in _tasks(process):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{process}/task/{task}/children") as file:
            found += [int(child) for child in file.read().split()]
    return found


def _tasks(process: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except OSError:
        return []


def _own(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Nanoseconds between two readings in which the thread did not wait for a core that somebody else had."""
    return max(0, int(after["wall"] - before["wall"] - (after["waiting"] - before["waiting"])))


def _settle() -> None:
    """Wait for a device, so that a turn's time holds all its work and none of another's."""
    torch = sys.modules["torch"]
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _stop() -> None:
    from . import stopping

    stopping.stop("ordered", "the lab has seen enough")


DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
KILL = 9


def _tie_children() -> None:
    """From now on what this process forks dies with it, also while it is frozen and could not notice by itself.

    The kernel ties a child to the thread that forked it; another than the main one may end long before its children.
    """
    try:
        control = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):  # not Linux
        return
    by_main: list[bool] = []

    def before() -> None:
        by_main[:] = [threading.current_thread() is threading.main_thread()]

    def in_child() -> None:
        if all(by_main):
            control(DIE_WITH_PARENT, KILL, 0, 0, 0)

    os.register_at_fork(before=before, after_in_child=in_child)


def _claimed(path: str) -> bool:
    """True for one process of the script: the first that asks."""
    try:
        os.close(os.open(f"{path}.taken", os.O_CREAT | os.O_EXCL))
    except OSError:
        return False
    return True


def _ready(observer: Any, cycle: int, kind: str) -> Message:
    import torch

    view = observer.view
    return {
        "is": "ready", "pid": os.getpid(), "updates": observer.updates, "cycle": cycle, "event": kind,
        "threads": torch.get_num_threads(), "checksum": observer.summary().get("checksum"),
        "models": [
            {"kind": type(model).__name__, "parameters": sum(each.numel() for each in model.parameters())}
            for model in view.models
        ],
        "workers": max((int(loader.num_workers) for loader in view.loaders), default=0),
    }  # fmt: skip


def _sentence(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def place_of(error: BaseException) -> str:
    """The last line of the user's own code on the way to an error: ` (file:line)`, or nothing."""
    strangers = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "purelib", "platlib"))
    here = os.path.dirname(os.path.abspath(__file__))
    places = [
        f" ({frame.filename}:{frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", here, *strangers))
    ]
    return places[-1] if places else ""


def event_of(observer: Any) -> str:
    """What happened in the update that has just ended, as one string."""
    return str(observer.event)
