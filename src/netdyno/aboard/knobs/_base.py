"""The room's own machinery: which knobs there are, what a view has shown so far, and how one recipe follows another."""

import contextlib
import importlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

Change = Mapping[str, Any]  # {"id": ..., "settings": {...}}, as it stands on the line
Settings = Mapping[str, Any]

LOOKED_AT = 64  # forwards that are looked at closely: what a script does later it mostly does from the start


class Knob(Protocol):
    """One change of one script. Between `on` and `off` it is on; `off` restores everything."""

    def on(self) -> None: ...

    def off(self) -> None: ...


def names() -> list[str]:
    """The ids of all knobs."""
    here = os.path.dirname(os.path.abspath(__file__))
    return sorted(
        name[:-3].replace("_", "-") for name in os.listdir(here) if name.endswith(".py") and not name.startswith("_")
    )


def find(name: str) -> ModuleType | None:
    """The file of a knob, or None when nothing aboard has this id."""
    if name not in names():
        return None
    return importlib.import_module(f".{name.replace('-', '_')}", __package__)


def when(change: Change) -> str | None:
    """ "toggle" when a change can come and go between steps, "start" when only before the script begins."""
    knob = find(change["id"])
    return knob.WHEN if knob is not None else None


def refused(view: Any, change: Change) -> str | None:
    """Why a change makes no sense in this script, in words, or None."""
    knob = find(change["id"])
    if knob is None:
        return f"`{change['id']}` cannot be changed from outside; it needs an edit of the script"
    ranks = os.environ.get("WORLD_SIZE", "1")
    if knob.WHEN == "toggle" and ranks != "1":
        return f"{ranks} processes train together, and a change in one of them would not be in the others"
    why: str | None = knob.refuses(view, change.get("settings") or {})
    return why


def made(view: Any, change: Change) -> Knob:
    """The knob that a change stands for, off."""
    knob = find(change["id"])
    if knob is None:
        raise LookupError(f"nothing aboard can change `{change['id']}`")
    made: Knob = knob.Knob(view, change.get("settings") or {})
    return made


class Recipe:
    """The knobs that are on now. What was made once is kept, so that compiled code and caches are made once."""

    def __init__(self, view: Any) -> None:
        self._view = view
        self._made: dict[str, Knob] = {}
        self._on: list[str] = []

    def follow(self, changes: Sequence[Change]) -> None:
        """Turn knobs until exactly `changes` are on, in the order of their stages. Raises what a knob raises."""
        wanted = {_key(change): change for change in sorted(changes, key=_stage)}
        keys = list(wanted)
        shared = 0
        while shared < min(len(keys), len(self._on)) and keys[shared] == self._on[shared]:
            shared += 1
        # Taken back in the reverse of the order they came in: one may have leaned on another.
        while len(self._on) > shared:
            self._made[self._on.pop()].off()
        for key in keys[shared:]:
            if key not in self._made:
                self._made[key] = made(self._view, wanted[key])
            try:
                self._made[key].on()
            except BaseException:
                with contextlib.suppress(Exception):
                    self._made[key].off()
                raise
            self._on.append(key)

    def clear(self) -> None:
        """All off."""
        self.follow(())


def begin(view: Any, boundary: list[Callable[[], None]], changes: Sequence[Change]) -> Recipe:
    """A recipe that is on from the start, for a run without orders.

    What needs no model and no optimizer is on at once. The rest comes on when the first update is done and both are
    known, so that the first update is the script's own.
    """
    recipe = Recipe(view)
    early = [change for change in changes if _early(change)]
    recipe.follow(early)
    if len(early) < len(changes):

        def late() -> None:
            boundary.remove(late)
            recipe.follow(changes)

        boundary.append(late)
    return recipe


def _early(change: Change) -> bool:
    knob = find(change["id"])
    return knob is not None and (knob.WHEN == "start" or getattr(knob, "EARLY", False))


def _key(change: Change) -> str:
    return json.dumps([change["id"], dict(change.get("settings") or {})], sort_keys=True)


def _stage(change: Change) -> int:
    knob = find(change["id"])
    return int(getattr(knob, "STAGE", 50))


