"""Evaluate in inference mode: around the evaluation's forwards, in which the script has no gradients already."""

from typing import Any

from ._base import Settings, drop, watch

WHEN = "toggle"
STAGE = 50
EARLY = True
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    seen = watch(view)
    if not seen.evaluated:
        return "no evaluation was seen so far: no forward without gradients"
    if seen.inference:
        return "the script already evaluates in inference mode"
    return None


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._view = view

    def on(self) -> None:
        import torch

        self._view.around_evaluation.append(torch.inference_mode)

    def off(self) -> None:
        import torch

        drop(self._view.around_evaluation, torch.inference_mode)
