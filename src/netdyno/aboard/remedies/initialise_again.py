"""Give the weights the start that their modules draw by default, once, before the first training step."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """At the first top-level call with gradients of each model."""
    import torch

    done: set[int] = set()

    def make(original: Any) -> Any:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if torch.is_grad_enabled() and not observer.inside and id(self) not in done and not observer.updates:
                done.add(id(self))
                for module in self.modules():
                    reset = getattr(module, "reset_parameters", None)
                    if callable(reset):
                        reset()
            return original(self, *args, **kwargs)

        return __call__

    observer.replacements.replace("initialise again", torch.nn.Module, "__call__", make)
