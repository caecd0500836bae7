"""Triton Inference Server: a model repository with its `config.pbtxt`, to be mounted into a server elsewhere.

Needs:      a Triton server with the backend of the artefact: onnxruntime, openvino or pytorch. Layout only.
Helps:      where Triton runs already.
Batching:   Triton's dynamic batcher, with the sizes of the package preferred.
Speaks:     Open Inference Protocol v2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from netdyno.errors import NetdynoError
from netdyno.records.deployment import Level, Manifest
from netdyno.serving.engines import _text as text
from netdyno.serving.engines._base import Wanted, single_input
from netdyno.shipping.package import Package

TYPES = {
    "bool": "TYPE_BOOL",
    "uint8": "TYPE_UINT8", "uint16": "TYPE_UINT16", "uint32": "TYPE_UINT32", "uint64": "TYPE_UINT64",
    "int8": "TYPE_INT8", "int16": "TYPE_INT16", "int32": "TYPE_INT32", "int64": "TYPE_INT64",
    "float16": "TYPE_FP16", "float32": "TYPE_FP32", "float64": "TYPE_FP64",
}  # fmt: skip
# Which backend reads the artefact of a runtime, under which name it looks for it, and how its file ends in the package.
BACKENDS = {
    "onnx-runtime": ("onnxruntime", "model.onnx", ".onnx"),
    "openvino": ("openvino", "model.xml", ".xml"),
    "torchscript": ("pytorch", "model.pt", ".pt"),
}
MOST_DELAY_US = 10_000_000


@dataclass(frozen=True, slots=True)
class TritonRepository:
    level: ClassVar[Level] = "built in"
    needs: ClassVar[tuple[str, ...]] = ()
    script: ClassVar[str | None] = None
    ready: ClassVar[str] = "/v2/health/ready"

    def unavailable(self) -> str | None:
        return None

    def files(self, package: Package, wanted: Wanted) -> Mapping[str, bytes]:
        manifest = package.manifest
        single_input(manifest, "Triton")
        backend, name, suffix = backend_of(manifest)
        written = config(manifest, wanted, backend)
        wrong = faults(written)
        if wrong:  # a layout that a server refuses an hour later, on another machine, is worse than none
            raise NetdynoError(
                f"cannot lay `{manifest.name}` out for Triton", because=wrong[0], hint="serve it with `--engine own`"
            )
        model = f"{manifest.name}/{_version(manifest)}"
        return {f"{manifest.name}/config.pbtxt": written.encode(), **_model(package, model, name, suffix)}

    def environment(self, python: str) -> Mapping[str, str]:
        return {}


def backend_of(manifest: Manifest) -> tuple[str, str, str]:
    """The backend for a package. Raises NetdynoError where Triton has none."""
    found = BACKENDS.get(manifest.runtime.id)
    if found is None:
        raise NetdynoError(
            f"cannot lay `{manifest.name}` out for Triton",
            because=f"Triton has no backend for an artefact of `{manifest.runtime.id}`",
            hint=f"deploy with `--only` one of {', '.join(BACKENDS)}",
        )
    return found


def config(manifest: Manifest, wanted: Wanted, backend: str) -> str:
    """`config.pbtxt`: names, types and dimensions without the rows, batching, and a warm-up of every size."""
    sizes = [size for size in manifest.running.batches or manifest.warm_up if 1 < size <= wanted.largest]
    fields: list[text.Field] = [
        ("name", manifest.name),
        ("backend", backend),
        ("max_batch_size", wanted.largest),
        *(("input", _port(port.name, port.dtype, port.shape)) for port in manifest.signature.inputs),
        *(("output", _port(port.name, port.dtype, port.shape)) for port in manifest.signature.outputs),
        (
            "dynamic_batching",
            [
                *(("preferred_batch_size", size) for size in sizes),
                ("max_queue_delay_microseconds", round(wanted.delay_s * 1e6)),
            ],
        ),
        ("instance_group", [("count", wanted.workers), ("kind", text.Word("KIND_CPU"))]),
        *(
            ("model_warmup", [("name", f"rows-{size}"), ("batch_size", size), *_warm_inputs(manifest)])
            for size in (1, *sizes)
        ),
    ]
    return text.written(fields)


def _port(name: str, dtype: str, shape: tuple[int | None, ...]) -> list[text.Field]:
    dims: list[text.Field] = [("dims", -1 if size is None else size) for size in shape or (1,)]
    # Triton wants a dimension beside the rows; a scalar for each row is one of length one that is taken away again.
    reshape: list[text.Field] = [] if shape else [("reshape", [])]
    return [("name", name), ("data_type", text.Word(TYPES[dtype])), *dims, *reshape]


def _warm_inputs(manifest: Manifest) -> list[text.Field]:
    return [
        (
            "inputs",
            [
                ("key", port.name),
                (
                    "value",
                    [
                        ("data_type", text.Word(TYPES[port.dtype])),
                        *(("dims", size) for size in port.shape or (1,) if size is not None),
                        ("zero_data", True),
                    ],
                ),
            ],
        )
        for port in manifest.signature.inputs
    ]


def faults(written: str) -> list[str]:
    """What a Triton server would refuse in a `config.pbtxt`, after reading it back: fields, types, ranges and dimensions."""
    try:
        found = text.read(written)
    except ValueError as error:
        return [f"config.pbtxt cannot be read back: {error}"]
    wrong = [f"`{name}` is no field of a model configuration" for name in found if name not in FIELDS]
    wrong += [
        f"`{name}` is missing" for name in ("name", "backend", "max_batch_size", "input", "output") if name not in found
    ]
    if wrong:
        return wrong
    (most,) = found["max_batch_size"]
    if not isinstance(most, int) or most < 1:
        wrong.append(f"max_batch_size is {most}")
    for side in ("input", "output"):
        wrong += [fault for port in found[side] for fault in _port_faults(side, port)]
        names = [name for port in found[side] for name in port.get("name", [])]
        wrong += [f"{side} `{name}` stands there twice" for name in {n for n in names if names.count(n) > 1}]
    for batching in found.get("dynamic_batching", []):
        sizes = batching.get("preferred_batch_size", [])
        wrong += [f"preferred_batch_size {size} is not within 1 and {most}" for size in sizes if not 1 <= size <= most]
        (delay,) = batching.get("max_queue_delay_microseconds", [0])
        if not 0 <= delay <= MOST_DELAY_US:
            wrong.append(f"max_queue_delay_microseconds is {delay}")
    wrong += [
        f"instance_group has {count} instances"
        for group in found.get("instance_group", [])
        for count in group.get("count", [1])
        if count < 1
    ]
    wrong += [
        f"model_warmup has a batch_size of {size}, more than {most}"
        for warm in found.get("model_warmup", [])
        for size in warm.get("batch_size", [])
        if not 1 <= size <= most
    ]
    return wrong


def _port_faults(side: str, port: text.Message) -> list[str]:
    names, types, dims = port.get("name", []), port.get("data_type", []), port.get("dims", [])
    told = f"{side} `{names[0]}`" if names else side
    wrong = [] if len(names) == 1 and names[0] else [f"an {side} has no name"]
    if len(types) != 1 or types[0] not in TYPES.values():
        wrong.append(f"{told} has the data_type {types}")
    if not dims:
        wrong.append(f"{told} has no dims")
    wrong += [
        f"{told} has the dimension {size}" for size in dims if not isinstance(size, int) or size < -1 or size == 0
    ]
    return wrong


FIELDS = {
    "name", "backend", "max_batch_size", "input", "output", "dynamic_batching", "instance_group", "model_warmup",
}  # fmt: skip


def _version(manifest: Manifest) -> int:
    """Triton's versions are whole numbers: what the package's begins with, at least 1."""
    head = manifest.version.partition(".")[0]
    return max(1, int(head)) if head.isascii() and head.isdigit() else 1


def _model(package: Package, below: str, name: str, suffix: str) -> dict[str, bytes]:
    there = [path for path in sorted(package.artifact.rglob("*")) if path.is_file()]
    mains = [path for path in there if path.suffix == suffix]
    if len(mains) != 1:
        raise NetdynoError(
            f"cannot lay `{package.manifest.name}` out",
            because=f"its artefact has {len(mains)} files `*{suffix}`, and the server takes one",
            hint="deploy it so that calls may have any number of rows (`dynamic`)",
        )
    (main,) = mains
    # Weights that lie beside the graph are named in it: they keep their names, unless they are called as the graph is.
    renamed = {main: name, main.with_suffix(".bin"): f"{name.rpartition('.')[0]}.bin"}
    kept = {path: renamed.get(path, path.relative_to(package.artifact).as_posix()) for path in there}
    return {f"{below}/{target}": path.read_bytes() for path, target in kept.items() if path.suffix != ".json"}
