"""Several processes that train one model: which of them this is, and which of them the others wait for.

Each rank writes a journal of its own; those of one training carry the same tag `group`. Nothing is asked of the other ranks
while they train: rank 0 reads their journals in the store, which the ranks of a machine share. Where they don't, each rank
is on its own.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from netdyno.monitor.alerts import Sink
from netdyno.records.journal import Alert, RunInfo
from netdyno.store import journal

if TYPE_CHECKING:
    from netdyno.monitor.run import Watch

CAUSE = "straggler-rank"
OWN, WAITING = "rank/own_s", "rank/waiting_s"
# Where a rank can stand still for the others: gradients are averaged during backward, buffers and statistics during forward, and
# what is asked of a device waits for all that was queued on it.
MEETING = ("forward", "loss", "backward", "after backward", "clip", "optimizer", "sync")
# Ten beats of the pulse are some seconds: long enough that one pause of one rank (a checkpoint, a collection) does not count.
BEATS = 10
# Ranks of one machine differ by some per cent of an update all the time; a fifth of it is worth somebody's walk to the machine.
WORTH_A_WORD = 0.20
# Who is waited for makes the others wait. Half of it must show, as some of the waiting hides behind other work.
SHOWS = 0.5
LOOK_FOR_MATES_S = 2.0  # reading a store takes longer the more runs there are
NEWEST = 50  # and those who train together have begun together
_begun: dict[str, int] = {}


class Place(NamedTuple):
    """One process among those that train together. `group` is the same for all of them, and for no other training."""

    rank: int
    world: int
    group: str | None


def place(run: str = "run") -> Place:
    """Where this process stands, as torch.distributed knows or else the environment that a launcher makes."""
    _begun[run] = at = _begun.get(run, 0) + 1
    told = sys.modules.get("torch.distributed")
    if told is not None and told.is_available() and told.is_initialized():
        return Place(
            told.get_rank(),
            told.get_world_size(),
            _agreed(f"netdyno/{run}/{at}") if told.get_world_size() > 1 else None,
        )
    rank, world = _number("RANK", 0), _number("WORLD_SIZE", 1)
    return Place(rank, world, _launched(run, at) if world > 1 else None)


def _number(name: str, otherwise: int) -> int:
    try:
        return int(os.environ.get(name) or otherwise)
    except ValueError:
        return otherwise


def _agreed(key: str) -> str | None:
    """A name that the first rank to ask has drawn. It asks the store of the process group, and waits for nobody."""
    from torch.distributed import distributed_c10d

    with contextlib.suppress(Exception):  # a store that cannot compare, or of another kind
        return str(distributed_c10d._get_default_store().compare_set(key, "", journal.new_id()).decode())
    return None


def _launched(run: str, at: int) -> str | None:
    """Before the processes have met, what their launcher calls them; its process tells one launch from the next."""
    where = os.environ.get("MASTER_ADDR")
    if where is None:
        return None
    return f"{where}-{os.environ.get('MASTER_PORT', '')}-{os.getppid()}-{run}-{at}"


class Told(NamedTuple):
    """What one rank said of its last beats: seconds of an update of its own, waiting for others, and of it by phase."""

    own: tuple[float, ...]
    waiting: tuple[float, ...]
    phases: Mapping[str, float] = {}


class Straggler(NamedTuple):
    """The rank that the others wait for, and by how much. `phase` is where it spends what the others don't."""

    rank: int
    own_s: float
    others_s: float
    waited_s: float
    update_s: float
    phase: str

    @property
    def share(self) -> float:
        """Of an update, what the others wait for it."""
        return (self.own_s - self.others_s) / self.update_s


def straggler(told: Mapping[int, Told]) -> Straggler | None:
    """The rank whose own work takes longer than everybody else's, beat after beat, while everybody else waits.

    A device that is slow does not show in its process's own time; then nobody is named.
    """
    if len(told) < 2 or any(len(each.own) < BEATS or len(each.waiting) < BEATS for each in told.values()):
        return None
    rank = max(told, key=lambda each: median(told[each].own))
    slow, others = told[rank], {each: told[each] for each in told if each != rank}
    own, usual = median(slow.own), max(median(each.own) for each in others.values())
    update = own + median(slow.waiting)
    least = WORTH_A_WORD * update
    if update <= 0 or own - usual < least:
        return None
    # Not by a few long beats: even its quick ones are longer than the long ones of the others, by half as much.
    if quantiles(slow.own)[0] - max(quantiles(each.own)[2] for each in others.values()) < least / 2:
        return None
    waited = min(median(each.waiting) for each in others.values()) - median(slow.waiting)
    if waited < SHOWS * (own - usual):
        return None
    return Straggler(rank, own, usual, waited, update, _where(slow, tuple(others.values())))


def _where(slow: Told, others: tuple[Told, ...]) -> str:
    more = {
        name: spent - max(each.phases.get(name, 0.0) for each in others)
        for name, spent in slow.phases.items()
    }  # fmt: skip
    return max(more, key=lambda name: more[name], default="")


class Own:
    """What this rank's updates take: its own time, and what it waits. Both become series of its journal."""

    def __init__(self, watch: "Watch") -> None:
        self.watch = watch
        self._counted = 0
        self._spent: dict[str, list[int]] = {}

    def tick(self) -> None:
        """What the updates since the last beat took, each."""
        observer = self.watch.observer
        counted, spent = observer.counted, observer.account.phases()
        made, self._counted = counted - self._counted, counted
        before, self._spent = self._spent, spent
        if made <= 0 or not before:  # nothing happened, or the observer has begun anew after its warm-up
            return
        since = {
            name: [now - then for now, then in zip(parts, before.get(name, (0, 0, 0)), strict=True)]
            for name, parts in spent.items()
            if name != "netdyno"
        }
        if any(part < 0 for parts in since.values() for part in parts):
            return
        own = {name: ns / made / 1e9 for name, parts in since.items() if (ns := _own(name, parts)) > 0}
        whole = sum(map(sum, since.values())) / made / 1e9
        self.watch.point(OWN, sum(own.values()))
        self.watch.point(WAITING, whole - sum(own.values()))
        for name, seconds in own.items():
            self.watch.point(f"{OWN}/{name}", seconds)


