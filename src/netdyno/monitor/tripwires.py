"""Wires that break when a run goes wrong: looked at before each step, so that what is broken spoils no weights."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from netdyno.aboard.asleep import Calm
from netdyno.errors import StoreError
from netdyno.monitor import snapshot
from netdyno.monitor.gauges._base import Gauge
from netdyno.monitor.pause import Pause, TripStop
from netdyno.monitor.subject import Subject
from netdyno.monitor.wires import gradients, memory
from netdyno.monitor.wires.allowance import PART, Allowance
from netdyno.monitor.wires.history import Explosion, History
from netdyno.monitor.wires.scaling import Skips
from netdyno.monitor.wires.stalls import IDLE, LOADER_S, TRAINING_S, Stall, Wait
from netdyno.monitor.wires.validation import Validation, is_loss
from netdyno.records.base import Place
from netdyno.records.journal import Alert

# What is wrong from the start is wrong in the first updates: they are looked at whatever it costs.
FIRST = 10
# By then it has been seen whether gradients are clipped, a scaler is used, or a closure makes them.
SETTLED = 3
# Where clipping tells the norm, gradients are looked at before it in one update of so many: what is bad has its name then.
NAMED = 16
# While nothing seems to begin, losses that are no higher than any before are judged so many together: each update of a large
# model finds the code of a judgement out of the caches.
TOGETHER = 8
# The batches of one update, where several are accumulated, are kept together up to this many bytes.
MOST_OF_BATCHES = 16 << 20
# A device tells a loss so many updates late at most, or it was not kept.
LATEST = 64
# A stop that a script swallows is said again: once, and five times more.
MOST_RAISES = 6

REMEDIES = {
    "loss-not-finite": "`netdyno.monitor.replay.replay(snapshot, subject, step, anomaly=True)` names the operation",
    "gradients-not-finite": "`netdyno.monitor.replay.replay(snapshot, subject, step, anomaly=True)` names the operation",
    "loss-explosion": "go back to the last good checkpoint with a lower learning rate, or clip the gradients' norm",
    "gradient-explosion": "clip the gradients' norm (`torch.nn.utils.clip_grad_norm_`), or lower the learning rate",
    "scaler-collapse": "use bfloat16, or keep what overflows in float32: a loss scale cannot mend a forward pass",
    "stalled-loader": "look at the loader's workers (a lock, a dead mount, too little shared memory); give it a `timeout`",
    "stalled-training": "look at where it stands, for example with `py-spy dump`",
    "memory-running-out": "save now; look for tensors that are kept with their graphs, or caches of the data set",
    "validation-diverging": "go back to the best checkpoint; compare the model in `train()` and `eval()`",
}


class Trip(NamedTuple):
    """Why a wire broke. `late`: updates that were made before it was known, as a device tells its values late."""

    cause: str
    says: str
    update: int
    because: dict[str, float]
    parameter: str | None = None
    where: Place | None = None
    loss: float | None = None
    late: int = 0


class Tripwires(Gauge):
    """Looks at the loss and the gradients before each step, and once a second at loaders, progress and memory.

    A wire that broke is told once, with a snapshot of the state before the step; then the run goes on, waits or stops,
    as its author chose.
    """

    def __init__(self, *given: Any, watch: Any) -> None:
        super().__init__(*given)
        self.run = watch
        self.tripped: set[str] = set()
        self.losses: dict[int, History] = {}
        self.norms: dict[int, History] = {}
        self.skips = Skips()
        self.validations: dict[str, Validation] = {}
        self.allowance = Allowance(PART * watch.info.budget)
        self.copying = Allowance(PART / 2 * watch.info.budget, free_ns=0)
        self.gradients = gradients.Gradients()
        self.random = snapshot.Randomness()
        self.buffers = snapshot.Buffers()
        self.memory = memory.Memory()
        self.loader_wait, self.training_wait = Wait(LOADER_S), Wait(TRAINING_S)
        self.pause = Pause(Path(watch.journal.folder))
        self.writer = snapshot.Writer(Path(watch.journal.folder) / snapshot.FOLDER)
        self.clips = self.clip_tells = False
        self.closures: set[int] = set()
        self.batches: list[tuple[Any, tuple[int, ...]]] = []
        self.batches_of = -1
        self.batches_bytes = 0
        self.fed = False  # by a loader that is known
        self.loader: Any = None
        self._owed: deque[tuple[int, Any]] = deque()
        self._judged = self._closed = -1
        self._skipped = 0
        self._left_out = False  # steps since the last that was taken
        self._unjudged: list[float] = []
        self._alarmed = False  # gradients are to be looked at, whatever it costs
        self._norms: list[float] = []  # of updates that were slept through
        self._last: Any = None  # the optimizer that stepped last
        self._usual = (0.0, -1.0)  # between these a loss is judged later: no loss at all is
        self._listens = True
        self._stop: str | None = None
        self._raises = 0
        self._cpu = 0.0
        self.watch.observer.calm = self.calm

    # on the training thread, in each update

    def always_batch(self, loader: Any, batch: Any) -> None:
        """A batch: kept until the update is over, with the random states as they stand before it is used."""
        # Who evaluates beside one that trains is not meant, also where it is fetched from between a batch and its step.
        at = self.watch.observer.updates
        if at and (not loader.trains or (loader.evaluates and loader is not self.loader)):
            return
        if at != self.batches_of:
            self.batches, self.batches_of, self.batches_bytes = [], at, 0
            self.random.keep()
            self.fed, self.loader = True, loader
            if self.buffers.at is None:
                self.buffers.keep(self.models, at)
        elif self.batches:
            self.batches_bytes = self.batches_bytes or _bytes(self.batches[0][0])
            self.batches_bytes += _bytes(batch)
            if self.batches_bytes > MOST_OF_BATCHES:
                self.batches.clear()  # only the last one, and `exact` says so
        self.batches.append((batch, _versions(batch)))

    def every_calling(self, _module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Without a loader, what a model was given is the batch."""
        if not self.fed:
            self.batches = [((args, kwargs) if kwargs else args, _versions(args))]
            self.batches_of = self.watch.updates

    def always_clip(self, _name: str, _parameters: Any, _limit: Any, result: Any) -> None:
        """Clipping makes every gradient NaN if one is: from now on they are looked at before it."""
        if not self.clips:
            self.clips = True
            self._listen()
        elif isinstance(result, torch.Tensor) and result.is_cpu and not self.watch.observer.facts.scaler_used:
            self.clip_tells, self._judged = True, self.watch.updates
            norm = result.item()
            if norm - norm != 0.0:
                self._bad_gradient(None, None, 0)

    def always_differentiated(self, _loss: Any) -> None:
        """Gradients that are about to be clipped, or that a closure made within a step; and steps that a scaler left out."""
        observer = self.watch.observer
        if observer.stepping:
            self._within_step(observer)
            return
        scaled = observer.facts.scaler_used
        if scaled:
            self._count_skips(observer)
        elif self.clips or observer.updates < SETTLED:
            optimizers = self.optimizers()
            if len(optimizers) == 1 and not self._spared(optimizers[0], observer.updates):
                self._judged = observer.updates
                self._look(optimizers[0], observer._loss, judged=False)
        if not scaled and (not self.clips or self.clip_tells) and observer.updates >= SETTLED and not self.closures:
            self._listen(on=False)

    def _spared(self, optimizer: Any, at: int) -> bool:
        """Whether the norm that clipping computes anyway will do for update `at`; it says that a gradient is bad, and not which."""
        if not self.clip_tells or at < FIRST or at % NAMED == 0:
            return False
        losses = self.losses.get(id(optimizer))
        return losses is None or not losses.suspicious

    def _within_step(self, observer: Any) -> None:
        """The first call of a closure stands where the weights are; what a line search tries after it may be anything."""
        optimizer = observer._stepper
        self.closures.add(id(optimizer))
        if self._closed != observer.steps_begun:
            self._closed = observer.steps_begun
            self._look(optimizer, observer._loss)
            self._judge_loss(optimizer, observer._loss)

    def always_step(self, optimizer: Any) -> None:
        """Before a step: may it be taken?"""
        observer = self.watch.observer
        loss = observer._loss
        if (
            loss is not None
            and self._usual[0] <= loss <= self._usual[1]
            and len(self._unjudged) < TOGETHER - 1
            and (observer.updates + 1) % NAMED
        ):
            self._unjudged.append(loss)
            if not self.fed:
                self.random.keep()
            return
        if self._stop is not None:
            self._raise()
        if not observer.stepping:
            return
        if observer.facts.scaler_used:
            self.skips.judge(skipped=False)
            self._listen()
        if not observer.backwards_done:
            self._listen()  # a closure may follow
        elif id(optimizer) not in self.closures:
            self._before(optimizer, observer)
            self._expect(optimizer, observer)
            if self.clip_tells and not self._listens and not self._spared(optimizer, observer.updates + 1):
                self._listen()
        self._keep(observer)

    def _expect(self, optimizer: Any, observer: Any) -> None:
        """Between which values the next losses are nothing to stop for: an optimizer alone, whose gradients are not looked at in
        each update.
        """
        self._last = optimizer
        most = self._most_loss(optimizer, observer)
        if not self.clip_tells and self.gradients.small(optimizer):
            most = -1.0
        self._usual = (-most, most)

    def _most_loss(self, optimizer: Any, observer: Any) -> float:
        """The size up to which a loss is nothing to stop for; -1 where each is looked at."""
        history = self.losses.get(id(optimizer))
        alone = len(self.losses) == 1 and observer.updates >= FIRST
        if history is None or not alone or self._stop is not None:
            return -1.0
        return -1.0 if observer.facts.scaler_used or history.suspicious else history.most

    # while nobody watches

    def calm(self) -> Calm | None:
        """What wakes, where nothing is wrong; None where each update is to be seen."""
        observer, optimizer = self.watch.observer, self._last
        if optimizer is None or self._listens or self.closures or not self._only():
            return None
        most = self._most_loss(optimizer, observer)
        guard = None if self.clip_tells else self._guard(optimizer)
        if most < 0.0 or (guard is None and not self.clip_tells) or (self.fed and self.loader is None):
            return None
        return Calm(
            optimizer, -most, most, self.clip_tells, self.loader if self.fed else None, self.always_batch, self._slept,
            guard=guard, stepped=None if self.fed else self.random.keep,
        )  # fmt: skip

    def _only(self) -> bool:
        """Whether nobody else is to be called in each update."""
        return all(name == "tripwires" for hooks in self.watch.always.values() for name, _ in hooks)

    def _alarm(self) -> bool:
        """Something is wrong with the gradients, whatever the loss: they are looked at before this step. Never in order."""
        self._usual, self._alarmed = (0.0, -1.0), True
        return False

    def _slept(self, losses: list[float]) -> None:
        self._unjudged += losses

    def _guard(self, optimizer: Any) -> Callable[[], bool] | None:
        """Asked before each step: all gradients of a small model; of a large one those that the backward pass reaches last, where
        what is no number arrives from everywhere else.
        """
        if getattr(optimizer, "found_inf", None) is not None:
            return None
        if not self.gradients.small(optimizer):
            sentinel = self.gradients.sentinel(optimizer)
            return None if sentinel is None else lambda: sentinel() or self._alarm()
        norms = self.norms.get(id(optimizer))
        if norms is None or norms.suspicious:
            return None
        most, update, take, kept = norms.most, self.watch.updates, self.gradients.take, self._norms

        def guard() -> bool:
            norm = take(optimizer, update)
            if norm is None or not norm.value <= most:
                return False
            kept.append(norm.value)
            return True

        return guard

    def _before(self, optimizer: Any, observer: Any) -> None:
        loss = observer._loss
        if self._unjudged:
            earlier, self._unjudged = self._unjudged, []
            self.losses[id(self._last)].calm(earlier)
        if observer.facts.scaler_used and (self._left_out or loss is None or loss - loss != 0.0):
            # What was left out is still within the sum; and a scaler takes no step but with gradients that are finite.
            self._left_out, loss = False, None
        elif loss is None:
            self._owed.append((observer.updates, optimizer))
            self._late_losses(observer)
        else:
            self._judge_loss(optimizer, loss)
        looked_before = self.clips and self._judged == observer.updates
        # A fused optimizer unscales within its kernel, and leaves the step out there: nothing is known here.
        if not looked_before and getattr(optimizer, "found_inf", None) is None:
            self._look(optimizer, loss)
        if self.gradients.under_way:
            self._late_norms(observer)

    def _keep(self, observer: Any) -> None:
        """The state before the next update; a batch that arrives is a better moment, and takes its place."""
        if not self.fed:
            self.random.keep()
        if not self.buffers.none and (
            self.buffers.few or observer.updates < FIRST or self._affords(observer, self.copying)
        ):
            began = observer.now()
            self.buffers.keep(self.models, observer.updates + 1)
            self.copying.spent(observer.now() - began)

    def _listen(self, *, on: bool = True) -> None:
        """Hear of each backward pass, or save the time: two microseconds."""
        if on != self._listens:
            self._listens = on
            others = [each for each in self.watch.always["differentiated"] if each[1] != self.always_differentiated]
            mine = ("tripwires", self.always_differentiated)
            self.watch.always["differentiated"] = [mine, *others] if on else others

    # the loss

    def _judge_loss(self, optimizer: Any, loss: float | None, *, late: int = 0) -> None:
        if loss is None:
            return
        history = self.losses.get(id(optimizer))
        if history is None:
            history = self.losses[id(optimizer)] = History()
        explosion = history.judge(loss)
        update = self.watch.updates - late
        if explosion is not None:
            self._exploded("loss-explosion", "the loss", explosion, optimizer, loss=loss, late=late)
        elif loss - loss != 0.0:
            place, parameter, says = self._known_place(optimizer)
            self._trip(
                Trip("loss-not-finite", f"the loss is {_word(loss)}{says}", update, {"update": update + 1}, parameter, place, loss, late),
                optimizer,
            )  # fmt: skip

    def _known_place(self, optimizer: Any) -> tuple[Place | None, str | None, str]:
        """What the vital `nonfinite` has found out already; else whether the batch or the weights hold it."""
        told = next((getattr(each, "told", None) for each in self.watch.vitals if each.kind == "NonFinite"), None)
        if told and told.get("update") == self.watch.updates + 1 and told.get("stage") != "backward":
            return _in_words(told)
        for batch, _ in self.batches:
            if (found := _bad_within(batch)) is not None:
                return Place(sample=found[1]), None, f": `{found[0]}` of the batch holds values that are not finite"
        names = gradients.names_of(self.models(), optimizer)
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            if not bool(torch.isfinite(parameter).all()):
                name = names(parameter)
                return Place(module=name), name, f": the weight `{name}` is not finite"
        return None, None, ""

    def _late_losses(self, observer: Any) -> None:
        """Losses that a device has told since."""
        losses = observer.losses
        while self._owed and self._owed[0][0] < observer.updates:
            at, optimizer = self._owed[0]
            value = losses[at] if at < len(losses) else None
            if value is None:
                if at > observer.updates - LATEST:
                    return
            else:
                self._judge_loss(optimizer, value, late=observer.updates - at)
            self._owed.popleft()

    # the gradients

    def _affords(self, observer: Any, allowance: Allowance) -> bool:
        return allowance.affords(self.watch.elapsed(), observer.updates)

    def _look(self, optimizer: Any, loss: float | None, *, judged: bool = True) -> None:
        observer = self.watch.observer
        norms = self.norms.get(id(optimizer))
        if norms is None:
            norms = self.norms[id(optimizer)] = History()
        if self._norms:
            slept, self._norms = self._norms, []
            norms.calm(slept)
        losses = self.losses.get(id(optimizer))
        suspicious = (
            norms.suspicious or (losses is not None and losses.suspicious) or (loss is not None and loss - loss != 0.0)
        )
        suspicious, self._alarmed = suspicious or self._alarmed, False
        needed = suspicious or observer.updates < FIRST or self.gradients.small(optimizer)
        if not needed and not self._affords(observer, self.allowance):
            return
        began = observer.now()
        norm = self.gradients.take(optimizer, observer.updates)
        self.allowance.spent(observer.now() - began)
        if norm is not None:
            self._judge_norm(norm, judged=judged)

    def _late_norms(self, observer: Any) -> None:
        while (norm := self.gradients.arrived()) is not None:
            self._judge_norm(norm, late=observer.updates - norm.update, judged=not self.clips)

    def _judge_norm(self, norm: gradients.Norm, *, judged: bool, late: int = 0) -> None:
        """`judged`: also by its history. Before clipping it may be as large as it likes."""
        optimizer, value = norm.optimizer, norm.value
        if value - value != 0.0:
            bad = gradients.bad(optimizer, gradients.names_of(self.models(), optimizer))
            if bad is not None and bad.many == bad.of > 1 and self.clips and self._judged != self.watch.updates:
                bad = bad._replace(name=None)  # clipping has spread it
            if bad is not None or late:
                self._bad_gradient(optimizer, bad, late)
                return
        explosion = self.norms[id(optimizer)].judge(value) if judged else None
        if explosion is not None:
            self._exploded("gradient-explosion", "the gradients' norm", explosion, optimizer, late=late)

    def _bad_gradient(self, optimizer: Any, bad: gradients.Bad | None, late: int) -> None:
        if self._loss_is_bad():  # it is the loss's fault, and told by its own wire before the step
            return
        name = bad.name if bad is not None else None
        says = "a gradient is not finite" if name is None else f"the gradient of `{name}` is not finite"
        if bad is not None and name is not None and bad.many > 1:
            says += f", the first of {bad.many} that the backward pass reached"
        because = {} if bad is None else {"not_finite": float(bad.many), "of": float(bad.of)}
        place = Place(module=name) if name is not None else None
        update = self.watch.updates - late
        self._trip(
            Trip("gradients-not-finite", says, update, because, name, place, self.watch.observer._loss, late), optimizer
        )

    def _loss_is_bad(self) -> bool:
        loss = self.watch.observer._loss
        return loss is not None and loss - loss != 0.0

    def _exploded(
        self, cause: str, what: str, found: Explosion, optimizer: Any, *, loss: float | None = None, late: int = 0
    ) -> None:
        because = {"usual": found.usual, "highest": found.highest}
        if math.isfinite(found.value):
            because["value"] = found.value
        if found.deviations is not None:
            because["deviations"] = found.deviations
        says = f"{what} is {_word(found.value)}; usual was {found.usual:.3g}, and never more than {found.highest:.3g}"
        self._trip(Trip(cause, says, self.watch.updates - late, because, loss=loss, late=late), optimizer)

    def _count_skips(self, observer: Any) -> None:
        skipped = sum(entry.skipped for entry in observer.facts.optimizers)
        new, self._skipped = skipped - self._skipped, skipped
        self._left_out = self._left_out or new > 0
        for _ in range(new):
            says = self.skips.judge(skipped=True)
            if says is not None:
                self._trip(Trip("scaler-collapse", says, self.watch.updates, {"in_a_row": float(self.skips.row)}), None)

    # what is told from outside, and by the clock

    def evaluated(self, values: dict[str, float]) -> None:
        """Results of an evaluation, on the thread that evaluates: between two updates."""
        for name, value in values.items():
            if not is_loss(name):
                continue
            found = self.validations.setdefault(name, Validation()).judge(float(value))
            if found is None:
                continue
            because = {"best": found.best, "highest": found.highest, "value": found.value}
            says = f"`{name}` of the evaluation is {_word(found.value)}"
            if math.isfinite(found.best):
                says += f"; its best was {found.best:.3g}, and it was never more than {found.highest:.3g} before"
            self._guarded(
                Trip(
                    "validation-diverging",
                    says,
                    self.watch.updates,
                    {k: v for k, v in because.items() if math.isfinite(v)},
                )
            )

    def _guarded(self, trip: Trip) -> None:
        """Here nobody stands between us and the script."""
        try:
            self._trip(trip, None)
        except Exception as error:
            self.watch.observer.trouble("tripwires", error)

    def tick(self, seconds: float) -> None:
        """Once a second, beside the training: it is told, and nothing is touched."""
        observer = self.watch.observer
        if self.pause.on or self.watch.ended or not observer.updates:
            return
        stall = self.loader_wait.judge((observer.updates, observer.batches), seconds, waits=observer.fetching)
        if stall is not None:
            self._beside(
                "stalled-loader", f"no batch has come for {stall.seconds:.0f} s; {_longest(stall)}", _waits(stall)
            )
        cpu, self._cpu = self._cpu, time.process_time()
        busy = self._cpu - cpu > IDLE * max(seconds, 0.1)
        sign = (observer.updates, observer.batches, observer.account.seen)
        stall = self.training_wait.judge(sign, seconds, waits=not busy and not observer.fetching and _alive(observer))
        if stall is not None:
            self._beside(
                "stalled-training", f"nothing has happened for {stall.seconds:.0f} s; {_longest(stall)}", _waits(stall)
            )
        now = time.monotonic()
        if self.memory.due(now) and (out := self.memory.judge(now, memory.left())) is not None:
            says = f"memory lasts for {out.minutes:.1f} minutes: {out.left.bytes >> 20} of {out.left.limit >> 20} MiB are left"
            self._beside("memory-running-out", says, {"minutes": out.minutes, "left_bytes": float(out.left.bytes)})

    def _beside(self, cause: str, says: str, because: dict[str, float]) -> None:
        if cause not in self.tripped:
            self.tripped.add(cause)
            self._tell(Trip(cause, says, self.watch.updates, because), None)

    # a wire broke

    @torch.no_grad()
    def _trip(self, trip: Trip, optimizer: Any) -> None:
        """Once for each cause: a snapshot, an alert, and what the author chose."""
        if trip.cause in self.tripped:
            return
        self.tripped.add(trip.cause)
        path, why = None, ""
        try:
            path, why = self._snapshot(trip, optimizer)
        except (StoreError, OSError, RuntimeError) as error:
            self.watch.observer.trouble("snapshot", error)
            why = f"{type(error).__name__}"
        if path is None:
            trip = trip._replace(says=f"{trip.says} (no snapshot: {why})")
        elif trip.late:
            trip = trip._replace(says=f"{trip.says}; known {trip.late} updates later, and the snapshot is of then")
        self._tell(trip, path)
        self._act(trip, optimizer)

    def _tell(self, trip: Trip, path: Path | None) -> None:
        because = {name: value for name, value in trip.because.items() if math.isfinite(value)}
        self.run.alert(
            Alert(
                cause=trip.cause, severity="trip", says=trip.says, update=trip.update + 1, seconds=self.run.seconds,
                run=self.run.info.name, fix=REMEDIES[trip.cause], where=trip.where, because=because,
                snapshot=None if path is None else str(path),
            )
        )  # fmt: skip

    def _act(self, trip: Trip, optimizer: Any) -> None:
        alone = self.run.info.world == 1
        # Gradients were averaged over all ranks: every one sees the same, and does the same. Else ranks would wait for each other.
        if self.run.on_trip == "warn" or not (alone or trip.cause.startswith("gradient")):
            return
        if self.run.on_trip == "pause":
            self.event("paused", cause=trip.cause)
            how = self.pause.wait(trip.says)
            if how == "skip" and optimizer is not None:
                optimizer.zero_grad(set_to_none=True)
            self.event("resumed", cause=trip.cause, how=how)
            return
        self._usual = (0.0, -1.0)
        self._stop = f"netdyno: stopped at update {trip.update + 1}: {trip.says}"
        self._raise()

    def _raise(self) -> None:
        """Before a step, or after a backward pass: the script's objects are whole."""
        if self._raises >= MOST_RAISES:
            return
        self._raises += 1
        observer = self.watch.observer
        if observer.stepping:
            observer.stepping, observer._stepper = False, None
            observer.account.unwind(observer._depth)
        raise TripStop(self._stop)

    def _snapshot(self, trip: Trip, optimizer: Any) -> tuple[Path | None, str]:
        subject = self._subject(optimizer)
        refused = self.writer.refuses(subject, trip.update)
        if refused is not None:
            return None, refused
        told = self._told(trip, subject)
        return self.writer.write(told, cause=trip.cause, update=trip.update), ""

    def _subject(self, optimizer: Any) -> Subject:
        """What was named, and for what was not what was seen."""
        optimizers = self.optimizers() or ((optimizer,) if optimizer is not None else ())
        return self.subject._replace(models=self.models(), optimizers=optimizers)

    def _told(self, trip: Trip, subject: Subject) -> dict[str, Any]:
        left_out: list[str] = []
        notes = ["the random states of Python and NumPy are those of the moment of the trip"]
        fresh = self.batches_of == self.watch.updates
        batches = self.batches if fresh else []
        if not fresh:
            notes.append("the batch is not known: it came from no loader of torch")
        if any(_versions(batch) != versions for batch, versions in batches):
            notes.append("the batch was changed in place after it was fetched")
        buffers = self._buffers(trip, notes)
        kept = [snapshot.plain(batch, f"batches/{at}", left_out) for at, (batch, _) in enumerate(batches)]
        notes.extend(f"`{path}` could not be kept" for path in left_out)
        whole = self.batches_bytes <= MOST_OF_BATCHES or len(batches) == 1
        # The state of what steps twice for one batch (a GAN) is that before the second step.
        exact = not trip.late and fresh and len(notes) == 1 and whole and len(subject.optimizers) == 1
        loader = self.loader
        return {
            **snapshot.head(trip.cause, trip.says),
            "update": trip.update,
            "late": trip.late,
            "parameter": trip.parameter,
            "because": trip.because,
            "loss": trip.loss if trip.loss is not None else self.watch.observer._loss,
            **snapshot.state_of(subject, left_out),
            "buffers": buffers,
            "rng": self.random.told(),
            "batches": kept,
            "batches_from": "loader" if self.fed else "call" if fresh else "nowhere",
            "position": {
                "batch": loader.batches - loader.first_of_epoch + 1 if loader is not None else None,
                "epoch": loader.iterations if loader is not None else None,
            },
            "exact": exact,
            "notes": notes,
        }

    def _buffers(self, trip: Trip, notes: list[str]) -> dict[str, Any]:
        """Those of the update's beginning; older ones only where those that are there are spoiled."""
        told = self.buffers.told()
        if not told or self.buffers.at == self.watch.updates:
            return told
        now = {name: dict(model.named_buffers()) for name, model in self.models().items()}
        spoiled = {
            name: {path: copy for path, copy in mine.items() if not bool(torch.isfinite(now[name][path]).all())}
            for name, mine in told.items()
        }
        if any(spoiled.values()):
            notes.append(f"spoiled buffers are those of update {self.buffers.at}")
        else:
            notes.append(f"the buffers have seen update {trip.update + 1} already")
        return spoiled

    def over(self) -> None:
        """Nothing is kept."""
        self.batches = []


