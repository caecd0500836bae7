"""One training step, phase by phase, and a turn of several."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from msgspec.structs import replace

from netdyno.errors import TargetError
from netdyno.measure import host
from netdyno.measure.stopwatch import Bystanders, Neighbourhood, Stopwatch
from netdyno.records.measured import Turn
from netdyno.targets.subject import Subject

_END = object()  # `next` must not raise StopIteration: it would end a generator of the caller in silence
PHASES = ("data", "collate", "copy", "forward", "loss", "backward", "optimizer", "log", "rest")


class Stepper:
    """Steps a subject. Holds its batches and its stopwatch; `take` is one turn.

    The losses of a turn are read after the clock has stopped, so that reading them costs the step nothing.
    """

    def __init__(self, subject: Subject, stopwatch: Stopwatch) -> None:
        self.subject = subject
        self.stopwatch = stopwatch
        self.beside: Callable[[], Bystanders] = Neighbourhood(host.cores()).read
        self.batches = subject.feed.epochs(nested=stopwatch.nested)

    def take(self, steps: int) -> Turn:
        """`steps` training steps and where their time went. Raises what the user's code raises."""
        watch = self.stopwatch
        watch.clear()
        losses: list[torch.Tensor] = []
        with turning(self.subject):
            before = self.beside()
            watch.start("data")
            for _ in range(steps):
                losses.append(self.step())
                watch.phase("data")
            watch.stop()
            beside = self.beside().since(before)
        turn = Turn(
            steps=steps,
            time=watch.total(),
            phases=watch.phases(),
            losses=tuple(float(loss) for loss in losses),
        )
        return beside_others(turn, beside, cores=host.cores())

    def step(self) -> torch.Tensor:
        """One training step; the stopwatch is on and in phase "data". Gives the loss, unread."""
        subject, watch = self.subject, self.stopwatch
        batch = next(self.batches, _END)
        if batch is _END:
            raise _ran_out()
        if subject.place or subject.augment:
            watch.phase("copy")
            batch = subject.fed(batch)
        watch.phase("forward")
        loss = train_on(subject, batch, watch).detach()
        if subject.log is not None:
            watch.phase("log")
            subject.log(subject.model, float(loss))
        return loss

    def close(self) -> None:
        """Ends loader workers."""
        self.batches.close()  # type: ignore[attr-defined]


# A thread that ran for less than this share of a turn did not stand in anybody's way. Eight loader workers that mostly
# sleep ran for 6 % each and held one core for half of the turn: of 5 % their parent's waiting for them seemed a stranger's.
AT_WORK = 0.01


def beside_others(turn: Turn, beside: Bystanders, *, cores: int) -> Turn:
    """The turn with what went on beside it."""
    at_work = 1 + sum(run > AT_WORK * turn.time.wall for run, _ in beside.tasks.values())
    return replace(
        turn,
        others_running=beside.running,
        others_waiting=beside.waiting,
        foreign_running=max(0.0, (beside.busy or 0.0) - beside.running - turn.time.running),
        # A thread that was born in this turn has no earlier reading to compare with: the next turn will tell.
        crowded=at_work > cores and beside.busy is not None,
    )


def train_on(subject: Subject, batch: Any, watch: Stopwatch | None = None) -> torch.Tensor:
    """One update on a batch that is already placed: forward, loss, backward, optimizer. Gives the loss."""
    phase = watch.phase if watch is not None else _unwatched
    loss = forward_loss(subject, batch, watch)
    phase("backward")
    if subject.scaler is None:
        loss.backward()
        phase("optimizer")
        subject.optimizer.step()
    else:
        subject.scaler.scale(loss).backward()
        phase("optimizer")
        subject.scaler.step(subject.optimizer)
        subject.scaler.update()
    subject.optimizer.zero_grad(set_to_none=subject.set_to_none)
    return loss


def _unwatched(_: str) -> None:
    pass


@contextlib.contextmanager
def turning(subject: Subject) -> Iterator[None]:
    """The subject's global switches are on inside, as they are during a turn."""
    with contextlib.ExitStack() as switches:
        for switch in subject.around_turn:
            switches.enter_context(switch())
        yield


def one_batch(subject: Subject) -> Any:
    """The first batch of the subject's feed, as the model receives it. Loader workers end before it is returned."""
    batches = subject.feed.epochs()
    try:
        batch = next(batches, _END)
    finally:
        batches.close()  # type: ignore[attr-defined]
    if batch is _END:
        raise _ran_out()
    return subject.fed(batch)


def _ran_out() -> TargetError:
    return TargetError(
        "the training data ran out",
        because="an epoch of the loader has not a single batch",
        hint="check `batch_size` against the number of samples, and `drop_last`",
    )


def forward_loss(subject: Subject, batch: Any, watch: Stopwatch | None = None) -> torch.Tensor:
    """The training loss of one placed batch, under the subject's forward contexts."""
    with contextlib.ExitStack() as contexts:
        for context in subject.around_forward:
            contexts.enter_context(context())
        output = subject.forward(subject.callee, batch)  # type: ignore[arg-type]
        if watch is not None:
            watch.phase("loss")
        return subject.loss(output, batch)


@contextlib.contextmanager
def evaluating(subject: Subject) -> Iterator[None]:
    """Evaluation mode without gradients; the training mode comes back however the inside ends."""
    was = subject.model.training
    subject.model.eval()
    try:
        with contextlib.ExitStack() as contexts:
            for context in (*subject.around_turn, *subject.around_eval, *subject.around_forward):
                contexts.enter_context(context())
            yield
    finally:
        subject.model.train(was)
