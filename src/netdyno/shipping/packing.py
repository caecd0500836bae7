"""The winner as a package: its files, what it was proven by, and how to call it."""

import inspect
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import msgspec

from netdyno import __version__
from netdyno.records.deployment import Candidate, Manifest, Shipment
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes._base import Arrays
from netdyno.shipping.package import SAME_MACHINE, Package, write
from netdyno.shipping.subject import Subject
from netdyno.verdicts.words import said_seconds

# What a loaded package may need; the rest of the environment is the service's own business.
NEEDED = ("numpy", "torch", "onnxruntime", "openvino", "executorch", "tensorrt", "netdyno")
# bf16 and int8 kernels sum in another order on another processor, in coarser steps.
ELSEWHERE = {"fp32": SAME_MACHINE, "bf16": 3e-2, "fp16": 1e-2, "int8": 1e-1}
EXAMPLE_ROWS = 4


def packed(
    folder: Path, subject: Subject, shipment: Shipment, *, artifact: Path, inputs: Arrays, answers: Arrays
) -> Package:
    """Write the package of a shipment's winner. `answers` are the artefact's own to `inputs`."""
    assert shipment.winner is not None
    assert shipment.signature is not None
    winner = shipment.candidates[shipment.winner]
    release = subject.release
    manifest = Manifest(
        name=release.name,
        version=f"{datetime.now(UTC):%Y%m%d%H%M%S}-{shipment.model_hash[:8]}",
        made_by=f"netdyno {__version__}",
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        model_hash=shipment.model_hash,
        runtime=winner.change,
        running=msgspec.structs.replace(winner.running, batches=shipment.plan.batches),
        signature=shipment.signature,
        precision=winner.precision,
        warm_up=shipment.plan.batches or (1,),
        classes=release.classes,
        preprocessing="preprocessing.py" if release.prepare is not None else "",
        allowed=ELSEWHERE[winner.precision],
        proofs=proofs(winner),
        packages=_installed(),
        licences={"model": release.licences.get("model", "not declared"), **_licences(winner), **release.licences},
        machine=shipment.environment.processor if shipment.environment is not None else platform.machine(),
        flags=runtimes.processor_flags(),
        shipment=shipment.id,
    )
    texts = {
        "README.md": readme(manifest, shipment),
        "proof.json": msgspec.json.format(msgspec.json.encode(_slim(winner)), indent=2).decode(),
        "environment.lock": "".join(f"{name}=={version}\n" for name, version in sorted(_all_installed().items())),
    }
    if release.prepare is not None:
        texts["preprocessing.py"] = _source(release.prepare)
    return write(folder, manifest, artifact=artifact, inputs=inputs, answers=answers, texts=texts)


def proofs(winner: Candidate) -> dict[str, str]:
    """What the winner was proven by, a sentence each."""
    found = {f"parity, {rung.name}": rung.says or ("holds" if rung.holds else "not judged") for rung in winner.parity}
    if winner.side is not None:
        found["resolution"] = f"images are resized to {winner.side} pixels inside: send them as the signature says"
    if winner.accuracy is not None:
        found["accuracy"] = winner.accuracy.says
    if winner.speedup is not None:
        found["speed-up"] = (
            f"{winner.speedup.middle:.2f} times the module in eager PyTorch "
            f"({winner.speedup.low:.2f} to {winner.speedup.high:.2f})"
        )
    for one in winner.latency:
        for percentile in one.percentiles:
            imprecise = "" if percentile.precise else ", imprecise"
            found[f"P{100 * percentile.share:g}"] = (
                f"{said_seconds(percentile.seconds)} in {percentile.samples} calls of {one.rows} rows{imprecise}"
            )
    return found


def readme(manifest: Manifest, shipment: Shipment) -> str:
    """How to serve and to call it, for whoever finds the folder."""
    takes = ", ".join(f"`{port.name}` {port.dtype} {list(port.shape)}" for port in manifest.signature.inputs)
    gives = ", ".join(f"`{port.name}` {port.dtype} {list(port.shape)}" for port in manifest.signature.outputs)
    proven = "\n".join(f"- {name}: {says}" for name, says in manifest.proofs.items())
    return (
        f"# {manifest.name} {manifest.version}\n\n"
        f"Runtime `{manifest.runtime.label}`, {manifest.running.threads} threads, batches {list(manifest.running.batches) or 'of any size'}.\n"
        f"Takes rows of {takes}; gives rows of {gives}.\n\n"
        "    netdyno serve .\n\n"
        "    from netdyno.shipping.package import opened\n"
        '    package = opened(".")        # refuses a changed file\n'
        "    call = package.call()        # NumPy arrays in, NumPy arrays out\n"
        "    package.proven(call)         # its example is answered as when it was built\n\n"
        f"Proven on {manifest.machine} by deployment `{shipment.id}`:\n\n{proven}\n"
    )


def _slim(winner: Candidate) -> Candidate:
    """Without the raw seconds of every call: those stay with the deployment's document."""
    latency = tuple(msgspec.structs.replace(one, samples=()) for one in winner.latency)
    return msgspec.structs.replace(winner, latency=latency)


def _source(function: object) -> str:
    try:
        return inspect.getsource(function)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return f"# its source cannot be read: {function!r}\n"


def _installed() -> dict[str, str]:
    there = _all_installed()
    return {name: there[name] for name in NEEDED if name in there}


def _all_installed() -> dict[str, str]:
    return {one.metadata["Name"]: one.version for one in metadata.distributions() if one.metadata["Name"]}


def _licences(winner: Candidate) -> dict[str, str]:
    found = {}
    for name in runtimes.catalogue()[winner.change.id].needs:
        try:
            told = dict(metadata.metadata(name).json)
        except metadata.PackageNotFoundError:
            continue
        found[name] = str(told.get("license_expression") or told.get("license") or "not declared").split("\n")[0][:60]
    return found
