"""TensorRT's command line: the command for each of its versions, what it prints, and what a set of shapes lacks. Runs nothing."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from netdyno.errors import NetdynoError
from netdyno.records.deployment import GateCheck, Precision

Version = tuple[int, int]
Shape = tuple[int, ...]
Lengths = tuple[int | None, ...]

POOLS_FROM: Version = (8, 4)  # `--memPoolSize=workspace:N` from here on; `--workspace=N` was taken until 10 removed it
TYPED_FROM: Version = (
    11,
    0,
)  # all networks are strongly typed: the ONNX file says the precision, and the flags are gone
# The least compute capability that a version builds for; what is not listed is not known here.
LEAST_SM: tuple[tuple[Version, int], ...] = (((10, 5), 75), ((10, 0), 70))


class TrtexecError(NetdynoError):
    """A command that TensorRT would refuse, or one that failed."""


class Profile(NamedTuple):
    """What lengths an input may have, rows first: the least, those it is tuned for, the most."""

    least: Shape
    best: Shape
    most: Shape

    @property
    def fixed(self) -> bool:
        """True when there is one shape only."""
        return self.least == self.best == self.most


@dataclass(frozen=True, kw_only=True)
class Build:
    """One engine to be built from an ONNX file and timed. `shapes` are what it is timed with."""

    onnx: str = "model.onnx"
    precision: Precision = "fp32"
    workspace_mib: int = 2048
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    runs: int = 100
    cuda_graph: bool = False
    engine: str | None = None


def command(build: Build, version: Version) -> tuple[str, ...]:
    """The command line that builds and times it with this version of TensorRT (ledger A-270, A-272).

    Raises TrtexecError where a CUDA graph is asked for and shapes may change: a graph replays one shape.
    """
    if build.cuda_graph and not all(profile.fixed for profile in build.profiles.values()):
        raise TrtexecError(
            "cannot record a CUDA graph",
            because="an input may have several shapes, and a graph replays the one it was recorded with",
            hint="give each input one shape: least, best and most the same; or leave `--useCudaGraph` out",
        )
    parts = ["trtexec", f"--onnx={build.onnx}", *_precision(build.precision, version), _workspace(build, version)]
    if build.profiles:
        parts += [
            _shapes("min", {name: one.least for name, one in build.profiles.items()}),
            _shapes("opt", {name: one.best for name, one in build.profiles.items()}),
            _shapes("max", {name: one.most for name, one in build.profiles.items()}),
        ]
    if build.shapes:
        parts.append(_shapes("", build.shapes))
    if build.engine:
        parts.append(f"--saveEngine={build.engine}")
    if build.cuda_graph:
        parts.append("--useCudaGraph")
    return (*parts, f"--avgRuns={build.runs}")


def _precision(precision: Precision, version: Version) -> tuple[str, ...]:
    if precision == "fp32" or version >= TYPED_FROM:
        return ()
    # Layers without rounded inputs may then run in fp16; with int8 alone they would stay in fp32.
    return ("--int8", "--fp16") if precision == "int8" else (f"--{precision}",)


def _workspace(build: Build, version: Version) -> str:
    if version >= POOLS_FROM:
        return f"--memPoolSize=workspace:{build.workspace_mib}"
    return f"--workspace={build.workspace_mib}"


def _shapes(kind: str, shapes: Mapping[str, Shape]) -> str:
    told = ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items())
    return f"--{kind}Shapes={told}" if kind else f"--shapes={told}"


class Timing(NamedTuple):
    """What `trtexec` measured, in seconds and calls per second. `warnings` are its own words on how far to trust them."""

    rate: float | None
    latency: dict[str, float]
    compute: dict[str, float]
    version: Version | None = None
    warnings: tuple[str, ...] = ()


def parsed(text: str) -> Timing:
    """The timing that `trtexec` printed. Raises TrtexecError when it failed, or printed none."""
    if "&&&& FAILED" in text:
        told = re.findall(r"\[E\]\s*(.+)", text)
        raise TrtexecError(
            "`trtexec` failed",
            because=told[0].strip() if told else "it does not say why",
            hint="run it with `--verbose`; the first line marked [E] is mostly the cause",
        )
    latency = _times(text, "Latency")
    if not latency:
        raise TrtexecError(
            "cannot read what `trtexec` printed",
            because="there is no line of latencies in it",
            hint="leave `--buildOnly` and `--skipInference` out: they build an engine without timing it",
        )
    rate = re.search(r"Throughput: ([\d.]+) qps", text)
    return Timing(
        rate=float(rate[1]) if rate else None,
        latency=latency,
        compute=_times(text, "GPU Compute Time"),
        version=_version(text),
        warnings=tuple(line.strip() for line in re.findall(r"\[W\]\s*\*\s*(.+)", text)),
    )


def _times(text: str, name: str) -> dict[str, float]:
    """Its line `name: min = 1.2 ms, max = …, percentile(99%) = …`, in seconds."""
    line = re.search(rf"\[I\] {re.escape(name)}: (min = .+)", text)
    pairs = re.findall(r"([\w()%.]+) = ([\d.]+) ms", line[1]) if line else []
    return {_quantity(key): float(value) / 1e3 for key, value in pairs}


def _quantity(key: str) -> str:
    percent = re.fullmatch(r"percentile\(([\d.]+)%\)", key)
    return f"p{percent[1]}" if percent else key


def _version(text: str) -> Version | None:
    """From its first line: `v8601` is 8.6, `v100200` is 10.2 (from 10 on two digits for each part)."""
    found = re.search(r"\[TensorRT v(\d+)\]", text)
    if found is None:
        return None
    number = int(found[1])
    return (number // 10000, number // 100 % 100) if number >= 100000 else (number // 1000, number // 100 % 10)


def checked_shapes(
    inputs: Mapping[str, Lengths], profiles: Mapping[str, Profile], served: Mapping[str, Shape]
) -> tuple[GateCheck, ...]:
    """What the shapes of an engine lack (ledger A-271): errors, and warnings where it would be tuned for other shapes than it is served."""
    found = [_checked(name, lengths, profiles.get(name), served.get(name)) for name, lengths in inputs.items()]
    strange = [name for name in profiles if name not in inputs]
    if strange:
        found.append(_fails(strange[0], f"there is a profile for `{strange[0]}`, and the model has no such input"))
    return tuple(found)


def _checked(name: str, lengths: Lengths, profile: Profile | None, served: Shape | None) -> GateCheck:
    if profile is None:
        if None in lengths:
            return _fails(
                name, f"`{name}` has open lengths {_told(lengths)} and no profile: least, best and most are needed"
            )
        return GateCheck(name="shape-profile", ok=True, says=f"`{name}` has one shape", where=name)
    for kind, shape in profile._asdict().items():
        if len(shape) != len(lengths) or any(
            want is not None and want != have for want, have in zip(lengths, shape, strict=False)
        ):
            return _fails(name, f"the {kind} shape {_told(shape)} does not fit `{name}` with {_told(lengths)}")
    if not all(low <= best <= high for low, best, high in zip(*profile, strict=True)):
        return _fails(name, f"the shapes of `{name}` do not ascend: {', '.join(map(_told, profile))}")
    if served is not None and not all(
        low <= have <= high for low, have, high in zip(profile.least, served, profile.most, strict=True)
    ):
        return _fails(name, f"`{name}` is served with {_told(served)}, which lies outside the profile")
    if served is not None and served != profile.best:
        return GateCheck(
            name="shape-profile",
            ok=False,
            warning=True,
            says=f"`{name}` is tuned for {_told(profile.best)} and served with {_told(served)}",
            fix="make the best shape the one that is served most",
            where=name,
        )
    return GateCheck(name="shape-profile", ok=True, says=f"`{name}` is tuned for what is served", where=name)


def _fails(name: str, says: str) -> GateCheck:
    return GateCheck(
        name="shape-profile", ok=False, says=says, where=name, fix="give `--minShapes --optShapes --maxShapes`"
    )


def _told(shape: Lengths) -> str:
    return "x".join("?" if length is None else str(length) for length in shape)


def refused(version: Version, sm: int) -> str | None:
    """Why this version of TensorRT builds nothing for a device of this compute capability (75 is 7.5), or None."""
    least = next((sm for since, sm in LEAST_SM if version >= since), None)
    if least is None or sm >= least:
        return None
    return f"TensorRT {version[0]}.{version[1]} builds for compute capability {least / 10} and up, this device has {sm / 10}"


def elsewhere(built: tuple[Version, int], here: tuple[Version, int]) -> str | None:
    """Why an engine cannot be loaded: it is code for one version of TensorRT and one kind of device. None when it can."""
    (version, sm), (now, device) = built, here
    if version != now:
        return f"it was built with TensorRT {version[0]}.{version[1]}, and here is {now[0]}.{now[1]}: export it again"
    if sm != device:
        return f"it was built for compute capability {sm / 10}, and this device has {device / 10}: export it again"
    return None


ASKED = ("execute_async_v3", "execute_v2", "execute_async_v2", "enqueue_v3")


def reviewed(source: str) -> tuple[str, ...]:
    """What is wrong with code that runs an engine (ledger A-276); nothing when it asks the execution context, on its own stream, and waits."""
    tree = ast.parse(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    contexts = _named(tree, "create_execution_context")
    runs = [call for call in calls if _called(call) in ASKED]
    found = [
        f"line {call.lineno}: `{_called(call)}` is not called on what `create_execution_context` gave"
        for call in runs
        if not _is(call, contexts)
    ]
    if not runs:
        found.append("nothing runs the engine")
    streams = _named(tree, "Stream") | _named(tree, "cudaStreamCreateWithFlags")
    if not streams:
        found.append("it makes no stream of its own, so it waits for all that runs on the default one")
    if not any(_called(call) in ("synchronize", "cudaStreamSynchronize") for call in calls):
        found.append("it does not wait for the stream before it reads the answers")
    return tuple(found)


def _named(tree: ast.Module, maker: str) -> set[str]:
    """Names that a call of `maker` is assigned to."""
    return {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _called(node.value) == maker
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is(call: ast.Call, names: set[str]) -> bool:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in names
