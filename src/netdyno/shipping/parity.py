"""The ladder of parity: the same rows through the module and through what was made of it, at every size, and what must be refused."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from netdyno.records.deployment import Precision, Rung
from netdyno.runtimes._base import Arrays, Call
from netdyno.shipping.subject import Subject, real_rows


class Bounds(NamedTuple):
    """What a precision may do to real answers: the worst difference in spreads, the least signal to noise, and the flips beyond which
    little signal is ruin."""

    worst: float
    least_db: float
    flips: float


# fp32: sums in another order left 124 to 146 dB on every runtime and model that was tried; 80 dB leaves room for deep models and
# still is a hundred times below the noise of bf16.
# Lower precisions: accuracy decides, parity only sees ruin. Good bf16 lies at 39 to 60 dB, good int8 at 34 to 54; an encoder whose int8
# was ruined had 8 dB and changed 12 % of its decisions. Below 10 dB noise is a third of the signal.
BOUNDS: dict[Precision, Bounds] = {
    "fp32": Bounds(1e-3, 80.0, 0.0),
    "bf16": Bounds(math.inf, 10.0, 0.05),
    "fp16": Bounds(math.inf, 10.0, 0.05),
    "int8": Bounds(math.inf, 10.0, 0.05),
}
# Decisions that hang on the last bit in fp32: two scores alike, once in fifty rows at most.
TIES = 0.02
# Above this share of changed decisions no signal to noise excuses it.
RUIN = 0.3
# The worst difference as a trial writes it, relative to the spread of the answers.
ALLOWED: dict[Precision, float] = {"fp32": 1e-3, "bf16": 1.0, "fp16": 1.0, "int8": 1.0}
# What has no noise at all has this many dB, which JSON can hold.
PERFECT_DB = 300.0

# Rows that go up the ladder: both sides of a branch, every class a few times.
ROWS = 48
# Sizes that no one declares and someone asks for.
ODD = (3, 5, 7)
TIMES = 20
# Of the spread: threads may add in another order from call to call.
SAME = 1e-5


def ladder(
    subject: Subject, call: Call, *, precision: Precision = "fp32", sizes: Sequence[int] = (1,)
) -> tuple[Rung, ...]:
    """Real rows at batch 1, at each size that is served and at odd ones, the same again, extreme inputs, and inputs to refuse.

    `call` is any way to ask: an exported model in its process, a reloaded package, a client of a service. The rows are those of the
    validation or calibration data; with neither, the example's, and then only fp32 is judged on them: random rows call a good int8
    model broken.
    """
    rows, real = real_rows(subject, ROWS), _is_real(subject)
    own = _own_size(subject, len(rows[0]))
    expected = _in_parts(subject.answers, rows, own)
    found = _climbed(subject, call, rows, expected, precision=precision, sizes=sizes, real=real)
    if _differ(expected, _in_parts(subject.answers, rows, own), SAME):
        return tuple(_unjudged(rung) for rung in found)
    return found


def _unjudged(rung: Rung) -> Rung:
    """What a rung can still say where the module itself answers by chance, as Monte-Carlo dropout does: only what is refused."""
    if rung.holds is not False or (rung.worst is None and rung.name != "asked again"):
        return rung
    return _named(rung, f"{rung.says}; the module itself is random, so no row can be held against it", holds=None)


def _climbed(
    subject: Subject,
    call: Call,
    rows: Arrays,
    expected: Arrays,
    *,
    precision: Precision,
    sizes: Sequence[int],
    real: bool,
) -> tuple[Rung, ...]:
    return (
        *(_at(call, rows, expected, size, precision, real=real) for size in counts(sizes, len(rows[0]))),
        _again(call, rows),
        *_extremes(subject, call, rows, precision),
        _strides(call, rows),
        _refusals(subject, call, rows),
    )


def counts(sizes: Sequence[int], rows: int) -> tuple[int, ...]:
    """The batch sizes of the ladder, ascending: one, those served, and odd ones, as far as there are rows."""
    return tuple(sorted(size for size in {1, *sizes, *ODD} if size <= rows))


def compared(name: str, expected: Arrays, got: Arrays, *, precision: Precision, batch: int, real: bool = True) -> Rung:
    """Two sets of answers to the same rows. Signal to noise is over all numbers of an output, its mean taken away, the worst output's."""
    rows = len(expected[0]) if expected else 0

    def rung(**found: object) -> Rung:
        return Rung(name=name, rows=rows, batch=batch, **found)  # type: ignore[arg-type]

    wrong = _other_form(expected, got)
    if wrong:
        return rung(holds=False, says=wrong)
    if not all(_finite_alike(mine, theirs) for mine, theirs in zip(expected, got, strict=True)):
        count = sum(int((np.isfinite(a) != np.isfinite(b)).sum()) for a, b in _floats(expected, got))
        return rung(holds=False, says=f"{count} numbers are finite on one side and not on the other")
    pairs = list(_floats(expected, got))
    worst = max((_worst(mine, theirs) for mine, theirs in pairs), default=0.0)
    mean = max((_mean(mine, theirs) for mine, theirs in pairs), default=0.0)
    sqnr = min((sqnr_db(mine, theirs) for mine, theirs in pairs), default=PERFECT_DB)
    flips = _flips(expected, got)
    holds, says = _judged(precision, worst, sqnr, flips, real=real)
    return rung(worst=worst, mean=mean, sqnr_db=sqnr, flips=flips, holds=holds, says=says)


