"""Drop out `factor` times as much as the script says, wherever it does."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.nn.functional.dropout, which modules call too. With `evaluation` False nothing is dropped without gradients."""
    import torch
    import torch.nn.functional as F

    factor = float(settings.get("factor", 0.25))
    evaluates = bool(settings.get("evaluation", True))

    def make(original: Any) -> Any:
        def dropout(values: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
            if not evaluates and not torch.is_grad_enabled():
                return values
            return original(values, p * factor, training, inplace)

        return dropout

    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
        observer.replacements.replace(f"scale {name}", F, name, make)