def _own(name: str, parts: list[int]) -> int:
    running, queued, blocked = parts
    if name == "sync":
        return 0  # waiting for a device is spent on a core, where it turns in circles
    return running + queued + (0 if name in MEETING else blocked)


class Ranks:
    """The pulse's part: each rank tells its own times, and rank 0 looks at everybody's and passes on their alerts."""

    def __init__(self, watch: "Watch") -> None:
        self.watch = watch
        self.own = Own(watch)
        self.mates: dict[int, journal.Run] = {}
        self._read: dict[int, int] = {}  # how far in each mate's events
        self._looked = -LOOK_FOR_MATES_S

    def tick(self) -> None:
        """Once a second."""
        self.own.tick()
        if self.watch.info.rank == 0:
            self._look_for_mates()
            self._pass_on()
            if len(self.mates) == self.watch.info.world and all(
                mate.state() == "running" for mate in self.mates.values()
            ):
                found = straggler({rank: told(mate) for rank, mate in self.mates.items()})
                if found is not None:
                    self.watch.alert(alert(found, self.watch))

    def _pass_on(self) -> None:
        for rank, mate in self.mates.items():
            if rank != 0:
                events, self._read[rank] = mate.events(self._read.get(rank, 0))
                for event in events:
                    if event["kind"] == "alert":
                        self.watch.alert(of_rank(rank, msgspec.convert(event["alert"], Alert)))

    def _look_for_mates(self) -> None:
        info, now = self.watch.info, self.watch.seconds
        if len(self.mates) < info.world and now - self._looked >= LOOK_FOR_MATES_S:
            self._looked = now
            found = mates(self.watch.store, info.tags["group"], most=info.world + NEWEST)
            self.mates = {mate.info.rank: mate for mate in found}


def mates(store: Path, group: str, *, most: int) -> Iterator[journal.Run]:
    """The journals of those that train together, among the newest of a store."""
    for run in islice(journal.runs(store), most):
        with contextlib.suppress(Exception):  # one that is being written for the first time, or an older one
            if run.info.tags.get("group") == group:
                yield run


def told(mate: journal.Run) -> Told:
    """What a rank's journal says of its last beats."""
    phases = {
        name.removeprefix(f"{OWN}/"): median(last) for name in mate.names() if name.startswith(f"{OWN}/") and (last := _last(mate, name))
    }  # fmt: skip
    return Told(_last(mate, OWN), _last(mate, WAITING), phases)


def _last(mate: journal.Run, name: str) -> tuple[float, ...]:
    return tuple(mate.series(name).values[-BEATS:].tolist())


def alert(found: Straggler, watch: "Watch") -> Alert:
    """What a person is told."""
    ms = {name: f"{1e3 * getattr(found, name):.1f} ms" for name in ("own_s", "others_s", "waited_s")}
    where = f", most of what is more in `{found.phase}`" if found.phase else ""
    return Alert(
        cause=CAUSE,
        severity="warning",
        says=f"rank {found.rank} works {ms['own_s']} for an update where the others work {ms['others_s']}{where}; "
        f"they wait {ms['waited_s']} for it, {found.share:.0%} of each update",
        fix="give this rank as much work as the others have, and its machine nothing else to do: "
        "look at its loader, its cores and its share of the data",
        update=watch.updates, seconds=watch.seconds, run=watch.info.name,
        because={
            "rank": float(found.rank), "own_s": found.own_s, "others_s": found.others_s, "waited_s": found.waited_s,
            "update_s": found.update_s, "share": found.share,
        },
    )  # fmt: skip


def of_rank(rank: int, alert: Alert) -> Alert:
    """The alert of another rank. What all of them meet has one cause, and is told once."""
    return msgspec.structs.replace(alert, says=f"rank {rank}: {alert.says}")


def voiced(sinks: tuple[Sink, ...], info: RunInfo, store: Path) -> tuple[Sink, ...]:
    """The sinks of one rank: what rank 0 passes on, the others need not tell, nor eight of them in eight messages."""
    if info.rank == 0 or "group" not in info.tags:
        return sinks
    return tuple(_Voice(sink, info, store) for sink in sinks)


class _Voice:
    """Tells what nobody else will: where rank 0 watches too and shares the store, it does."""

    def __init__(self, sink: Sink, info: RunInfo, store: Path) -> None:
        self.sink = sink
        self.info = info
        self.store = store

    def __call__(self, alert: Alert) -> None:
        group = mates(self.store, self.info.tags["group"], most=self.info.world + NEWEST)
        first = next((mate for mate in group if mate.info.rank == 0), None)
        if first is None or not (first.state() == "running" or alert.cause in _causes(first)):
            self.sink(alert)


def _causes(mate: journal.Run) -> set[str]:
    found = [event["alert"] for event in mate.events()[0] if event["kind"] == "alert"]
    return {cause for each in found for cause in (each["cause"], *each.get("folds", ()))}


def beside(watch: "Watch") -> Callable[[], None]:
    """What the pulse calls: nothing where a process trains alone."""
    alone = watch.info.world < 2 or "group" not in watch.info.tags
    return (lambda: None) if alone else Ranks(watch).tick
