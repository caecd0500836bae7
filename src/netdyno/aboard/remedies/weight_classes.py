"""Weight each class of a cross entropy by the inverse of its frequency in the first training batches."""

from typing import Any

from ._base import Settings

BATCHES = 20


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.nn.functional.cross_entropy, where gradients are recorded and the author gave no weights."""
    import torch
    import torch.nn.functional as F

    counts: list[Any] = []

    def make(original: Any) -> Any:
        def cross_entropy(output: Any, target: Any, weight: Any = None, *args: Any, **kwargs: Any) -> Any:
            plain = weight is None and torch.is_grad_enabled() and target.dim() == 1 and output.dim() == 2
            if plain and not target.is_floating_point():
                if len(counts) < BATCHES:
                    counts.append(torch.bincount(target, minlength=output.shape[1]).to(output.dtype))
                seen = sum(counts)
                weight = torch.where(seen > 0, seen.sum() / (seen.clamp(min=1) * (seen > 0).sum()), 1.0)
            return original(output, target, weight, *args, **kwargs)

        return cross_entropy

    observer.replacements.replace("weigh classes", F, "cross_entropy", make)
