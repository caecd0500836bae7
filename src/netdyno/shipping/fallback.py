"""What to try when quantisation loses too much accuracy: gentler settings, the layers it ruins in float, then training with it."""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace
from torch import Tensor

from netdyno.measure import host
from netdyno.records.deployment import Candidate
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes._export import calibration as rows_of
from netdyno.shipping import quantisation_aware, sensitivity
from netdyno.shipping.journey import Journey
from netdyno.shipping.subject import Subject

ROWS = 32  # calibration rows that each layer's damage is measured on


def proposals(subject: Subject, lost: Candidate) -> Iterator[Candidate]:
    """Its gentler settings, then the same way with its worst layers in float, where one stands out and the runtime can leave one out."""
    without = lost.accuracy.says if lost.accuracy else lost.failed
    gentler = runtimes.gentler(runtimes.read(lost.change))
    if gentler is not None:
        yield Candidate(
            change=runtimes.written(gentler),
            origin=lost.origin,
            side=lost.side,
            precision=lost.precision,
            running=lost.running,
            says=(f"gentler than {lost.change.label}; that one: {without}",),
        )
    if lost.precision != "int8" or not hasattr(runtimes.read(lost.change), "ignored"):
        return
    noise = sensitivity.layer_noise(subject.model, calibration(subject, ROWS))
    kept = sensitivity.keep_in_float(noise)
    if not kept:
        return
    settings = {**lost.change.settings, "ignored": ",".join(kept)}
    yield Candidate(
        change=replace(lost.change, settings=settings),
        origin=lost.origin,
        side=lost.side,
        precision=lost.precision,
        running=lost.running,
        noise=tuple(replace(one, kept_in_float=one.layer in kept) for one in noise),
        says=(f"kept in float: {', '.join(kept)}; without it {without}",),
    )


def trained(journey: Journey, lost: Candidate) -> Candidate:
    """What the release's own training makes of it with int8 in the loop: a proposal that exports from there. Raises ArmError."""
    subject = journey.standard(lost)
    found = quantisation_aware.trained(
        subject.reference,
        journey.exports.folder / f"trained-{subject.hash}",
        signature=subject.signature,
        budget_s=max(60.0, 0.5 * journey.left()),
        threads=host.cores(),
    )
    # Its weights are int8 already: a runtime exports it as it is, and quantises nothing once more.
    change = replace(lost.change, settings={**lost.change.settings, "precision": "fp32"})
    return Candidate(
        change=change,
        origin=found.reference,
        side=lost.side,
        precision="int8",
        running=lost.running,
        says=(*lost.says, found.says),
    )


def calibration(subject: Subject, rows: int) -> list[tuple[Tensor, ...]]:
    """Some calibration rows, one at a time; the example's where none are declared."""
    return list(islice(rows_of(subject.release, subject.example, rows=rows)(), rows))
