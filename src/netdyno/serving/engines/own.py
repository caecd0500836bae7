"""Ours: uvicorn, and a batcher that makes nobody wait while the model is idle.

Needs:      uvicorn and prometheus-client (the extra `ship`).
Helps:      always, as far as the bench has seen; one process, one model.
Batching:   by queue, deadline and measured cost; sizes that are warm only.
Speaks:     Open Inference Protocol v2 with binary data, /predict, /metrics.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from netdyno.records.deployment import Level
from netdyno.serving.engines._base import Wanted, lacking
from netdyno.shipping.package import Package


@dataclass(frozen=True, slots=True)
class Own:
    level: ClassVar[Level] = "built in"
    needs: ClassVar[tuple[str, ...]] = ("uvicorn", "prometheus_client")
    script: ClassVar[str | None] = None  # it runs in our own process
    ready: ClassVar[str] = "/v2/health/ready"

    def unavailable(self) -> str | None:
        return lacking(self.needs, "ship")

    def files(self, package: Package, wanted: Wanted) -> Mapping[str, bytes]:
        import shlex

        words = [
            "netdyno", "serve", str(package.folder.resolve()), "--host", wanted.host, "--port", str(wanted.port),
            "--rows", str(wanted.largest),
        ]  # fmt: skip
        return {"serve.sh": f"#!/bin/sh\nexec {shlex.join(words)}\n".encode()}

    def environment(self, python: str) -> Mapping[str, str]:
        return {}
