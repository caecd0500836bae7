"""How far the winner is from what the machine could do at best: arithmetic and memory traffic at their measured ceilings."""

from typing import NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from netdyno.measure.ceilings import ceilings
from netdyno.records.deployment import Candidate
from netdyno.records.environment import Ceilings, Environment
from netdyno.shipping.subject import Subject
from netdyno.store import Store
from netdyno.verdicts.words import said_seconds

# What the ceilings know of a precision; int8 products have no ceiling measured here, so nothing is said about them.
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "int8": 1}


class Bound(NamedTuple):
    """Seconds below which one answer cannot come: by arithmetic (None where the rate is not known), and by reading the weights once."""

    arithmetic: float | None
    weights: float


def counted(subject: Subject) -> tuple[float, int]:
    """Floating-point operations of one row, and how many numbers the weights are."""
    row = tuple(tensor[:2] for tensor in subject.example)
    # The short cut through an encoder layer is one operator whose arithmetic nobody counts.
    short_cut = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            subject.model(*row)
    finally:
        torch.backends.mha.set_fastpath_enabled(short_cut)
    weights = sum(parameter.numel() for parameter in subject.model.parameters())
    return counter.get_total_flops() / 2, weights


def bound(flops: float, weights: int, precision: str, rows: int, machine: Ceilings) -> Bound:
    """The floor under one answer of `rows` rows at the machine's ceilings (Williams 2009)."""
    rate = machine.matmul.get(DTYPES.get(precision, ""))
    return Bound(rows * flops / rate if rate else None, weights * BYTES[precision] / machine.bandwidth)


def said(
    subject: Subject, winner: Candidate, *, seconds: float, rows: int, environment: Environment, store: Store
) -> str:
    """What is left above the floor, in a sentence; empty where nothing can be counted."""
    machine = store.load_ceilings(environment.id)
    if machine is None:
        machine = ceilings(environment)
        store.save_ceilings(machine)
    try:
        flops, weights = counted(subject)
    except Exception:
        return ""  # a module that FlopCounterMode cannot run under has no roofline, and is shipped all the same
    if not flops:
        return ""
    floor = bound(flops, weights, winner.precision, rows, machine)
    told = f"one answer is {flops * rows / 1e6:,.0f} MFLOP and {weights * BYTES[winner.precision] / 1e6:,.1f} MB of weights"
    if floor.arithmetic is None:
        return (
            f"{told}; reading the weights takes {said_seconds(floor.weights)} of {said_seconds(seconds)}, and no ceiling "
            f"of {winner.precision} products is measured"
        )
    least = max(floor.arithmetic, floor.weights)
    if seconds <= 1.1 * least:
        return f"{told}; {said_seconds(seconds)} is what this machine's ceilings allow: nothing is left"
    side = "arithmetic" if floor.arithmetic >= floor.weights else "memory"
    return (
        f"{told}; at this machine's ceilings that takes {said_seconds(least)} ({side}-bound), the winner takes "
        f"{said_seconds(seconds)}: at most {seconds / least:.1f} times is left"
    )
