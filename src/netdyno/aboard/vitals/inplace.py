"""What was changed in place while a graph was recorded: for the error that such a change leads to much later."""

import sys
from collections import deque
from typing import Any, ClassVar

from ..frames import Line, user_line
from ..patches import Patches
from ._base import Vital, Watch

# Such an error ends a script in one of its first backward passes.
UPDATES = 2
KEPT = 64
CALLS = (
    "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__", "__setitem__",
    "add_", "sub_", "mul_", "div_", "pow_", "clamp_", "relu_", "sigmoid_", "tanh_", "exp_", "sqrt_", "neg_", "abs_",
    "fill_", "zero_", "copy_", "masked_fill_", "index_fill_", "addcmul_", "clip_",
)  # fmt: skip


class Inplace(Vital):
    """Notes changes in place of tensors that hang on a graph, in the first updates only."""

    kind: ClassVar[str] = "InplaceWrites"

    def __init__(self, watch: Watch) -> None:
        import torch

        super().__init__(watch)
        self.writes: deque[tuple[str, tuple[int, ...], str, Line]] = deque(maxlen=KEPT)
        self.patches = Patches()
        for name in CALLS:
            self.patches.replace(f"vital {name}", torch.Tensor, name, self._noting(name))

    def _noting(self, name: str) -> Any:
        def replacement(original: Any) -> Any:
            observer, watch, writes = self.watch.observer, self.watch, self.writes
            is_grad_enabled, is_traced, frame_of = observer.is_grad_enabled, observer.is_traced, sys._getframe

            def change(tensor: Any, *args: Any, **kwargs: Any) -> Any:
                if is_traced() or observer.updates >= UPDATES or not is_grad_enabled() or watch.busy:
                    return original(tensor, *args, **kwargs)
                made = tensor.grad_fn if tensor.requires_grad else None
                if made is not None:
                    writes.append((name, tuple(tensor.shape), made.name(), user_line(frame_of(1))))
                return original(tensor, *args, **kwargs)

            return change

        return replacement

    def every_update(self, number: int) -> None:
        """After the first updates nothing is in anybody's way any more."""
        if number >= UPDATES:
            self.patches.undo()

    def over(self) -> None:
        """Put everything back."""
        self.patches.undo()

    def summary(self) -> dict[str, Any] | None:
        """The last ones first."""
        told = [
            {"call": name, "shape": list(shape), "made_by": made, "where": {"file": line.file, "line": line.line}}
            for name, shape, made, line in reversed(list(self.writes))
            if line.file
        ]
        return {"writes": told} if told else None


VITAL = Inplace
