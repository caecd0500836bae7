"""NVIDIA devices, as their own library tells of them; nothing where it is not installed or finds none."""

import contextlib
import os
from typing import Any

MOST = 16


class Devices:
    """Asks NVML, once the process uses a device: initialising it on a machine without one costs time for nothing."""

    def __init__(self) -> None:
        self.nvml: Any = None
        self.handles: dict[int, Any] = {}
        self.tried = False

    def utilisation(self) -> dict[int, tuple[float, float]]:
        """Shares of the last sampling period in which each device computed, and its memory was used."""
        told = self._each("nvmlDeviceGetUtilizationRates")
        return {number: (rates.gpu / 100, rates.memory / 100) for number, rates in told.items()}

    def temperature(self) -> dict[int, float]:
        """Degrees Celsius."""
        sensor = 0  # NVML_TEMPERATURE_GPU
        return self._each("nvmlDeviceGetTemperature", sensor)

    def power(self) -> dict[int, float]:
        """Watts."""
        return {number: milliwatts / 1000 for number, milliwatts in self._each("nvmlDeviceGetPowerUsage").items()}

    def _each(self, question: str, *details: Any) -> dict[int, Any]:
        told = {}
        if self._there():
            for number, handle in self.handles.items():
                with contextlib.suppress(Exception):  # this card does not say: others may
                    told[number] = getattr(self.nvml, question)(handle, *details)
        return told

    def _there(self) -> bool:
        if self.tried:
            return bool(self.handles)
        import torch

        if not torch.cuda.is_initialized():
            return False
        self.tried = True
        with contextlib.suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            self.nvml = pynvml
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            for number in range(min(MOST, torch.cuda.device_count())):
                self.handles[number] = _handle(pynvml, number, visible)
        return bool(self.handles)


def _handle(pynvml: Any, number: int, visible: str | None) -> Any:
    """What torch calls device `number`: its number among the visible ones, which may be named by number or by id."""
    name = visible.split(",")[number].strip() if visible else str(number)
    if name.isdigit():
        return pynvml.nvmlDeviceGetHandleByIndex(int(name))
    return pynvml.nvmlDeviceGetHandleByUUID(name)
