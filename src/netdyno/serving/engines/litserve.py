"""LitServe: an embedded server with batching and workers in processes of their own.

Needs:      the package `litserve`.
Helps:      several workers, streaming; each worker loads the model again.
Batching:   a fixed window: the first request always waits for company.
Speaks:     POST /predict with {"inputs": {NAME: row}}, one row a request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from netdyno.records.deployment import Level
from netdyno.serving.engines._base import Wanted, lacking
from netdyno.shipping.package import Package

SCRIPT = '''\
"""Serves a package with LitServe. Written by netdyno; yours to change."""

import litserve
import numpy as np

from netdyno.shipping.package import opened

PACKAGE = {folder!r}


class Api(litserve.LitAPI):
    def setup(self, device):
        package = opened(PACKAGE)
        self.call = package.call()
        package.proven(self.call)
        self.ports = package.manifest.signature.inputs
        outputs = self.call(package.example()[0])
        names = [port.name for port in package.manifest.signature.outputs]
        self.names = names if len(names) == len(outputs) else [f"output{{at}}" for at in range(len(outputs))]

    def decode_request(self, request):
        return tuple(np.asarray(request["inputs"][port.name], dtype=port.dtype) for port in self.ports)

    def batch(self, inputs):
        return tuple(np.stack(column) for column in zip(*inputs))

    def predict(self, inputs):
        {predict}

    def unbatch(self, output):
        return list(zip(*output))

    def encode_response(self, output):
        return {{"outputs": {{name: array.tolist() for name, array in zip(self.names, output)}}}}


if __name__ == "__main__":
    api = Api(max_batch_size={largest}, batch_timeout={delay_s!r})
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device={workers})
    server.run(host={host!r}, port={port}, generate_client_file=False, log_level="error")
'''
BATCHED = "return self.call(inputs)"
SINGLE = "return tuple(array[0] for array in self.call(tuple(array[None] for array in inputs)))"


@dataclass(frozen=True, slots=True)
class Litserve:
    level: ClassVar[Level] = "needs a package"
    needs: ClassVar[tuple[str, ...]] = ("litserve",)
    script: ClassVar[str | None] = "serve.py"
    ready: ClassVar[str] = "/health"

    def unavailable(self) -> str | None:
        return lacking(self.needs, "litserve")

    def files(self, package: Package, wanted: Wanted) -> Mapping[str, bytes]:
        text = SCRIPT.format(
            folder=str(package.folder.resolve()),
            largest=wanted.largest,
            delay_s=wanted.delay_s,
            workers=wanted.workers,
            host=wanted.host,
            port=wanted.port,
            predict=BATCHED if wanted.largest > 1 else SINGLE,
        )
        return {"serve.py": text.encode()}

    def environment(self, python: str) -> Mapping[str, str]:
        return {}