def _judged(
    precision: Precision, worst: float, sqnr: float, flips: float | None, *, real: bool
) -> tuple[bool | None, str]:
    bounds = BOUNDS[precision]
    told = f"{sqnr:.0f} dB, worst {worst:.2g} of the answers' spread" + (
        f", {flips:.1%} of the decisions changed" if flips is not None else ""
    )
    changed = flips if flips is not None else 1.0
    if precision == "fp32":
        # One number among very many may jump where a threshold is crossed, if nothing is decided by it; everything else is no rounding.
        ruined = (worst > bounds.worst and (sqnr < bounds.least_db or bool(flips))) or (flips or 0.0) > TIES
    else:
        ruined = (sqnr < bounds.least_db and changed > bounds.flips) or (flips is not None and flips > RUIN)
    if not ruined:
        return True, told
    if precision != "fp32" and not real:
        return None, f"{told}: no real rows are declared, and random ones do not judge {precision}"
    return False, f"{told}: not the module's answers"


def sqnr_db(expected: np.ndarray, got: np.ndarray) -> float:
    """The power of the expected numbers around their mean over that of the differences, in dB; at most 300.

    >>> round(sqnr_db(np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.1, -1.1, 0.9, -0.9])))
    20
    """
    mine, theirs = _finite(expected, got)
    noise = float(np.sum((mine - theirs) ** 2))
    signal = float(np.sum((mine - mine.mean()) ** 2)) if mine.size else 0.0
    # Answers that are all alike have no spread: rounding is then relative to their size.
    signal = signal or float(np.sum(mine**2))
    if not noise:
        return PERFECT_DB
    return float(np.clip(10 * math.log10(signal / noise), -PERFECT_DB, PERFECT_DB)) if signal else -PERFECT_DB


def repeated(call: Call, rows: Arrays, *, times: int = 1000, allowed: float = 0.0) -> float:
    """The share of answers to the very same request that are not the first one's (ledger A-250); a row alone at a time, in turns."""
    first = [call(_row(rows, at)) for at in range(len(rows[0]))]
    mismatches = 0
    for time in range(times):
        at = time % len(first)
        mismatches += _differ(first[at], call(_row(rows, at)), allowed)
    return mismatches / times


def _row(rows: Arrays, at: int) -> Arrays:
    return tuple(array[at : at + 1] for array in rows)


def _differ(one: Arrays, other: Arrays, allowed: float) -> bool:
    if _other_form(one, other):
        return True
    if not allowed:
        return any(not np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(one, other, strict=True))
    return any(not _finite_alike(a, b) or _worst(a, b) > allowed for a, b in zip(one, other, strict=True))


def _is_real(subject: Subject) -> bool:
    return subject.release.validation is not None or subject.release.calibration is not None


def _own_size(subject: Subject, rows: int) -> int:
    """How many rows the module itself is asked at once: as many as its example where it takes no other number."""
    return min(rows, 32) if subject.dynamic else len(subject.example[0])


