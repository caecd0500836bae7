"""Let float32 matrix products and convolutions round their factors to a shorter type inside."""

from typing import Any

from ._base import Settings, device_of, parameters, watch

WHEN = "toggle"
STAGE = 50
EARLY = True
EXAMPLES: tuple[dict[str, Any], ...] = ({}, {"convolutions": False})


def refuses(view: Any, settings: Settings) -> str | None:
    import torch

    device = device_of(view)
    if device == "cpu" and not (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()):
        return "this CPU has no bfloat16 instructions (AVX512-BF16, AMX)"
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 0):
        return "this GPU has no TF32: it is older than Ampere"
    if device not in {"cpu", "cuda"}:
        return f"there is no such switch for `{device}`"
    if watch(view).autocast or view.around_forward:
        return "the forward pass runs under autocast, which leaves few float32 products"
    held = parameters(view)
    if held and all(parameter.dtype != torch.float32 for parameter in held):
        return "the model has no float32 parameters"
    return _set_already()


def _set_already() -> str | None:
    import torch

    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # PyTorch refuses to answer when the newer switches were used as well
        return "the script already sets the precision of float32 itself (`torch.backends.….fp32_precision`)"
    return (
        None
        if precision == "highest"
        else f'the script already sets the precision of float32 products to "{precision}"'
    )


def switches() -> tuple[Any, ...]:
    """The newer switches that `torch.set_float32_matmul_precision` writes too, and the convolutions' own."""
    import torch

    backends: Any = torch.backends
    found = (
        getattr(getattr(backends, "mkldnn", None), "matmul", None),
        getattr(getattr(backends, "cuda", None), "matmul", None),
        getattr(getattr(backends, "mkldnn", None), "conv", None),
    )
    return tuple(switch for switch in found if hasattr(switch, "fp32_precision"))


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._convolutions = bool(settings.get("convolutions", True))

    def on(self) -> None:
        import torch

        # Setting "highest" again does not take the newer switches back to "none": so all are kept.
        self._matrices = torch.get_float32_matmul_precision()
        self._kept = [(switch, switch.fp32_precision) for switch in switches()]
        torch.set_float32_matmul_precision("medium")
        mkldnn: Any = torch.backends.mkldnn
        if self._convolutions and hasattr(getattr(mkldnn, "conv", None), "fp32_precision"):
            mkldnn.conv.fp32_precision = "bf16"

    def off(self) -> None:
        import torch

        torch.set_float32_matmul_precision(self._matrices)
        for switch, precision in self._kept:
            switch.fp32_precision = precision
