"""PyTriton: Triton Inference Server started from Python, with this interpreter's own packages.

Needs:      the package `nvidia-pytriton`, in an environment of its own (it wants NumPy below 2): `--python INTERPRETER`. No GPU.
Helps:      clients that speak Triton's gRPC or shared memory.
Batching:   Triton's dynamic batcher: a queue delay, and sizes that are preferred.
Speaks:     Open Inference Protocol v2 with binary data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from netdyno.records.deployment import Level
from netdyno.runtimes._base import missing
from netdyno.serving.engines._base import Wanted, single_input
from netdyno.shipping.package import Package

SCRIPT = '''\
"""Serves a package with PyTriton. Written by netdyno; yours to change."""

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

from netdyno.shipping.package import opened

PACKAGE = {folder!r}

package = opened(PACKAGE)
call = package.call()
package.proven(call)
ports = package.manifest.signature.inputs
outputs = call(package.example()[0])
names = [port.name for port in package.manifest.signature.outputs]
names = names if len(names) == len(outputs) else [f"output{{at}}" for at in range(len(outputs))]


@batch
def infer(**given):
    answers = call(tuple(np.ascontiguousarray(given[port.name]) for port in ports))
    return dict(zip(names, answers))


if __name__ == "__main__":
    config = TritonConfig(http_address={host!r}, http_port={port}, grpc_port={grpc}, metrics_port={metrics})
    with Triton(config=config) as triton:
        triton.bind(
            model_name={name!r},
            infer_func=infer,
            inputs=[Tensor(name=port.name, dtype=np.dtype(port.dtype), shape=port.shape) for port in ports],
            outputs=[Tensor(name=name, dtype=array.dtype, shape=array.shape[1:]) for name, array in zip(names, outputs)],
            config=ModelConfig(
                max_batch_size={largest}, batcher=DynamicBatcher(max_queue_delay_microseconds={delay_us})
            ),
            strict=True,
        )
        triton.serve()
'''


@dataclass(frozen=True, slots=True)
class Pytriton:
    level: ClassVar[Level] = "needs a package"
    needs: ClassVar[tuple[str, ...]] = ("pytriton",)
    script: ClassVar[str | None] = "serve.py"
    ready: ClassVar[str] = "/v2/health/ready"

    def unavailable(self) -> str | None:
        if missing(self.needs) is None:
            return None
        return "it needs `nvidia-pytriton` in an environment of its own: pip install nvidia-pytriton==0.7.0 there, then `--python`"

    def files(self, package: Package, wanted: Wanted) -> Mapping[str, bytes]:
        single_input(package.manifest, "PyTriton")
        text = SCRIPT.format(
            folder=str(package.folder.resolve()),
            name=package.manifest.name,
            largest=wanted.largest,
            delay_us=round(wanted.delay_s * 1e6),
            host=wanted.host,
            port=wanted.port,
            grpc=wanted.port + 1,
            metrics=wanted.port + 2,
        )
        return {"serve.py": text.encode()}

    def environment(self, python: str) -> Mapping[str, str]:
        # Its stub links the system's Python library; another patch release than the interpreter's fails to import its own
        # standard library, so the interpreter's library must come first.
        return {"LD_LIBRARY_PATH": str(library_folder(python))}


def library_folder(python: str) -> Path:
    """The folder with the Python library that belongs to an interpreter, seen through the links of its environment."""
    real = Path(python).resolve()
    return real.parent.parent / "lib"
