"""A process that exports one release in one way and ends: `python -m netdyno.runtimes._export SPEC.json`.

It writes `built.json` beside the artefact, or dies; who waits for it has its status and its last words.
"""

import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from netdyno.errors import ArmError, NetdynoError
from netdyno.measure.latency import elapsed
from netdyno.records.base import Noun
from netdyno.records.deployment import Built, Signature
from netdyno.records.trial import Change
from netdyno.runtimes import _base as base

if TYPE_CHECKING:
    from torch import Tensor, nn

    from netdyno.targets.release import Release

Made = TypeVar("Made")

CALIBRATION_ROWS = 300  # what quantisers are shown; their makers ask for 128 to 300


class Spec(Noun, frozen=True, kw_only=True):
    """What is to be exported: a release by its reference, the change, where to, and in which folder the release is found."""

    reference: str
    change: Change
    folder: str
    signature: Signature
    batches: tuple[int, ...] = (1,)
    dynamic: bool = True
    threads: int = 1
    key: str = ""
    rows: int = CALIBRATION_ROWS


def export(spec: Spec, *, timeout_s: float, python: str = sys.executable) -> Built:
    """Export in a fresh process that is ended after `timeout_s`. Raises ArmError with the reason and its last words."""
    return ran(
        "netdyno.runtimes._export", spec, Built, timeout_s=timeout_s, threads=spec.threads, what="export", python=python
    )


def ran(
    module: str, spec: Any, made: type[Made], *, timeout_s: float, threads: int, what: str, python: str = sys.executable
) -> Made:
    """What `python -m module SPEC.json` leaves in `built.json` of the spec's folder. It is ended after `timeout_s`, with its children.

    Raises ArmError with the reason and its last words when it leaves none.
    """
    with tempfile.TemporaryDirectory() as aside:
        order, said = Path(aside) / "spec.json", Path(aside) / "said.txt"
        order.write_bytes(msgspec.json.encode(spec))
        with said.open("wb") as output:
            child = subprocess.Popen(
                (python, "-m", module, str(order)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # compilers have children of their own: end all of them together
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            )
            try:
                status = child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                raise ArmError(f"the {what} was ended after {timeout_s:.0f} s", last_words=_last(said)) from None
            except BaseException:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                raise
        built = Path(spec.folder) / "built.json"
        if status or not built.is_file():
            raise ArmError(_reason(said, status, what), last_words=_last(said))
        return msgspec.json.decode(built.read_bytes(), type=made)


def _last(said: Path) -> str:
    return "\n".join(said.read_text(errors="replace").splitlines()[-12:])


def _reason(said: Path, status: int, what: str) -> str:
    lines = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
    return (
        lines[-1].removeprefix("netdyno.errors.ArmError: ")[:300] if lines else f"the {what} ended with status {status}"
    )


def main(order: str) -> None:
    """Export as the spec says. Errors are printed and end the process with status 1."""
    spec = msgspec.json.decode(Path(order).read_bytes(), type=Spec)
    with one_line():
        written(exportable(spec), spec)


def written(subject: base.Exportable, spec: Spec) -> Built:
    """Export here and now, and say beside the artefact what it took."""
    folder = Path(spec.folder)
    notes: list[str] = []
    seconds = elapsed(lambda: notes.extend(base.read(spec.change).export(subject, folder)))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    built = Built(key=spec.key, seconds=seconds, bytes=size, notes=tuple(notes))
    (folder / "built.json").write_bytes(msgspec.json.encode(built))
    return built


@contextmanager
def one_line() -> Iterator[None]:
    """Say an error of three lines in one, the last that is printed: who waits takes it for the reason."""
    try:
        yield
    except NetdynoError as error:
        traceback.print_exc()
        print(f"{error.what}: {error.because}", file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def exportable(spec: Spec) -> base.Exportable:
    """The release of a spec, ready to be exported: in eval mode, without gradients."""
    import torch

    from netdyno.targets import release as releases

    release = releases.load(spec.reference)
    torch.set_num_threads(spec.threads)
    model = release.module().eval().requires_grad_(requires_grad=False)
    example = release.sample()
    return live(release, model, example, spec)


def live(release: "Release", model: "nn.Module", example: "tuple[Tensor, ...]", spec: Spec) -> base.Exportable:
    """A module that is in eval mode already, with what its export may look at."""
    return base.Exportable(
        reference=spec.reference,
        model=model,
        example=example,
        signature=spec.signature,
        calibration=calibration(release, example, rows=spec.rows),
        batches=spec.batches,
        dynamic=spec.dynamic,
        threads=spec.threads,
    )


def calibration(
    release: "Release", example: "tuple[Tensor, ...]", *, rows: int
) -> "Callable[[], Iterable[tuple[Tensor, ...]]]":
    """Batches of one row, stratified so that rare classes are there too; the example's rows where nothing is declared."""
    from netdyno.targets.release import stratified

    data = release.calibration_data()

    def batches_of_one() -> "Iterator[tuple[Tensor, ...]]":
        if data is None:
            for at in range(len(example[0])):
                yield tuple(tensor[at : at + 1] for tensor in example)
            return
        for at in stratified(release, data, rows):
            row = data[at]
            parts = row if isinstance(row, tuple | list) else (row,)
            yield tuple(part[None] for part in parts[: len(example)])

    return batches_of_one


if __name__ == "__main__":
    main(sys.argv[1])
