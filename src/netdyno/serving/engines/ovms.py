"""OpenVINO Model Server: a folder of models with its `config.json`, to be mounted into a server elsewhere.

Needs:      an OpenVINO Model Server, a container or a release archive; artefacts of OpenVINO or ONNX. Layout only.
Helps:      Intel processors where gRPC or its own batching is wanted.
Batching:   a fixed batch, or any with dynamic shapes; its clients put rows together themselves.
Speaks:     Open Inference Protocol v2, and TensorFlow Serving's.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from netdyno.errors import NetdynoError
from netdyno.records.deployment import Level, Manifest
from netdyno.serving.engines._base import Wanted, artifact
from netdyno.shipping.package import Package

READS = {"openvino": ".xml", "onnx-runtime": ".onnx"}


@dataclass(frozen=True, slots=True)
class Ovms:
    level: ClassVar[Level] = "built in"
    needs: ClassVar[tuple[str, ...]] = ()
    script: ClassVar[str | None] = None
    ready: ClassVar[str] = "/v2/health/ready"

    def unavailable(self) -> str | None:
        return None

    def files(self, package: Package, wanted: Wanted) -> Mapping[str, bytes]:
        manifest = package.manifest
        suffix = READS.get(manifest.runtime.id)
        there = artifact(package, f"{manifest.name}/1")
        models = [name for name in there if suffix is not None and name.endswith(suffix)]
        if len(models) != 1:
            raise NetdynoError(
                f"cannot lay `{manifest.name}` out for OpenVINO Model Server",
                because=f"it takes one model of OpenVINO or ONNX, and this artefact of `{manifest.runtime.id}` has {len(models)}",
                hint="deploy with `--only openvino`, for calls of any number of rows",
            )
        kept = {name: content for name, content in there.items() if not name.endswith(".json")}
        return {"config.json": json.dumps(config(manifest, wanted), indent=2).encode() + b"\n", **kept}

    def environment(self, python: str) -> Mapping[str, str]:
        return {}


def config(manifest: Manifest, wanted: Wanted) -> dict[str, Any]:
    """`config.json`: where the model lies in the container, its shapes with any number of rows, and its threads."""
    ports = manifest.signature.inputs
    shapes = {
        port.name: f"({','.join(str(-1 if size is None else size) for size in (None, *port.shape))})" for port in ports
    }
    return {
        "model_config_list": [
            {
                "config": {
                    "name": manifest.name,
                    "base_path": f"/models/{manifest.name}",
                    "target_device": "CPU",
                    "nireq": max(1, wanted.workers),
                    "shape": shapes,
                    "plugin_config": {
                        "INFERENCE_NUM_THREADS": manifest.running.threads,
                        "PERFORMANCE_HINT": "LATENCY" if wanted.largest == 1 else "THROUGHPUT",
                    },
                }
            }
        ]
    }