def _in_parts(call: Call, rows: Arrays, size: int) -> Arrays:
    """The answers to all rows, asked `size` at a time; the last part is filled up with its last row and cut again."""
    parts = []
    for at in range(0, len(rows[0]), size):
        part = tuple(array[at : at + size] for array in rows)
        lacks = size - len(part[0])
        filled = tuple(
            np.concatenate((array, np.repeat(array[-1:], lacks, axis=0))) if lacks else array for array in part
        )
        parts.append(tuple(answer[: size - lacks] for answer in call(tuple(map(np.ascontiguousarray, filled)))))
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _asked(call: Call, rows: Arrays, size: int) -> Arrays:
    """The answers to all rows, asked `size` at a time, the rest as it is."""
    parts = []
    for at in range(0, len(rows[0]), size):
        part = tuple(np.ascontiguousarray(array[at : at + size]) for array in rows)
        answer = call(part)
        short = [array.shape for array in answer if not array.ndim or len(array) != len(part[0])]
        if short:
            raise ValueError(f"{len(part[0])} rows are answered with the shape {short[0]}")
        parts.append(answer)
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _at(call: Call, rows: Arrays, expected: Arrays, size: int, precision: Precision, *, real: bool) -> Rung:
    name = f"{size} at a time"
    # Whole batches of that size, so that no rest of another one is asked.
    count = len(rows[0]) // size * size
    try:
        got = _asked(call, tuple(array[:count] for array in rows), size)
    except Exception as error:
        return Rung(name=name, rows=count, batch=size, holds=False, says=f"{size} rows at a time: {_reason(error)}")
    found = compared(name, tuple(array[:count] for array in expected), got, precision=precision, batch=size, real=real)
    return found if found.holds is not False else _named(found, f"{size} rows at a time: {found.says}")


def _again(call: Call, rows: Arrays) -> Rung:
    few = tuple(array[:2] for array in rows)
    try:
        share = repeated(call, few, times=TIMES, allowed=SAME)
    except Exception as error:
        return Rung(name="asked again", rows=TIMES, batch=1, holds=False, says=_reason(error))
    says = (
        f"the same request is answered differently in {share:.0%} of {TIMES} calls"
        if share
        else f"the same {TIMES} times"
    )
    return Rung(name="asked again", rows=TIMES, batch=1, holds=not share, says=says)


