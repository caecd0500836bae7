"""Give a loss of probabilities the sigmoid of what it got: its input were raw outputs."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.nn.functional.binary_cross_entropy."""
    import torch.nn.functional as F

    def make(original: Any) -> Any:
        def squashed(output: Any, *args: Any, **kwargs: Any) -> Any:
            return original(output.sigmoid(), *args, **kwargs)

        return squashed

    observer.replacements.replace("squash outputs", F, "binary_cross_entropy", make)
