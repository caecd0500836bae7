"""Sides of a trial that are a user's own script: told over a socket when to step, frozen in between, started again when over."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from netdyno.aboard.knobs import _base as knobs
from netdyno.arms.last_words import ended, tail
from netdyno.arms.processes import killed_for_memory, peak_weight, signal_group
from netdyno.errors import ArmError, NetdynoError
from netdyno.interventions._base import environment_of
from netdyno.records.measured import Split, Turn
from netdyno.records.trial import Change, Memory
from netdyno.scripts.launch import Launched, launch, written_down
from netdyno.scripts.scratch import rewrite, scratch, telling
from netdyno.targets.script import Script

LIMIT_S = 600.0  # a turn compiles in its first steps, which on a busy machine takes minutes
START_S = 900.0  # from the start to the first updates: data may be prepared, models loaded
WARM_UP = 2  # updates before the first order: the first one allocates, and optimizers make their state
LEAST = 4  # iterations beyond the warm-up that a script must have: fewer are no turn worth starting it for
RELAUNCHES = 3  # a script that ends within a turn is started again; one that does so each time is too short
LOOK_S = 0.2  # how soon the end of a script is noticed that never called
FAREWELL_S = 2.0  # for its clean-up, once it was told to end

Sources = Mapping[str, str]  # a file of the script, relative to its working directory, and the text that it shall have
Message = dict[str, Any]
T = TypeVar("T")


class ScriptSession:
    """One running script that is driven. Several sides share it: they differ in what can be switched between steps.

    `start` are the changes that only work from the start: the script runs under them for its whole life. It is started
    when something is first asked of it, and again when it is over or has failed. Raises ArmError, and nothing else.
    """

    def __init__(
        self,
        script: Script,
        start: Sequence[Change] = (),
        *,
        seed: int = 0,
        limit_s: float = LIMIT_S,
        start_s: float = START_S,
        in_place: bool = False,
        online: bool = False,
        sources: Sources | None = None,
    ) -> None:
        self.script = script
        self.start = tuple(start)
        self.launches = 0
        self.touched: set[str] = set()  # the user's own files that changed while it ran: there should be none
        self._seed = seed
        self._limit_s = limit_s
        self._start_s = start_s
        self._scratch = {"in_place": in_place and not sources, "online": online}
        self._sources = sources or {}
        self._running: _Running | None = None

    def turn(self, recipe: Sequence[Change], steps: int) -> Turn:
        """`steps` iterations under what can be switched of `recipe`; the script starts anew when it ends within them."""
        return _as_turn(self.step(recipe, steps))

    def step(self, recipe: Sequence[Change], steps: int, *, whole: bool = False) -> Message:
        """The same as it was told: beside the turn, what switching and the first iterations took.

        A `whole` turn counts every iteration, also those in which a pass over the data starts.
        """
        for _ in range(RELAUNCHES + 1):
            running = self._alive()
            # Loader workers fill their queues while the script waits: one rotation of them is not counted.
            lead = max(1, running.ready["workers"])
            order = {"do": "turn", "recipe": written_down(recipe), "steps": steps, "lead": lead, "whole": whole}
            told = self._ask(order, doing="stepping")
            if told["is"] == "turn":
                return told
            self._too_short(running, told, steps=steps + lead)
        raise ArmError(f"`{self.script.name}` ended within each of {RELAUNCHES + 1} turns of {steps} iterations")

    def ask(self, change: Change, *, recipe: Sequence[Change] = ()) -> str | None:
        """Why the running script cannot be given a change, in its own words, or None."""
        refused: str | None = self._told("ask", change, recipe, doing="being asked about a change")["refused"]
        return refused

    def undo(self, change: Change, *, recipe: Sequence[Change] = ()) -> str | None:
        """What is different after a change was switched on and off without a step between, or None."""
        different: str | None = self._told("undo", change, recipe, doing="taking a change back")["different"]
        return different

    def memory(self, recipe: Sequence[Change] = ()) -> Memory:
        """Saved activations and persistent state under a recipe; the peak of a script that sides share says nothing."""
        told = self._told("memory", None, recipe, doing="counting its memory")
        return Memory(activations=told["activations"], state=told["state"])

    def checksum(self) -> str:
        """The hash of the first training batches, or "" when no batch could be seen."""
        return self._alive().ready["checksum"] or ""

    @property
    def ready(self) -> Message:
        """What the script said of itself when it was first driven."""
        return self._alive().ready

    @property
    def workers(self) -> int:
        """Loader workers of the training."""
        return int(self._alive().ready["workers"])

    def peak(self) -> int | None:
        """The most memory all its processes held so far, in bytes."""
        return None if self._running is None else self._running.peak()

    def close(self) -> None:
        """End the script and everything it started. Safe to call twice, and it may be asked again afterwards."""
        running, self._running = self._running, None
        if running is not None:
            running.close()
            self.touched.update(running.touched)

    def __enter__(self) -> "ScriptSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _told(self, do: str, change: Change | None, recipe: Sequence[Change], *, doing: str) -> Message:
        order: Message = {"do": do, "recipe": written_down(recipe)}
        if change is not None:
            order["change"] = written_down([change])[0]
        for _ in range(RELAUNCHES + 1):
            running = self._alive()
            told = self._ask(order, doing=doing)
            if told["is"] != "over":
                return told
            self._too_short(running, told, steps=1)
        raise ArmError(f"`{self.script.name}` ended each time while {doing}")

    def _alive(self) -> "_Running":
        if self._running is None:
            self.launches += 1
            self._running = _guarded(self._started, doing="being started")
        return self._running

    def _started(self) -> "_Running":
        return _Running(
            self.script, self.start, seed=self._seed, start_s=self._start_s, sources=self._sources, **self._scratch
        )

    def _ask(self, order: Message, *, doing: str) -> Message:
        running = self._alive()
        try:
            told = _guarded(lambda: running.ask(order, doing=doing, limit_s=self._limit_s), doing=doing)
        except BaseException:
            self.close()
            raise
        if told["is"] == "over":
            self.close()
        return told

    def _too_short(self, running: "_Running", told: Message, *, steps: int) -> None:
        """Raises for a script that will end within every such turn, however often it is started."""
        cycle = running.ready["cycle"]
        whole, begun = told["updates"] // cycle, running.ready["updates"] // cycle
        if whole < WARM_UP + LEAST or whole - begun < steps:
            raise ArmError(
                f"the whole run of `{self.script.name}` has {whole} iterations, {begun} of them before it can be driven:"
                f" too few for {steps}; give it more epochs or more data"
            )


class ScriptArm:
    """A recipe in a running script that sides share. Closing it leaves the script running: the session is its owner's."""

    def __init__(self, session: ScriptSession, recipe: Sequence[Change], *, whole: bool = False) -> None:
        self.recipe = tuple(recipe)
        self.session = session
        self.whole = whole
        self._closed = False
        self._first_s: float | None = None
        self._leading = 0
        self._quickest_s = float("inf")

    @property
    def setup_s(self) -> float:
        """Seconds that switching the recipe on and its first steps took beyond normal stepping."""
        if self._first_s is None:
            return 0.0
        return max(0.0, self._first_s - self._leading * self._quickest_s)

    def turn(self, steps: int) -> Turn:
        """Take `steps` iterations and say where the time went. Raises ArmError; then the arm is closed."""
        told = self._working(lambda: self.session.step(self.recipe, steps, whole=self.whole))
        turn = _as_turn(told)
        self._quickest_s = min(self._quickest_s, turn.per_step)
        if self._first_s is None:
            self._leading = len(told["lead"])
            self._first_s = (told["switching"] + sum(told["lead"])) / 1e9
        return turn

    def checksum(self) -> str:
        """The hash of the first batches: both sides are fed by the one script."""
        return self._working(self.session.checksum)

    def memory(self) -> Memory:
        """Saved activations and persistent state. Takes one more iteration."""
        return self._working(lambda: self.session.memory(self.recipe))

    def close(self) -> None:
        """The recipe goes when the next side's comes; nothing was started that could be left. Safe to call twice."""
        self._closed = True

    def __enter__(self) -> "ScriptArm":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _working(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise ArmError("the side was closed before it was asked")
        try:
            return work()
        except BaseException:
            self.close()
            raise


class ScriptProcessArm:
    """A script of its own, frozen while other sides step: for what only works from the start, and for edited sources.

    Where sides differ in their loaders, turns have to be `whole`: workers start anew with each pass over the data, and a
    turn that left those iterations out would leave out their price.
    """

    def __init__(
        self,
        script: Script,
        recipe: Sequence[Change],
        *,
        seed: int = 0,
        limit_s: float = LIMIT_S,
        start_s: float = START_S,
        in_place: bool = False,
        online: bool = False,
        sources: Sources | None = None,
        whole: bool = False,
    ) -> None:
        # What an edit of the source stands for is done by the source and needs no knob; an environment is still needed.
        edited = sources is not None
        start = [change for change in from_the_start(recipe) if not edited or environment_of((change,))]
        toggled = [change for change in recipe if not edited and change not in start]
        self.recipe = tuple(recipe)
        self.session = ScriptSession(
            script, start,
            seed=seed, limit_s=limit_s, start_s=start_s, in_place=in_place, online=online, sources=sources,
        )  # fmt: skip
        self._arm = ScriptArm(self.session, toggled, whole=whole)
        try:
            self.session.checksum()
        except BaseException:
            self.close()
            raise

    @property
    def setup_s(self) -> float:
        """Seconds that switching and the first steps took beyond normal stepping."""
        return self._arm.setup_s

    def turn(self, steps: int) -> Turn:
        """Thaw, take `steps` iterations, freeze. Whole rotations of loader workers make turns alike."""
        return self._working(lambda: self._arm.turn(steps))

    def checksum(self) -> str:
        """The hash of the first batches."""
        return self._working(self._arm.checksum)

    def memory(self) -> Memory:
        """Activations and state, counted aboard; `peak` is the most that all its processes held so far."""
        memory = self._working(self._arm.memory)
        return Memory(activations=memory.activations, state=memory.state, peak=self.session.peak())

    def respawn(self) -> None:
        """The same side in a new process: the unit of replication between processes."""
        self.session.close()
        self._arm = ScriptArm(self.session, self._arm.recipe, whole=self._arm.whole)
        self.session.checksum()

    def close(self) -> None:
        """End the script and everything it started. Safe to call twice."""
        self._arm.close()
        self.session.close()

    def __enter__(self) -> "ScriptProcessArm":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _working(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except BaseException:
            self.close()
            raise


def from_the_start(recipe: Sequence[Change]) -> tuple[Change, ...]:
    """The changes of a recipe that only work from the script's start: its loader, its environment."""
    return tuple(
        change for change in recipe if environment_of((change,)) or knobs.when(written_down([change])[0]) == "start"
    )


def _guarded(work: Callable[[], T], *, doing: str) -> T:
    """Whatever goes wrong between the lab and a script is the side's failure."""
    try:
        return work()
    except NetdynoError as error:
        raise ArmError(f"{error.what}, because {error.because}") from error
    except OSError as error:
        raise ArmError(f"the side was lost while {doing}: {error}") from error


def _as_turn(told: Message) -> Turn:
    others = told["others"]
    return Turn(
        steps=told["steps"],
        time=_split(told["running"], told["waiting"], told["wall"] - told["running"] - told["waiting"]),
        phases={name: _split(*parts) for name, parts in told["phases"].items()},
        losses=tuple(told["losses"]),
        others_running=others["running"],
        others_waiting=others["waiting"],
        foreign_running=others["foreign"],
        crowded=others["crowded"],
    )


def _split(running: int, waiting: int, blocked: int) -> Split:
    return Split(running=running / 1e9, waiting=waiting / 1e9, blocked=blocked / 1e9)


class _Running:
    """One launch of a script as the lab sees it: frozen except while it is asked."""

    def __init__(
        self,
        script: Script,
        start: Sequence[Change],
        *,
        seed: int,
        start_s: float,
        sources: Sources,
        in_place: bool,
        online: bool,
    ) -> None:
        self._memory_kills = killed_for_memory()
        self._groups: tuple[int, ...] = ()
        self._alive: int | None = None
        self._pending = b""
        self.touched: tuple[str, ...] = ()
        self._undo = contextlib.ExitStack()
        try:
            self._place = self._undo.enter_context(scratch(script, in_place=in_place, online=online))
            rewrite(self._place, sources)
            # A path of its own: that of a socket may have a hundred characters, and results lie deeper.
            self._folder = self._undo.enter_context(telling("netdyno-line-"))
            self._launched, self._socket = self._joined(script, start, seed, start_s)
            self.ready = self._greeting(start_s)
            self._known()
            self._freeze()
        except BaseException:
            self.close()
            raise

    def _joined(
        self, script: Script, start: Sequence[Change], seed: int, start_s: float
    ) -> tuple[Launched, socket.socket]:
        """The script started, and its call taken."""
        line = self._folder / "line"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(line))
            listening.listen(1)
            listening.settimeout(LOOK_S)
            launched = self._undo.enter_context(
                launch(
                    script,
                    folder=self._folder / "told",
                    scratch=self._place,
                    recipe=start,
                    seed=seed,
                    line=str(line),
                    warmup=WARM_UP,
                    losses=True,
                    hz=0.0,
                )
            )
            self._launched = launched
            until = time.monotonic() + start_s
            while time.monotonic() < until:
                with contextlib.suppress(TimeoutError):
                    taken, _ = listening.accept()
                    self._undo.callback(taken.close)
                    return launched, taken
                if not launched.alive and not launched.members():
                    raise self._never_called(launched)
        raise ArmError(
            f"`{script.name}` did not finish its first updates within {start_s:g} s", last_words=launched.words()
        )

    def _never_called(self, launched: Launched) -> ArmError:
        failure = launched.failure()
        if failure is not None:
            return ArmError(f"{failure.what}, because {failure.because}", last_words=launched.words())
        updates = launched.stream().updates
        if not launched.stream().processes:
            return ArmError(f"could not attach to `{launched.name}`: no process of it told that it imported torch")
        troubles = [trouble.says for trouble in launched.stream().troubles]
        why = f" (aboard: {troubles[0]})" if troubles else ""
        return ArmError(
            f"the whole run of `{launched.name}` has {updates} updates, too few to be driven: warm-up takes {WARM_UP} and "
            f"a turn at least {LEAST} iterations{why}",
            last_words=launched.words(),
        )

    def _greeting(self, limit_s: float) -> Message:
        told = self._answer(limit_s)
        if told is None or told["is"] != "ready":
            raise self._died("taking its first steps")
        return told

    def _known(self) -> None:
        """Whoever is there now: groups are frozen whole, so that what they start later is met too."""
        own = os.getpgrp()
        groups = {self._launched.process.pid}
        for process in (*self._launched.members(), self.ready["pid"]):
            with contextlib.suppress(ProcessLookupError):
                groups.add(os.getpgid(process))
        self._groups = tuple(groups - {own})
        with contextlib.suppress(ProcessLookupError):
            self._alive = os.pidfd_open(self.ready["pid"])
            self._undo.callback(os.close, self._alive)

    def ask(self, order: Message, *, doing: str, limit_s: float) -> Message:
        """Thaw, give an order, wait for the answer, freeze. Raises ArmError with the last words."""
        # The order waits in the socket when the script wakes up.
        sent = self._sent(order)
        self._thaw()
        told = self._answer(limit_s) if sent else None
        if told is None:
            raise self._died(doing)
        if told["is"] == "over":
            return self._ended(told, doing)
        self._freeze()
        if told["is"] == "failed":
            says = f"the side failed while {doing}: `{told['says']}`{self._place.told(told['place'])}"
            raise ArmError(says, last_words=tail(self._place.told(told["trace"])))
        return told

    def peak(self) -> int | None:
        """The sum over its process groups, in bytes."""
        known = [weight for weight in map(peak_weight, self._groups) if weight is not None]
        return sum(known) if known else None

    def close(self) -> None:
        """Say farewell, then end everybody."""
        groups, self._groups = self._groups, ()
        if groups:
            if self._sent({"do": "end"}):
                self._signal(groups, signal.SIGCONT)
                self._until_gone(FAREWELL_S)
            # A frozen process can be killed, but not asked: whoever is left is ended by `Launched`.
            self._signal(groups, signal.SIGCONT)
            self._until_gone(FAREWELL_S)
            self.touched = self._place.touched()
        self._undo.close()

    def _ended(self, told: Message, doing: str) -> Message:
        """The script is over; an error that nobody caught, or an exit status, is a failure."""
        if told["failed"]:
            says = f"the side failed while {doing}: `{told['says']}`{self._place.told(told['place'])}"
            raise ArmError(says, last_words=self._launched.words())
        self._until_gone(FAREWELL_S)
        status = self._launched.process.poll()
        if status:
            raise self._died(doing)
        return told

    def _died(self, doing: str) -> ArmError:
        self._thaw()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._launched.process.wait(1.0)  # the line may break a moment before the process is gone
        status = self._launched.process.poll()
        memory = killed_for_memory() > self._memory_kills
        how = "was lost" if status is None else f"was {ended(status)}" if status < 0 else ended(status)
        if status == -signal.SIGKILL and memory:
            how = "was killed by the kernel, because the machine ran out of memory,"
        return ArmError(f"the side {how} while {doing}", last_words=self._launched.words())

    def _answer(self, limit_s: float) -> Message | None:
        """The next message; None when the process is gone without a word. Raises ArmError when the time is up."""
        watched = select.poll()
        watched.register(self._socket, select.POLLIN)
        if self._alive is not None:
            watched.register(self._alive, select.POLLIN)
        until = time.monotonic() + limit_s
        while b"\n" not in self._pending:
            ready = watched.poll(max(0.0, until - time.monotonic()) * 1e3)
            if not ready:
                raise ArmError(f"the side gave no answer within {limit_s:g} s", last_words=self._launched.words())
            # What it said before it died still counts, so the line is read first.
            heard = any(number == self._socket.fileno() for number, _ in ready)
            more = b""
            with contextlib.suppress(ConnectionError):
                more = self._socket.recv(1 << 16) if heard else b""
            if not more:
                return None
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        told: Message = json.loads(line)
        return told

    def _sent(self, order: Message) -> bool:
        try:
            self._socket.sendall(json.dumps(order).encode() + b"\n")
        except (OSError, AttributeError):  # gone, or never there
            return False
        return True

    def _freeze(self) -> None:
        self._signal(self._groups, signal.SIGSTOP)

    def _thaw(self) -> None:
        self._signal(self._groups, signal.SIGCONT)

    @staticmethod
    def _signal(groups: Sequence[int], number: int) -> None:
        for group in groups:
            signal_group(group, number)

    def _until_gone(self, patience_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._launched.process.wait(patience_s)
