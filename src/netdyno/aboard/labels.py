"""What stands in the labels of batches: whether they mix classes, and whether they are the inputs moved by one place."""

from typing import Any

LOOKS = 8  # batches that are looked at; sorted data show it in the second class that follows the first
LEAST = 8  # of fewer samples chance alone makes one class likely enough
NAMES = ("labels", "label", "target", "targets", "y")
INPUTS = ("input_ids", "inputs", "x", "input")


class Labels:
    """Looks at a few batches of a loader."""

    __slots__ = ("classes", "looks", "mixed", "sequence")

    def __init__(self) -> None:
        self.looks = 0
        self.mixed = self.sequence = False
        self.classes: set[int] = set()

    def look(self, batch: Any) -> None:
        """At the labels of a batch on the host; those on a device would have to be waited for."""
        if self.looks >= LOOKS or self.mixed or self.sequence:
            return
        self.looks += 1
        inputs, labels = _pair(batch)
        if labels is None or not labels.is_cpu or labels.is_floating_point() or labels.is_complex():
            return
        if labels.dim() > 1 and labels.numel() > labels.shape[0]:
            self.sequence = inputs is not None and inputs.shape == labels.shape and inputs.dtype == labels.dtype
            return
        if labels.numel() >= LEAST:
            found = set(labels.unique().tolist())
            self.mixed = len(found) > 1
            self.classes |= found

    @property
    def vary(self) -> bool | None:
        """True when a batch mixes classes, False when each held one and not always the same; None when nobody knows."""
        if self.mixed:
            return True
        return False if len(self.classes) > 1 else None


def _pair(batch: Any) -> tuple[Any, Any]:
    """Inputs and labels of a batch, where its form tells them."""
    import torch

    if isinstance(batch, list | tuple) and len(batch) == 2:
        inputs, labels = batch
    elif hasattr(batch, "keys"):
        inputs, labels = _first(batch, INPUTS), _first(batch, NAMES)
    else:
        return None, None
    return tuple(one if isinstance(one, torch.Tensor) else None for one in (inputs, labels))  # type: ignore[return-value]


def _first(batch: Any, names: tuple[str, ...]) -> Any:
    keys = list(batch.keys())
    return next((batch[name] for name in names if name in keys), None)
