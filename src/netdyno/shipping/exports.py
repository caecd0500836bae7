"""Exports kept by what they are made of: the same module in the same way is built once."""

import hashlib
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

import msgspec
from msgspec.structs import replace

from netdyno.measure import host
from netdyno.records.deployment import Built, Signature
from netdyno.records.trial import Change
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes._export import Spec, export, live, written
from netdyno.shipping.subject import Subject

# What an artefact depends on beside the module.
ARTIFACTS = ("torch", "onnx", "onnxscript", "onnxruntime", "openvino", "nncf", "torchao", "executorch", "tensorrt")


class Exports:
    """The exports below one folder of the store: `exports/KEY/`, each with its `built.json`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        """Where the export of that name lies."""
        return self.folder / key

    def built(self, subject: Subject, change: Change, *, batches: tuple[int, ...], timeout_s: float) -> Built:
        """The export, from the store or made now in a fresh process. Raises ArmError with the reason when it cannot be made."""
        key = named(subject.hash, change, subject.signature, batches, dynamic=subject.dynamic)
        place = self.path(key)
        if (place / "built.json").is_file():
            return replace(msgspec.json.decode((place / "built.json").read_bytes(), type=Built), cached=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{change.id}-", dir=self.folder))
        spec = Spec(
            reference=subject.reference,
            change=change,
            folder=str(fresh),
            signature=subject.signature,
            batches=batches,
            dynamic=subject.dynamic,
            threads=host.cores(),
            key=key,
        )
        try:
            if getattr(runtimes.read(change), "in_place", False):
                found = written(live(subject.release, subject.model, subject.example, spec), spec)
            else:
                found = export(spec, timeout_s=timeout_s)
            if place.exists():  # somebody else was quicker
                shutil.rmtree(place)
            fresh.rename(place)
            return found
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def named(model_hash: str, change: Change, signature: Signature, batches: tuple[int, ...], *, dynamic: bool) -> str:
    """A name for an export: of the module, the way, the form of its inputs, the versions installed, and the processor."""
    told = msgspec.json.encode(
        (model_hash, change, signature, batches, dynamic, _versions(), runtimes.processor_flags()), order="sorted"
    )
    return f"{change.id}-{hashlib.sha256(told).hexdigest()[:16]}"


def _versions() -> dict[str, str]:
    found = {}
    for name in ARTIFACTS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
