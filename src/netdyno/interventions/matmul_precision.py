"""Let float32 matrix products and convolutions round their factors to a shorter type inside.

Tensors stay float32 everywhere; a CPU rounds the factors of a product to bfloat16, a GPU to TF32.

Helps:      products on hardware with such units, where autocast is not wanted. Less than autocast, since the bytes
            that move stay the same. Seen on 2 cores: 1.0x to 1.15x with AMX; with AVX512-BF16 alone 0.97x for a small
            ResNet and 0.83x for a small transformer (0.77 to 0.86 from the third lowest to the third highest of 14 pairs).
Costs:      one line.
Parity:     lower precision: judged on the course of the loss.
Undo:       the switches are set for the length of a turn; each goes back to what it was, "not set" included.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch

from netdyno.interventions._base import Facts, Intervention
from netdyno.interventions._products import compute_of, quicker
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

LEAST = 0.03


@dataclass(frozen=True, slots=True)
class MatmulPrecision:
    convolutions: bool = True

    layers: ClassVar[tuple[str, ...]] = ("compute",)
    numerics: ClassVar[Numerics] = "lower-precision"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 50
    effort: ClassVar[float] = 1.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        device = subject.device.type
        if device == "cpu" and not (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()):
            return "this CPU has no bfloat16 instructions (AVX512-BF16, AMX)"
        if device == "cuda" and torch.cuda.get_device_capability(subject.device) < (8, 0):
            return "this GPU has no TF32: it is older than Ampere"
        if device not in {"cpu", "cuda"}:
            return f"there is no such switch for `{device}`"
        set_already = _set_already()
        if set_already is not None:
            return set_already
        if any(getattr(context, "func", context) is torch.autocast for context in subject.around_forward):
            return "the forward pass runs under autocast, which leaves few float32 products"
        if all(parameter.dtype != torch.float32 for parameter in subject.model.parameters()):
            return "the model has no float32 parameters"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        compute = compute_of(facts)
        rate = quicker(facts, "bfloat16")
        if compute is None or (rate is not None and rate <= 1.0):
            return None
        # Factors are read as float32 and rounded on the way, so at most half of what autocast would win.
        high = 0.5 * compute.products * (1 - 1 / (rate or 1.8))
        if high < LEAST:
            return None
        return Prediction(
            low=-0.4 * high,  # rounding on the way can cost more than it saves
            high=high,
            why=f"float32 products take {compute.products:.0%} of a step; rounding factors saves at most half of what "
            "a shorter type would",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        yield subject.with_turn(partial(_lowered, convolutions=self.convolutions))

    def code(self) -> str:
        lines = ['torch.set_float32_matmul_precision("medium")']
        if self.convolutions:
            lines.append('torch.backends.mkldnn.conv.fp32_precision = "bf16"  # convolutions on a CPU')
        return "\n".join(lines)


def _set_already() -> str | None:
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # PyTorch refuses to answer when the newer switches were used as well
        return "this program sets the precision of float32 itself (`torch.backends.….fp32_precision`)"
    return None if precision == "highest" else f'`torch.get_float32_matmul_precision()` is "{precision}" already'


@contextmanager
def _lowered(*, convolutions: bool) -> Iterator[None]:
    # torch.set_float32_matmul_precision writes two switches of the newer interface, and does not take them back
    # to "none" when it is set to "highest" again: so all three are kept.
    matrices = torch.get_float32_matmul_precision()
    kept = [(switch, switch.fp32_precision) for switch in _switches()]
    try:
        torch.set_float32_matmul_precision("medium")
        if convolutions:
            _of("mkldnn").conv.fp32_precision = "bf16"
        yield
    finally:
        torch.set_float32_matmul_precision(matrices)
        for switch, precision in kept:
            switch.fp32_precision = precision


def _of(backend: str) -> Any:
    return getattr(torch.backends, backend)  # the checker knows only part of what stands there


def _switches() -> tuple[Any, ...]:
    return _of("mkldnn").matmul, _of("cuda").matmul, _of("mkldnn").conv


EXAMPLES = (MatmulPrecision(), MatmulPrecision(convolutions=False))
