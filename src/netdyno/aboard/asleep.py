"""What an update is between two looks of a long watch: its loss is read, compared and kept; whatever is odd wakes everybody."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .observe import Observer

# One update in so many is seen in the usual way, and the one after it: there it is decided who looks. What is passed in each
# update of a large model is found in no cache: each line of code and each object costs some hundred nanoseconds there.
STRETCH = 32
# Fewer updates than this are not worth falling asleep for.
LEAST = 4
# Batches whose labels are looked at while everybody sleeps: one in so many.
LABELS = 512


class Calm(NamedTuple):
    """Nothing is wrong: losses of the steps of `optimizer` from `low` to `high` are nothing to wake for.

    `clips`: the norm that clipping returns is read in each update. `guard` is asked before a step whether gradients are in
    order. `batch` is told of each batch, `forget` of each step where there is no loader to tell of one.
    """

    optimizer: Any
    low: float
    high: float
    clips: bool
    loader: Any
    batch: Callable[[Any, Any], None]
    slept: Callable[[list[float]], None]
    guard: Callable[[], bool] | None = None
    stepped: Callable[[], None] | None = None


class Sleep:
    """The state of updates that nobody watches. `on` is asked first by what is called in each of them."""

    __slots__ = (
        "began",
        "calm",
        "clips",
        "guard",
        "high",
        "left",
        "loader",
        "loss",
        "losses",
        "low",
        "on",
        "optimizer",
        "passes",
        "stepped",
    )

    def __init__(self) -> None:
        self.on = self.clips = False
        self.began = self.left = self.passes = 0
        self.low, self.high = 0.0, -1.0
        self.calm: Calm | None = None
        self.optimizer: Any = None
        self.loader: Any = None
        self.loss: float | None = None
        self.losses: list[float] = []
        self.guard: Callable[[], bool] | None = None
        self.stepped: Callable[[], None] | None = None

    def fall(self, calm: Calm, updates: int, now: int) -> None:
        """Fall asleep for so many updates at most."""
        self.began = now
        self.calm = calm
        # What is asked in each update lies in one place.
        self.optimizer, self.low, self.high, self.clips, self.loader = calm[:5]
        self.guard, self.stepped = calm.guard, calm.stepped
        self.left, self.loss, self.passes = updates, None, 0
        self.on = True

    def rise(self) -> list[float]:
        """Losses of the updates that were slept through."""
        self.on = False
        slept, self.losses = self.losses, []
        if slept and self.calm is not None:
            self.calm.slept(slept)
        self.calm = self.guard = self.stepped = None
        return slept


def backward(observer: "Observer", original: Any, tensors: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A backward pass: what it started from is a loss, if it is one number that lies here."""
    sleep = observer.sleep
    observer.backwards = 1  # a checkpoint that is run again within is no evaluation
    try:
        result = original(tensors, *args, **kwargs)
    finally:
        observer.backwards = 0
    sleep.passes += 1
    try:
        loss = observer.item(tensors) if tensors.is_cpu else None
    except (AttributeError, RuntimeError, TypeError):  # several, or none that is one number
        loss = None
    if loss is None:
        observer.wake()
        observer.guarded("loss", observer.read_loss, tensors)
    else:
        sleep.loss = loss if sleep.loss is None else sleep.loss + loss
    return result


def batch(observer: "Observer", original: Any, iterator: Any, known: Any) -> Any:
    """A batch of the loader that trains."""
    # What a loader does within is its own business.
    observer.inside, observer.fetching = 1, True
    try:
        found = original(iterator)
    finally:
        observer.inside, observer.fetching = 0, False
    observer.batches += 1
    known.batches += 1
    try:
        if (calm := observer.sleep.calm) is not None:
            calm.batch(known, found)
        if not known.batches % LABELS:
            known.look(found, observer.account)
    except Exception as error:
        observer.trouble("batch", error)
    return found