# Beyond any data, and each found in some log: an empty picture, a forgotten division, a stuck sensor.
EXTREMES: tuple[tuple[str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("zeros", np.zeros_like),
    ("ten times as large", lambda array: array * np.asarray(10, array.dtype)),
    ("a large constant", lambda array: np.full_like(array, 1e3 * max(1.0, float(np.abs(array).max(initial=0.0))))),
)


def _extremes(subject: Subject, call: Call, rows: Arrays, precision: Precision) -> Iterator[Rung]:
    if not any(array.dtype.kind == "f" for array in rows):
        return
    size = _own_size(subject, len(rows[0]))
    few = tuple(array[: min(4, size) if subject.dynamic else size] for array in rows)
    for name, change in EXTREMES:
        changed = tuple(change(array) if array.dtype.kind == "f" else array for array in few)
        try:
            expected, got = subject.answers(changed), call(changed)
        except Exception as error:
            yield Rung(name=name, rows=len(few[0]), batch=len(few[0]), holds=False, says=f"{name}: {_reason(error)}")
            continue
        yield _extreme(name, expected, got, precision)


def _extreme(name: str, expected: Arrays, got: Arrays, precision: Precision) -> Rung:
    """Judged for finiteness alone: what a model says beyond its data has no right value. Half precision ends at 65,504, and may."""
    found = compared(name, expected, got, precision=precision, batch=len(expected[0]))
    if found.worst is None:
        known = precision == "fp16" and all(a.shape == b.shape for a, b in zip(expected, got, strict=False))
        return _named(found, f"{name}: {found.says}", holds=None if known else False)
    if found.holds:
        return found
    return _named(found, f"{name}: {found.says}; beyond the data there is no right answer to judge by", holds=None)


def _strides(call: Call, rows: Arrays) -> Rung:
    """The same numbers laid out otherwise in memory: an AOTInductor package without checks answers them with garbage."""
    few = tuple(array[:2] for array in rows)
    laid = tuple(np.asfortranarray(array) for array in few)
    name = "other strides"
    try:
        got = call(laid)
    except Exception as error:
        # To refuse is as good as to answer rightly.
        return Rung(name=name, rows=len(few[0]), batch=len(few[0]), holds=True, says=f"refused: {_reason(error)}")
    try:
        want = call(few)
    except Exception as error:
        return Rung(name=name, rows=len(few[0]), batch=len(few[0]), holds=False, says=_reason(error))
    found = compared(name, want, got, precision="fp32", batch=len(few[0]))
    return found if found.holds else _named(found, f"the same rows in another layout of memory: {found.says}")


def _refusals(subject: Subject, call: Call, rows: Arrays) -> Rung:
    """Inputs of another form must raise, never be answered; and the next request must be answered as if nothing had been."""
    few = tuple(array[:2] for array in rows)
    answered, asked = [], 0
    try:
        before = call(few)
        steady = not _differ(before, call(few), SAME)
    except Exception as error:
        return Rung(
            name="wrong inputs", rows=0, batch=2, holds=False, says=f"two rows are not answered: {_reason(error)}"
        )
    for what, wrong in _wrong(subject, few):
        asked += 1
        try:
            call(wrong)
        except Exception:  # noqa: S112  refused, in whatever way
            continue
        answered.append(what)
    if answered:
        says = f"answers what it should refuse: {', '.join(answered)}"
        return Rung(name="wrong inputs", rows=asked, batch=2, holds=False, says=says)
    try:
        # What answers by chance in any case is seen by `asked again`.
        harmed = steady and _differ(before, call(few), SAME)
    except Exception as error:
        return Rung(
            name="wrong inputs", rows=asked, batch=2, holds=False, says=f"a wrong request ends it: {_reason(error)}"
        )
    says = "after a wrong request it answers otherwise" if harmed else f"{asked} wrong inputs are refused"
    return Rung(name="wrong inputs", rows=asked, batch=2, holds=not harmed, says=says)


def _wrong(subject: Subject, few: Arrays) -> Iterator[tuple[str, Arrays]]:
    first, rest = few[0], few[1:]
    other = np.float64 if first.dtype == np.float32 else np.float32
    yield f"{np.dtype(other).name} instead of {first.dtype.name}", (first.astype(other), *rest)
    shape = subject.signature.inputs[0].shape
    if first.ndim > 1 and shape[-1] is not None:
        yield "a shorter last axis", (np.ascontiguousarray(first[..., :-1]), *rest)
        yield "a longer last axis", (np.concatenate((first, first[..., -1:]), axis=-1), *rest)
    if first.ndim > 2 and first.shape[-1] != first.shape[1] and None not in shape:
        yield "axes in another order", (np.ascontiguousarray(np.swapaxes(first, 1, -1)), *rest)
    yield "an axis too many", (first[..., None], *rest)
    yield "no row", (first[:0], *(array[:0] for array in rest))
    yield "an input too many", (*few, first)
    if rest:
        yield "inputs of different numbers of rows", (first, *(array[:1] for array in rest))


def _reason(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"[:300]


def _named(rung: Rung, says: str, holds: bool | None = False) -> Rung:
    return replace(rung, says=says, holds=holds)


def _other_form(expected: Arrays, got: Arrays) -> str:
    if len(expected) != len(got):
        return f"{len(got)} outputs instead of {len(expected)}"
    for mine, theirs in zip(expected, got, strict=True):
        if mine.shape != theirs.shape:
            return f"an output of shape {theirs.shape} instead of {mine.shape}"
        if (mine.dtype.kind == "f") != (theirs.dtype.kind == "f"):
            return f"an output of {theirs.dtype} instead of {mine.dtype}"
    return ""


def _floats(expected: Arrays, got: Arrays) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for mine, theirs in zip(expected, got, strict=True):
        if mine.dtype.kind == "f":
            yield mine.astype(np.float64), theirs.astype(np.float64)


def _finite_alike(mine: np.ndarray, theirs: np.ndarray) -> bool:
    return mine.dtype.kind != "f" or bool((np.isfinite(mine) == np.isfinite(theirs)).all())


def _finite(mine: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    both = np.isfinite(mine) & np.isfinite(theirs)
    return mine[both].astype(np.float64), theirs[both].astype(np.float64)


def _spread(mine: np.ndarray) -> float:
    """Where all answers are alike, their size."""
    return float(mine.std()) or float(np.abs(mine).max(initial=0.0)) or 1.0


def _worst(mine: np.ndarray, theirs: np.ndarray) -> float:
    one, other = _finite(mine, theirs)
    return float(np.abs(one - other).max(initial=0.0)) / _spread(one) if one.size else 0.0


def _mean(mine: np.ndarray, theirs: np.ndarray) -> float:
    one, other = _finite(mine, theirs)
    return float(np.abs(one - other).mean()) / _spread(one) if one.size else 0.0


def _flips(expected: Arrays, got: Arrays) -> float | None:
    """The share of rows that are decided otherwise: another largest score, or another whole number; None where nothing is decided."""
    for mine, theirs in zip(expected, got, strict=True):
        if mine.ndim == 2 and mine.shape[1] > 1 and mine.dtype.kind == "f":
            return float((mine.argmax(1) != theirs.argmax(1)).mean())
    whole = [(a, b) for a, b in zip(expected, got, strict=True) if a.dtype.kind != "f"]
    return float(max((a != b).reshape(len(a), -1).any(1).mean() for a, b in whole)) if whole else None
