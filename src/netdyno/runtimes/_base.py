"""What every runtime promises, and how one is found, written down, exported and loaded.

This module and whatever only loads must not import torch: a service that answers with OpenVINO or ONNX Runtime starts in a
fraction of a second without it, and in a third of the memory.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from sysconfig import get_path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from netdyno import plugins
from netdyno.records.deployment import Level, Precision, Running, Signature
from netdyno.records.trial import Change

if TYPE_CHECKING:
    from torch import Tensor, nn

Arrays = tuple[NDArray[Any], ...]
# Rows in, rows out: arrays whose first dimension counts rows, in the order of the signature. Floats come out as float32.
Call = Callable[[Arrays], Arrays]


@dataclass(frozen=True, kw_only=True)
class Exportable:
    """A trained module in eval mode on the CPU, and what an export may look at. Live: never stored.

    `example` has two rows or more. `calibration` gives batches of inputs, without targets, stratified over classes. `dynamic` says that the
    number of rows may differ from call to call; where False, `batches` are the only counts. `reference` is where the release was loaded from, as an
    absolute path, for runtimes that need its code again.
    """

    reference: str
    model: "nn.Module"
    example: "tuple[Tensor, ...]"
    signature: Signature
    calibration: "Callable[[], Iterable[tuple[Tensor, ...]]]"
    batches: tuple[int, ...] = (1,)
    dynamic: bool = True
    threads: int = 1


class Traits(NamedTuple):
    """What is known of a model before anything is exported, and of the machine: enough to leave hopeless settings out.

    `layers` counts modules by type name. `flags` are the processor's (`amx_int8`, `avx512_vnni`).
    """

    layers: dict[str, int]
    parameters: int
    dynamic: bool
    flags: tuple[str, ...]
    cores: int
    calibration: bool
    device: str = "cpu"
    batches: tuple[int, ...] = (1,)

    def has(self, *types: str) -> bool:
        """True when the model has a module of one of these types."""
        return any(self.layers.get(name) for name in types)


class Runtime(Protocol):
    """A way to run a trained module elsewhere. A frozen dataclass; its fields are the settings of the export.

    `level` says what it takes to have it here; `legacy` marks what its makers have given up; `price` is roughly what an export takes, in
    seconds on one core for a small CNN, so that cheap ones are tried first; `imports_torch` says that loading needs it. Where settings have a
    property `gentler`, it is tried in their stead when they lose too much. `kin` names a runtime whose kernels are the same.
    Promises: what was exported loads in a fresh process, answers within its parity, and refuses rows of another shape.
    """

    level: ClassVar[Level]
    legacy: ClassVar[bool]
    price: ClassVar[float]
    needs: ClassVar[tuple[str, ...]]  # packages to import
    imports_torch: ClassVar[bool]

    @property
    def precision(self) -> Precision:
        """What most of its arithmetic is done in; a field of the dataclass, or a property."""

    def unavailable(self) -> str | None:
        """What is missing here, in words that name the package or the hardware; None when it can run. Runs nothing heavy."""

    def refuses(self, traits: Traits) -> str | None:
        """Why these settings make no sense for this model or machine, or None."""

    @classmethod
    def variants(cls, traits: Traits) -> "tuple[Runtime, ...]":
        """The settings worth trying, the cheapest to build first; those that `refuses` are left out by the caller, aloud."""

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        """Write the artefact into `folder`, which exists and is empty; gives notes for a person. Called in a fresh process."""

    def load(self, folder: Path, running: Running) -> Call:
        """What answers. Called in another fresh process; sets the thread count of its own runtime only."""


@cache
def catalogue() -> dict[str, type[Runtime]]:
    """Every runtime class by id. The class is the file's name in CamelCase."""
    return {name: found for name, found in _scanned().items() if not isinstance(found, plugins.Broken)}


@cache
def broken() -> tuple[plugins.Broken, ...]:
    """The plug-ins that cannot be used, each with the reason: they are skipped aloud."""
    return tuple(found for found in _scanned().values() if isinstance(found, plugins.Broken))


@cache
def _scanned() -> dict[str, Any]:
    return plugins.classes("runtimes")


def gentler(runtime: Runtime) -> Runtime | None:
    """Settings that are no quicker and lose less, for where `runtime` loses too much; None for most, which have no such thing."""
    return getattr(runtime, "gentler", None)


def written(runtime: Runtime) -> Change:
    """The runtime as data."""
    fields = dataclasses.fields(runtime)  # type: ignore[arg-type]
    settings = {field.name: _scalar(getattr(runtime, field.name)) for field in fields}
    # Layers that are kept in float are written down where there are any: most have none, and labels are read by people.
    settings = {name: value for name, value in settings.items() if value != ""}
    return Change(id=plugins.class_id(type(runtime)), settings=settings)


def read(change: Change) -> Runtime:
    """The runtime that a change stands for. Raises KeyError for an unknown id."""
    kind = catalogue()[change.id]
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    settings = {
        name: tuple(part for part in str(value).split(",") if part) if _is_names(fields[name]) else value
        for name, value in change.settings.items()
    }
    return kind(**settings)


