"""Multiply matrices in bfloat16: half the bytes, and on hardware that knows the type several times the rate.

Helps:      matrix products and convolutions on CPUs with AVX512-BF16 or AMX, and on GPUs from Ampere on.
            Seen on 2 cores with AMX: 1.60x for a small ResNet (2.20x with channels-last), 1.76x for a transformer;
            with AVX512-BF16 alone 1.17x for a small one (1.15 to 1.18 from the third lowest to the third highest of 14 pairs).
Costs:      eight bits of mantissa instead of twenty-four in products; weights, optimizer and loss stay float32.
            On hardware without the type it is slower, so there it is refused.
Parity:     lower precision: judged on the course of the loss, against a control that only reorders sums.
Undo:       nothing is changed; the context is left.
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch

from netdyno.interventions._autocast import autocasting, no_gain_from
from netdyno.interventions._base import Facts, Intervention
from netdyno.interventions._products import compute_of, quicker
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

# Without measured ceilings: what the instructions promise over float32, rounded down for memory and conversions.
PROMISED = {"amx": 3.0, "avx512_bf16": 1.8, "arm bf16": 1.8, "cuda": 2.0}
OF_THE_REST = 0.3  # what is not a product gains too where it moves half the bytes, at most about so much
LEAST = 0.03


@dataclass(frozen=True, slots=True)
class Bf16Autocast:
    layers: ClassVar[tuple[str, ...]] = ("compute", "memory")
    numerics: ClassVar[Numerics] = "lower-precision"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 30
    effort: ClassVar[float] = 5.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        device = subject.device.type
        if device not in {"cpu", "cuda"}:
            return f"it is tried on a CPU and on CUDA only, and the model is on `{device}`"
        if instructions(device) is None:
            return "this machine has no bfloat16 instructions (AVX512-BF16, AMX): converting would only cost time"
        if any(getattr(context, "func", context) is torch.autocast for context in subject.around_forward):
            return "the forward pass runs under autocast already"
        return no_gain_from(subject)

    def predicts(self, facts: Facts) -> Prediction | None:
        compute = compute_of(facts)
        if compute is None:
            return None
        rate = quicker(facts, "bfloat16")
        source = "measured" if rate is not None else "by its instructions"
        if rate is None:
            rate = PROMISED.get(instructions("cuda" if torch.cuda.is_available() else "cpu") or "", 1.0)
        if rate <= 1.0:
            return None
        products = compute.products * (1 - 1 / rate)
        high = min(products + OF_THE_REST * compute.rest, 0.9)
        if high < LEAST:
            return None
        return Prediction(
            low=0.2 * products,  # conversions and small shapes can eat most of it
            high=high,
            why=f"products take {compute.products:.0%} of a step, and bfloat16 is {rate:.1f} times quicker here ({source})",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        yield autocasting(subject, torch.bfloat16)

    def code(self) -> str:
        return (
            "with torch.autocast(device.type, dtype=torch.bfloat16):\n"
            "    output = model(inputs)\n"
            "loss = loss_fn(output.float(), target)"
        )


@cache
def instructions(device: str) -> str | None:
    """What multiplies bfloat16 in hardware on this machine's `device`, or None."""
    if device == "cuda":
        return "cuda" if torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False) else None
    if torch.cpu._is_amx_tile_supported():
        return "amx"
    if torch.cpu._is_avx512_bf16_supported():
        return "avx512_bf16"
    return "arm bf16" if platform.machine() == "aarch64" and "bf16" in _features() else None


def _features() -> set[str]:
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line for line in file if line.startswith("Features")]
    except OSError:
        return set()
    return set(lines[0].split()) if lines else set()


EXAMPLES = (Bf16Autocast(),)
