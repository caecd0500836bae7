"""Multiply matrices in float16 on a GPU, with a loss that is scaled so that small gradients survive.

Helps:      matrix products and convolutions on GPUs with tensor cores, above all those older than Ampere, which
            have no bfloat16.
Costs:      five bits of exponent: a scaler skips the steps whose gradients overflow, and reads one flag per step.
            Never on a CPU: float16 products run at a sixtieth of the float32 rate on the CPU this was developed on,
            and the backward of one convolution takes 80 to 100 times as long.
Parity:     lower precision: judged on the course of the loss.
Undo:       nothing is changed; context and scaler are left.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from netdyno.interventions._autocast import autocasting, no_gain_from
from netdyno.interventions._base import Facts, Intervention
from netdyno.interventions._products import compute_of, quicker
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

TENSOR_CORES = 2.0  # times float32 at least, where no ceiling was measured


@dataclass(frozen=True, slots=True)
class Fp16Autocast:
    layers: ClassVar[tuple[str, ...]] = ("compute", "memory")
    numerics: ClassVar[Numerics] = "lower-precision"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 30
    effort: ClassVar[float] = 8.0
    memory_only: ClassVar[bool] = False
    seconds_to_try: ClassVar[float] = 10.0  # where float16 is emulated, a single step can take minutes

    def refuses(self, subject: Subject) -> str | None:
        if subject.device.type == "cpu":
            return "on a CPU the backward of a convolution takes 80 to 100 times as long in float16"
        if subject.device.type != "cuda":
            return f"it is tried on CUDA only, and the model is on `{subject.device.type}`"
        if subject.around_forward:
            return "the forward pass runs inside another context already"
        return no_gain_from(subject)

    def predicts(self, facts: Facts) -> Prediction | None:
        compute = compute_of(facts)
        if compute is None:
            return None
        rate = quicker(facts, "float16") or TENSOR_CORES
        if rate <= 1.0:
            return None
        products = compute.products * (1 - 1 / rate)
        return Prediction(
            low=0.2 * products,
            high=min(products + 0.3 * compute.rest, 0.9),
            why=f"products take {compute.products:.0%} of a step, and float16 is {rate:.1f} times quicker here",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        scaler = subject.scaler
        if scaler is None:
            scaler = torch.amp.GradScaler(subject.device.type)
        yield replace(autocasting(subject, torch.float16), scaler=scaler)

    def code(self) -> str:
        return (
            'scaler = torch.amp.GradScaler("cuda")\n'
            'with torch.autocast("cuda", dtype=torch.float16):\n'
            "    output = model(inputs)\n"
            "loss = loss_fn(output.float(), target)\n"
            "scaler.scale(loss).backward()\n"
            "scaler.step(optimizer)\n"
            "scaler.update()"
        )


EXAMPLES = (Fp16Autocast(),)