def _versions(batch: Any) -> tuple[int, ...]:
    """Version counters of its tensors, which tell whether they were changed since."""
    if type(batch) is list and len(batch) == 2 and type(batch[0]) is torch.Tensor and type(batch[1]) is torch.Tensor:
        try:
            return (batch[1]._version, batch[0]._version)  # the usual case, at each update
        except RuntimeError:  # of inference mode, where nothing is counted
            return (0, 0)
    return tuple(0 if one.is_inference() else one._version for one in _tensors(batch))


def _bytes(batch: Any) -> int:
    return sum(one.nbytes for one in _tensors(batch))


def _tensors(batch: Any) -> Iterator[Any]:
    waiting = [batch]
    while waiting:
        one = waiting.pop()
        if isinstance(one, torch.Tensor):
            yield one
        elif isinstance(one, list | tuple):
            waiting.extend(one)
        elif isinstance(one, dict):
            waiting.extend(one.values())


def _bad_within(batch: Any, path: str = "") -> tuple[str, int] | None:
    """Where in a batch the first value is that is not finite, and in which row."""
    if isinstance(batch, torch.Tensor):
        if not batch.is_floating_point() or bool((finite := torch.isfinite(batch)).all()):
            return None
        return path or "0", int((~finite).nonzero()[0][0]) if batch.dim() else 0
    several = batch.items() if isinstance(batch, dict) else enumerate(batch) if isinstance(batch, list | tuple) else ()
    for name, one in several:
        if (found := _bad_within(one, f"{path}.{name}" if path else str(name))) is not None:
            return found
    return None


def _in_words(told: dict[str, Any]) -> tuple[Place | None, str | None, str]:
    line = told.get("where") or {}
    parameter, call, sample = told.get("parameter"), told.get("call"), told.get("sample")
    place = Place(file=line.get("file"), line=line.get("line"), module=parameter or call or None, sample=sample)
    stage = told.get("stage")
    if stage == "input":
        row = "" if sample is None else f", row {sample}"
        return place, None, f": the input (`{call}`{row}) is not finite"
    if stage == "weights":
        return place, parameter, f": the weight `{parameter}` is not finite"
    if stage == "forward":
        return place, None, f", first in `{call}` of the forward pass"
    return place, None, f", out of `{call}`" if call else ""


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.4g}"


def _longest(stall: Stall) -> str:
    return f"the longest wait before took {stall.longest:.1f} s"


def _waits(stall: Stall) -> dict[str, float]:
    return {"seconds": stall.seconds, "longest_s": stall.longest}


def _alive(observer: Any) -> bool:
    """Whether the thread that trains still exists."""
    return any(thread.ident == observer.training_thread for thread in threading.enumerate())
