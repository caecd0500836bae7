"""Describes where a run is measured and with what: the key that decides which numbers may be compared."""

import hashlib
import os
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata

import msgspec
import torch

from netdyno.measure import host
from netdyno.records.environment import Environment

# Variables that change how fast the same program runs, by how they begin.
TELLING = (
    "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "DNNL_", "ONEDNN_", "ATEN_", "TORCH_", "PYTORCH_", "CUDA_",
    "CUBLAS_", "NVIDIA_TF32", "MALLOC_", "LD_PRELOAD", "PYTHONHASHSEED",
)  # fmt: skip
APART = ("id", "taken_at", "build")  # what a number does not depend on beyond the fields that the hash covers


def describe(device: str | torch.device = "cpu", seed: int = 0) -> Environment:
    """The environment of a run on `device` under `seed`, as it is at this moment."""
    name = torch.device(device)
    found = Environment(
        id="",
        machine=_machine(),
        processor=host.processor_name(),
        cores=host.cores(),
        memory_bytes=host.memory_capacity(),
        device=_device(name),
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        seed=seed,
        driver=_driver(name),
        flags=flags(),
        packages=packages(),
        build=torch.__config__.show(),
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return msgspec.structs.replace(found, id=identity(found))


def identity(environment: Environment) -> str:
    """The hash of all fields but the id itself, the time, and the build text: equal ids may be compared."""
    fields = {key: value for key, value in msgspec.structs.asdict(environment).items() if key not in APART}
    text = msgspec.json.encode(fields, order="sorted")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def flags() -> dict[str, str]:
    """The global switches of PyTorch, and the environment variables, that change speed or results."""
    found: dict[str, object] = {
        "default_dtype": torch.get_default_dtype(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "interop_threads": torch.get_num_interop_threads(),
        "mkldnn": torch.backends.mkldnn.enabled,
        "mkldnn.deterministic": torch.backends.mkldnn.deterministic,
        "cudnn.enabled": torch.backends.cudnn.enabled,
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "detect_anomaly": torch.is_anomaly_enabled(),
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
    }
    found |= {key: value for key, value in os.environ.items() if key.startswith(TELLING)}
    return {key: str(value).removeprefix("torch.") for key, value in sorted(found.items())}


def packages() -> dict[str, str]:
    """The exact version of every installed distribution."""
    found = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:  # a half-removed package has none
            found[name.lower()] = distribution.version
    return dict(sorted(found.items()))


def _machine() -> str:
    """Tells one machine from another without giving away its name."""
    try:
        with open("/etc/machine-id") as file:
            who = file.read().strip()
    except OSError:
        who = ""
    digest = hashlib.blake2b((who or platform.node()).encode(), digest_size=4).hexdigest()
    return f"{platform.machine()}-{digest}"


def _device(device: torch.device) -> str:
    if device.type == "cuda" and torch.cuda.is_available():
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return str(device)


def _driver(device: torch.device) -> str | None:
    if device.type != "cuda":
        return None
    try:
        with open("/sys/module/nvidia/version") as file:
            return f"nvidia {file.read().strip()}, cuda {torch.version.cuda}"
    except OSError:
        return f"cuda {torch.version.cuda}" if torch.version.cuda else None