def _is_names(field: "dataclasses.Field[Any]") -> bool:
    return str(field.type).startswith("tuple")


def _scalar(value: Any) -> Any:
    """Names of layers are written with commas between them: a change holds scalars only."""
    return ",".join(value) if isinstance(value, tuple) else value


def missing(packages: Sequence[str], *, extra: str = "ship") -> str | None:
    """A sentence that names the packages which cannot be imported and how to have them; None when all are here."""
    absent = [name for name in packages if _absent(name)]
    if not absent:
        return None
    return f"it needs `{'`, `'.join(absent)}`: pip install 'netdyno[{extra}]'"


def _absent(name: str) -> bool:
    try:
        return find_spec(name) is None
    except (ImportError, ValueError):
        return True


def bf16_is_slow_here(traits: Traits) -> str | None:
    """Why bf16 makes no sense on this processor, or None: without instructions for it, it is computed in fp32 with casts around."""
    return None if {"avx512_bf16", "amx_bf16"} & set(traits.flags) else "this processor does not multiply bf16"


def no_compiler() -> str | None:
    """A sentence that says what to install where no C++ compiler is found; None where one is."""
    if any(which(name) for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++") if name):
        return None
    return "it needs a C++ compiler: install g++ (Debian: `apt install g++`), or name yours in `CXX`"


def no_headers() -> str | None:
    """A sentence that says what to install where Python's C headers are missing; None where they are there."""
    if (Path(get_path("include")) / "Python.h").is_file():
        return None
    return "it needs Python's C headers: install python3-dev, or a Python that brings them"


def padded(call: Call, batches: Sequence[int]) -> Call:
    """A call that takes any number of rows from one that takes only `batches`: padded up with the last row, cut again, split where larger.

    >>> doubled = padded(lambda arrays: (arrays[0] * 2,), (2, 4))
    >>> doubled((np.array([[1.0], [2.0], [3.0]]),))[0].ravel().tolist()
    [2.0, 4.0, 6.0]
    """
    if not batches:
        return call
    sizes = tuple(sorted(batches))

    def any_count(arrays: Arrays) -> Arrays:
        rows = len(arrays[0])
        if rows in sizes:
            return call(arrays)
        if rows > sizes[-1]:
            parts = [
                any_count(tuple(array[at : at + sizes[-1]] for array in arrays)) for at in range(0, rows, sizes[-1])
            ]
            return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
        size = next(size for size in sizes if size >= rows)
        filled = tuple(np.concatenate((array, np.repeat(array[-1:], size - rows, axis=0))) for array in arrays)
        return tuple(array[:rows] for array in call(filled))

    return any_count


def checked(call: Call, signature: Signature) -> Call:
    """A call that refuses rows of another shape or type with a ValueError instead of answering garbage, and lays arrays out plainly.

    Compiled artefacts take strides and sizes on trust (an AOTInductor package answers a transposed array with nonsense).
    """
    ports = signature.inputs

    def guarded(arrays: Arrays) -> Arrays:
        if len(arrays) != len(ports):
            raise ValueError(f"{len(arrays)} inputs were given, the model takes {len(ports)}")
        rows = {len(array) for array in arrays if array.ndim}
        if len(rows) != 1 or not rows.isdisjoint({0}):
            raise ValueError(f"inputs must have one same number of rows, and at least one; they have {sorted(rows)}")
        laid = []
        for array, port in zip(arrays, ports, strict=True):
            if array.ndim != len(port.shape) + 1 or any(
                want is not None and have != want for have, want in zip(array.shape[1:], port.shape, strict=True)
            ):
                raise ValueError(f"`{port.name}` has rows of shape {array.shape[1:]}, the model takes {port.shape}")
            if array.dtype != np.dtype(port.dtype):
                raise ValueError(f"`{port.name}` holds {array.dtype}, the model takes {port.dtype}")
            laid.append(np.ascontiguousarray(array))
        return call(tuple(laid))

    return guarded


def as_floats(arrays: Iterable[Any]) -> Arrays:
    """Answers as they leave a runtime: floating-point numbers as float32, whatever precision they were computed in."""
    found = []
    for array in arrays:
        plain = np.asarray(array)
        found.append(plain.astype(np.float32) if plain.dtype.kind == "f" and plain.dtype != np.float32 else plain)
    return tuple(found)


def processor_flags() -> tuple[str, ...]:
    """The processor's flags that decide which precisions are quick here; none where the system does not say."""
    wanted = (
        "avx2",
        "avx512f",
        "avx512_vnni",
        "avx_vnni",
        "avx512_bf16",
        "amx_bf16",
        "amx_int8",
        "avx512_fp16",
        "amx_fp16",
    )
    try:
        with open("/proc/cpuinfo") as file:
            line = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return ()
    there = set(line.split())
    return tuple(flag for flag in wanted if flag in there)
