"""Keep the running statistics of batch norms whose own weights are frozen: what `.eval()` on the frozen part does."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In the forward pass of batch norms."""
    from torch.nn.modules.batchnorm import _BatchNorm

    def make(original: Any) -> Any:
        def forward(self: Any, values: Any) -> Any:
            if not self.training or self.weight is None or self.weight.requires_grad:
                return original(self, values)
            self.training = False
            try:
                return original(self, values)
            finally:
                self.training = True

        return forward

    observer.replacements.replace("freeze statistics", _BatchNorm, "forward", make)
