"""A package: an exported model with all that proves it, in one folder that can be moved, checked and served. Needs no torch."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from netdyno.errors import NetdynoError
from netdyno.records.deployment import MANIFEST_VERSION, File, Manifest
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes._base import Arrays, Call

MANIFEST, ARTIFACT, EXAMPLE = "manifest.json", "artifact", "example.npz"
# Of the spread of the module's answers: the example's answers are computed again where the package is loaded, on a processor that
# may sum in another order.
SAME_MACHINE = 1e-3


class PackageError(NetdynoError):
    """A package cannot be written, read, or trusted."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package whose files are as its manifest says. `call` loads its runtime."""

    folder: Path
    manifest: Manifest

    @property
    def artifact(self) -> Path:
        """Where the runtime's own files lie."""
        return self.folder / ARTIFACT

    def example(self) -> tuple[Arrays, Arrays]:
        """Sample inputs, and what this artefact answered to them when it was built."""
        with np.load(self.folder / EXAMPLE, allow_pickle=False) as held:
            inputs = tuple(held[f"input{at}"] for at in range(len(self.manifest.signature.inputs)))
            answers = tuple(held[name] for name in sorted(name for name in held.files if name.startswith("output")))
        return inputs, answers

    def call(self) -> Call:
        """The model, loaded, padded to the sizes it was built for, and guarded against rows of another form.

        Raises PackageError when the runtime is not installed, or cannot load it.
        """
        manifest = self.manifest
        runtime = runtimes.read(manifest.runtime)
        lacks = runtime.unavailable()
        if lacks is not None:
            raise PackageError(
                f"cannot load `{manifest.name}`",
                because=f"its runtime is `{manifest.runtime.id}`, and {lacks}",
                hint="install what is missing, or deploy again on this machine",
            )
        call = runtime.load(self.artifact, manifest.running)
        return runtimes.checked(runtimes.padded(call, manifest.running.batches), manifest.signature)

    def proven(self, call: Call) -> float:
        """How far the loaded model's answers to the example lie from those it gave when it was built, relative to their spread.

        Raises PackageError beyond what the manifest allows: another machine, or another version, answers otherwise.
        """
        inputs, answers = self.example()
        worst = max(distance(mine, theirs) for mine, theirs in zip(call(inputs), answers, strict=True))
        if not worst <= self.manifest.allowed:
            raise PackageError(
                f"`{self.manifest.name}` does not answer its own example as it did",
                because=f"the answers differ by {worst:.2g} of their spread, and {self.manifest.allowed:.2g} is allowed",
                hint=f"it was built on `{self.manifest.machine}`; run `netdyno deploy` again on this machine",
            )
        return worst


def distance(
    mine: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]",
    theirs: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]",
) -> float:
    """The largest difference of two arrays relative to the spread of the second; infinite where shapes differ or a number is none."""
    if mine.shape != theirs.shape:
        return float("inf")
    if theirs.dtype.kind != "f":
        return float(np.max(np.abs(mine.astype(np.float64) - theirs.astype(np.float64)), initial=0.0))
    mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
    if not (np.isfinite(mine) == np.isfinite(theirs)).all():
        return float("inf")
    spread = float(np.std(theirs[np.isfinite(theirs)])) or 1.0
    return float(np.max(np.abs(np.nan_to_num(mine) - np.nan_to_num(theirs)), initial=0.0)) / spread


def write(
    folder: Path,
    manifest: Manifest,
    *,
    artifact: Path,
    inputs: Arrays,
    answers: Arrays,
    texts: dict[str, str] | None = None,
) -> Package:
    """Write a package, whole or not at all; one that was there is replaced. `texts` are further files by name.

    Raises PackageError when `folder` holds something else.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise PackageError(
            f"cannot write the package `{folder}`",
            because="the folder holds files that are no package",
            hint="name another folder: `--package FOLDER`",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        shutil.copytree(artifact, fresh / ARTIFACT)
        named = {f"input{at}": array for at, array in enumerate(inputs)}
        named |= {f"output{at:03d}": array for at, array in enumerate(answers)}
        np.savez(fresh / EXAMPLE, allow_pickle=False, **named)
        for name, text in (texts or {}).items():
            (fresh / name).write_text(text)
        whole = replace(manifest, files=tuple(_files(fresh)))
        (fresh / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=2))
        fresh.chmod(0o755)
        _put(fresh, folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return Package(folder=folder, manifest=whole)


def _put(fresh: Path, folder: Path) -> None:
    old = folder.with_name(f".{folder.name}-old-{os.getpid()}")
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def opened(folder: str | Path, *, check: bool = True) -> Package:
    """The package in a folder; every file's hash is compared. Raises PackageError for none, a newer one, or a changed one."""
    folder = Path(folder)
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except OSError as error:
        raise PackageError(
            f"`{folder}` is no package",
            because=f"{error.strerror}: `{folder / MANIFEST}`",
            hint="`netdyno deploy TARGET` writes one",
        ) from error
    except msgspec.DecodeError as error:
        raise PackageError(
            f"cannot read the manifest of `{folder}`", because=str(error), hint="deploy again; nobody should edit it"
        ) from error
    if manifest.schema_version > MANIFEST_VERSION:
        raise PackageError(
            f"cannot read `{folder}`",
            because=f"its manifest has version {manifest.schema_version}, and this netdyno reads up to {MANIFEST_VERSION}",
            hint="upgrade netdyno",
        )
    if check:
        _compare(folder, manifest)
    return Package(folder=folder, manifest=manifest)


def _compare(folder: Path, manifest: Manifest) -> None:
    there = {file.path: file for file in _files(folder)}
    for file in manifest.files:
        found = there.pop(file.path, None)
        if found != file:
            raise PackageError(
                f"`{folder}` was changed after it was written",
                because=f"`{file.path}` is missing"
                if found is None
                else f"`{file.path}` has another hash than the manifest says",
                hint="take the package as `netdyno deploy` wrote it; nothing of it was loaded",
            )
    if there:
        raise PackageError(
            f"`{folder}` was changed after it was written",
            because=f"`{min(there)}` is not in the manifest",
            hint="remove it, or deploy again; nothing of it was loaded",
        )


def _files(folder: Path) -> Iterator[File]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise PackageError(
                f"cannot take `{path}` into a package",
                because="a link points to what can change without it",
                hint="put the file itself there",
            )
        if path.is_file() and name != MANIFEST:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            yield File(path=name, sha256=digest, bytes=path.stat().st_size)
