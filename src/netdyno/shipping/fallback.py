"""What to try when quantisation loses too much accuracy: keep the layers it ruins in float, then train with it."""

from collections.abc import Iterator

from msgspec.structs import replace
from torch import Tensor

from netdyno.records.deployment import Candidate
from netdyno.runtimes import _base as runtimes
from netdyno.shipping import sensitivity
from netdyno.shipping.subject import Subject

ROWS = 32  # calibration rows that each layer's damage is measured on


def proposals(subject: Subject, lost: Candidate) -> Iterator[Candidate]:
    """The same way with its worst layers kept in float; none where no layer stands out or the runtime cannot leave one out."""
    if not hasattr(runtimes.read(lost.change), "ignored"):
        return
    noise = sensitivity.layer_noise(subject.model, calibration(subject))
    kept = sensitivity.keep_in_float(noise)
    if not kept:
        return
    told = tuple(replace(one, kept_in_float=one.layer in kept) for one in noise)
    settings = {**lost.change.settings, "ignored": ",".join(kept)}
    yield Candidate(
        change=replace(lost.change, settings=settings),
        precision=lost.precision,
        running=lost.running,
        noise=told,
        says=(f"kept in float: {', '.join(kept)}; without it {lost.accuracy.says if lost.accuracy else ''}",),
    )


def calibration(subject: Subject) -> "list[tuple[Tensor, ...]]":
    """Some calibration rows, one at a time; the example's where none are declared."""
    from itertools import islice

    from netdyno.runtimes._export import calibration as rows_of

    return list(islice(rows_of(subject.release, subject.example, rows=ROWS)(), ROWS))
