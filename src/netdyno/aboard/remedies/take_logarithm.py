"""Give a loss that wants log-probabilities the log-softmax of what it got: `call` is nll_loss or kl_div."""

from functools import partial
from typing import Any

from ._base import Settings, at_place


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.nn.functional. With `of` = "probabilities" the plain logarithm is taken, else a log-softmax over classes."""
    import torch.nn.functional as F

    name = str(settings.get("call", "nll_loss"))
    observer.replacements.replace(f"take logarithm {name}", F, name, partial(_logged, settings))


def _logged(settings: Settings, original: Any) -> Any:
    def logged(output: Any, *args: Any, **kwargs: Any) -> Any:
        if not at_place(settings):
            return original(output, *args, **kwargs)
        shares = settings.get("of") == "probabilities"
        dim = 1 if output.dim() > 1 else 0
        return original(output.clamp(min=1e-12).log() if shares else output.log_softmax(dim), *args, **kwargs)

    return logged