class Seen:
    """What the top-level forwards have shown so far. Stands among `view.inputs` and changes nothing."""

    def __init__(self, view: Any) -> None:
        self._view = view
        self._left = LOOKED_AT
        self.dimensions: set[int] = set()
        self.trained = 0
        self.evaluated = 0
        self.autocast = False
        self.inference = False
        self.zeroed = False  # gradients were there before a forward, and all of them zero

    def __call__(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        import torch

        if not torch.is_grad_enabled():
            self.evaluated += 1
            # What a knob entered is not the script's own, here and below.
            if not self._view.around_evaluation:
                self.inference = self.inference or torch.is_inference_mode_enabled()
        else:
            self.trained += 1
            if self._left > 0:
                self._left -= 1
                self._look(args, kwargs)
        return args, kwargs

    def _look(self, args: Any, kwargs: Any) -> None:
        import torch

        self.dimensions |= {tensor.dim() for tensor in tensors((args, kwargs))}
        if not self._view.around_forward:
            self.autocast = self.autocast or any(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda"))
        self.zeroed = self.zeroed or self._zero_gradients()

    def _zero_gradients(self) -> bool:
        gradients = [
            parameter.grad
            for optimizer in self._view.optimizers
            for parameter in parameters_of(optimizer)
            if parameter.grad is not None
        ]
        if not gradients or any(gradient.device.type != "cpu" for gradient in gradients):
            return False  # asking a device would make the script wait for it
        return all(not gradient.any() for gradient in gradients)


def watch(view: Any) -> Seen:
    """From now on the view is looked at; asked again, the same look."""
    for each in view.inputs:
        if isinstance(each, Seen):
            return each
    seen = Seen(view)
    view.inputs.insert(0, seen)
    return seen


def parameters_of(optimizer: Any) -> Iterator[Any]:
    """Every parameter that an optimizer updates."""
    for group in optimizer.param_groups:
        yield from group["params"]


def parameters(view: Any) -> list[Any]:
    """The parameters of all models, each once."""
    found = {id(parameter): parameter for model in view.models for parameter in model.parameters()}
    return list(found.values())


def device_of(view: Any) -> str:
    """The kind of device that the models are on."""
    for parameter in parameters(view):
        return str(parameter.device.type)
    return "cpu"


def tensors(nested: Any) -> list[Any]:
    """The tensors in arguments or batches, however they are nested."""
    import torch

    return [leaf for leaf in torch.utils._pytree.tree_leaves(nested) if isinstance(leaf, torch.Tensor)]


def drop(entries: list[Any], entry: Any) -> None:
    """Take one entry, and no equal one, out of a list of the view."""
    for position, each in enumerate(entries):
        if each is entry:
            del entries[position]
            return


def randomness() -> tuple[Any, ...]:
    """Where every random stream stands that user code draws from."""
    import torch

    numpy = sys.modules.get("numpy")
    return (
        random.getstate(),
        numpy.random.get_state() if numpy is not None else None,
        torch.get_rng_state(),
        tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else (),
    )


def restore_randomness(state: tuple[Any, ...]) -> None:
    import torch

    python, numpy, cpu, devices = state
    random.setstate(python)
    if numpy is not None:
        sys.modules["numpy"].random.set_state(numpy)
    torch.set_rng_state(cpu)
    if devices:
        torch.cuda.set_rng_state_all(list(devices))


@contextlib.contextmanager
def kept_randomness() -> Iterator[None]:
    """Whatever the inside draws, every stream stands afterwards where it stood."""
    state = randomness()
    try:
        yield
    finally:
        restore_randomness(state)


def free_memory() -> int:
    """Bytes that a new tenant of this machine may take: what the system has left, or the container's limit."""
    available = 0
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as file:
        available = next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")), 0)
    with contextlib.suppress(OSError, ValueError):  # no control group, or one without a limit ("max")
        limit, used = int(_group("memory.max")), int(_group("memory.current"))
        # Files that were read once and can be dropped count as used, though they stand in nobody's way.
        droppable = dict(line.split() for line in _group("memory.stat").splitlines()).get("inactive_file", "0")
        available = min(available, max(0, limit - used + int(droppable)))
    return available


def _group(name: str) -> str:
    with open(f"/sys/fs/cgroup/{name}") as file:
        return file.read()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def form_the_team() -> None:
    """Runs one parallel operator: a team that changed its size is made anew by the first, which must not be timed."""
    import torch

    torch.empty(1 << 17).fill_(0.0)
