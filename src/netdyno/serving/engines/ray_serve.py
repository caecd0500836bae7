"""Ray Serve: replicas on several machines, scaled with the load.

Needs:      the package `ray[serve]`; half a gigabyte of memory besides the model, and a minute to start.
Helps:      more than one machine. On one it costs 8 to 9 ms of processor time a request, more than most models.
Batching:   a fixed window per replica.
Speaks:     POST / with {"inputs": {NAME: row}}, one row a request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from netdyno.records.deployment import Level
from netdyno.serving.engines._base import Wanted, lacking
from netdyno.shipping.package import Package

SCRIPT = '''\
"""Serves a package with Ray Serve. Written by netdyno; yours to change."""

import signal

import numpy as np
import ray
from ray import serve
from starlette.requests import Request

PACKAGE = {folder!r}


@serve.deployment(num_replicas={workers}, max_ongoing_requests=256)
class Model:
    def __init__(self):
        from netdyno.shipping.package import opened

        package = opened(PACKAGE)
        self.call = package.call()
        package.proven(self.call)
        self.ports = package.manifest.signature.inputs
        outputs = self.call(package.example()[0])
        names = [port.name for port in package.manifest.signature.outputs]
        self.names = names if len(names) == len(outputs) else [f"output{{at}}" for at in range(len(outputs))]

    @serve.batch(max_batch_size={largest}, batch_wait_timeout_s={delay_s!r})
    async def together(self, rows):
        outputs = self.call(tuple(np.stack(column) for column in zip(*rows)))
        return list(zip(*outputs))

    async def __call__(self, request: Request):
        if request.url.path == "/-/netdyno":
            return {{"ready": True}}
        given = (await request.json())["inputs"]
        row = tuple(np.asarray(given[port.name], dtype=port.dtype) for port in self.ports)
        output = await self.together(row)
        return {{"outputs": {{name: array.tolist() for name, array in zip(self.names, output)}}}}


if __name__ == "__main__":
    ray.init(include_dashboard=False, configure_logging=False)
    serve.start(http_options={{"host": {host!r}, "port": {port}}})
    serve.run(Model.bind(), name={name!r})
    signal.sigwait({{signal.SIGINT, signal.SIGTERM}})
    serve.shutdown()
    ray.shutdown()
'''


@dataclass(frozen=True, slots=True)
class RayServe:
    level: ClassVar[Level] = "needs a package"
    needs: ClassVar[tuple[str, ...]] = ("ray",)
    script: ClassVar[str | None] = "serve.py"
    ready: ClassVar[str] = "/-/netdyno"

    def unavailable(self) -> str | None:
        return lacking(self.needs, "ray")

    def files(self, package: Package, wanted: Wanted) -> Mapping[str, bytes]:
        text = SCRIPT.format(
            folder=str(package.folder.resolve()),
            name=package.manifest.name,
            largest=wanted.largest,
            delay_s=wanted.delay_s,
            workers=wanted.workers,
            host=wanted.host,
            port=wanted.port,
        )
        return {"serve.py": text.encode()}

    def environment(self, python: str) -> Mapping[str, str]:
        # Its nodes give up on each other too soon on a busy machine, and it reports home unless told not to.
        return {"RAY_raylet_start_wait_time_s": "150", "RAY_USAGE_STATS_ENABLED": "0"}
