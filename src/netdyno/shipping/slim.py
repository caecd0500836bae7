"""A checkpoint to release: the model's state alone, which loads without pickle's powers. The checkpoint to resume from stays as it is."""

import math
import os
import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from netdyno.errors import StoreError
from netdyno.measure.latency import elapsed
from netdyno.records.measured import Interval
from netdyno.stats.paired import fewest_pairs, hodges_lehmann, log_ratios

# What frameworks call the model's part of a checkpoint, the commonest first.
KEYS = ("model_state_dict", "state_dict", "model_state", "model", "net", "network", "module", "weights")
PAIRS = 12  # twice what a bounded interval at 95 % needs


class Slim(NamedTuple):
    """What was written: the file, which part of the checkpoint it is, how many tensors, and bytes before and after."""

    file: Path
    key: str
    tensors: int
    before: int
    after: int

    @property
    def share(self) -> float:
        """The size of the slim file, as a share of the checkpoint's: about a third where Adam keeps two numbers per weight."""
        return self.after / self.before


def slim(checkpoint: Path, file: Path, *, key: str | None = None, trusted: bool = False) -> Slim:
    """Write the model's state alone into `file`, whole or not at all; it loads with `weights_only=True`, each tensor as it was.

    `key` names the part where several could be meant. `trusted` unpickles a checkpoint of your own that holds other objects.
    Raises StoreError when the checkpoint cannot be read safely or holds no model state.
    """
    if file.exists() and file.samefile(checkpoint):
        raise StoreError(
            f"cannot write the slim form over `{checkpoint}`",
            because="training resumes from that file, and the optimizer's state would be gone",
            hint="name another file",
        )
    found, state = _state(_read(checkpoint, trusted=trusted), checkpoint, key)
    bare = _bare(state)
    _write(bare, file)
    written = torch.load(file, map_location="cpu", weights_only=True)
    for name, tensor in bare.items():
        if not _same(tensor, written[name]):
            file.unlink()
            raise StoreError(
                f"`{name}` reads back otherwise than it was",
                because=f"`{file}` holds other bits than `{checkpoint}`",
                hint="look at the disk; the slim file was taken away again",
            )
    tensors = sum(isinstance(value, Tensor) for value in bare.values())
    return Slim(file, found, tensors, checkpoint.stat().st_size, file.stat().st_size)


def loading_ratio(
    checkpoint: Path,
    file: Path,
    *,
    pairs: int = PAIRS,
    level: float = 0.95,
    trusted: bool = False,
    seed: int = 0,
    timed: Callable[[Callable[[], object]], float] = elapsed,
) -> Interval:
    """How many times as long the checkpoint takes to load as the slim file, with its interval. The two take turns, in random order."""
    fewest = fewest_pairs(1 - level)
    if pairs < fewest:
        raise ValueError(f"{pairs} pairs give no bounded interval at {level:.0%}: {fewest} do")
    draw = random.Random(seed)
    seconds: dict[Path, list[float]] = {checkpoint: [], file: []}
    sides = [(checkpoint, not trusted), (file, True)]
    for path, safe in sides:  # both come from the cache afterwards: what is compared is reading, not the disk
        _load(path, safe=safe)
    for _ in range(pairs):
        draw.shuffle(sides)
        for path, safe in sides:
            seconds[path].append(timed(lambda path=path, safe=safe: _load(path, safe=safe)))  # type: ignore[misc]
    found = hodges_lehmann(log_ratios(seconds[checkpoint], seconds[file]), level)
    return Interval(middle=math.exp(found.middle), low=math.exp(found.low), high=math.exp(found.high), level=level)


def _load(path: Path, *, safe: bool) -> Any:
    return torch.load(path, map_location="cpu", weights_only=safe)


def _read(checkpoint: Path, *, trusted: bool) -> Any:
    try:
        return _load(checkpoint, safe=not trusted)
    except FileNotFoundError as error:
        raise StoreError(
            f"there is no checkpoint `{checkpoint}`", because=str(error), hint="give the file that training saves"
        ) from error
    except Exception as error:
        raise StoreError(
            f"cannot read `{checkpoint}` without unpickling what it holds",
            because=str(error).strip().splitlines()[0],
            hint="if the file is your own, `trusted=True` unpickles it; never do that to a file of strangers",
        ) from error


def _state(held: Any, checkpoint: Path, key: str | None) -> tuple[str, Mapping[str, Any]]:
    """The part of a checkpoint that is a model's state, and its name; the whole where it is nothing else."""
    if key is None and _is_state(held):
        return "", held
    parts = held if isinstance(held, Mapping) else {}
    if key is not None:
        parts = {key: parts[key]} if key in parts else {}
    states = {str(name): _plain(part) for name, part in parts.items() if _is_state(_plain(part))}
    named = [name for name in (key, *KEYS) if name in states]
    if named and (key is not None or len(states) == 1 or len(set(named)) == 1):
        return named[0] or "", states[named[0]]  # type: ignore[index]
    if len(states) == 1:
        return next(iter(states.items()))
    raise StoreError(
        f"`{checkpoint}` holds {'several' if states else 'no'} model states",
        because=f"those are `{'`, `'.join(sorted(states))}`"
        if states
        else f"it has {', '.join(f'`{name}`' for name in sorted(map(str, parts))) or f'a `{type(held).__name__}`'}",
        hint="name the part: `key=…`" if states else "save `model.state_dict()` in it",
    )


def _plain(part: Any) -> Any:
    return part.state_dict() if isinstance(part, nn.Module) else part


def _is_state(part: Any) -> bool:
    """Names to tensors, as `state_dict` gives them; an optimizer's state has numbers for names and dictionaries within."""
    if not isinstance(part, Mapping) or not part or not all(isinstance(name, str) for name in part):
        return False
    tensors = [value for name, value in part.items() if not name.endswith("_extra_state")]
    return bool(tensors) and all(isinstance(value, Tensor) for value in tensors)


def _bare(state: Mapping[str, Any]) -> dict[str, Any]:
    """Plain tensors with storage of their own size; those that share a place still share it."""
    kept: dict[tuple[Any, ...], Tensor] = {}
    bare = {}
    for name, value in state.items():
        if isinstance(value, Tensor):
            place = (value.device, value.data_ptr(), value.shape, value.stride(), value.dtype)
            # A part of a larger tensor would bring all of it into the file.
            value = kept.setdefault(place, value.detach().clone(memory_format=torch.preserve_format).cpu())  # noqa: PLW2901
        bare[name] = value
    return bare


def _write(bare: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as output:
            torch.save(bare, output)
            output.flush()
            os.fsync(output.fileno())
        os.chmod(fresh, 0o644)
        os.replace(fresh, file)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise


def _same(mine: Any, theirs: Any) -> bool:
    if not isinstance(mine, Tensor):
        return bool(mine == theirs)
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        return False
    return torch.equal(*(each.contiguous().reshape(-1).view(torch.uint8) for each in (mine, theirs)))
