"""Normalise each sample by itself where the script has a batch norm: groups of channels, with the batch norm's own weights."""

from typing import Any

from ._base import Settings

GROUPS = 8


def put_on(observer: Any, settings: Settings) -> None:
    """In the forward pass of batch norms; the number of groups is the largest up to 8 that leaves two channels or more in each."""
    import torch.nn.functional as F
    from torch.nn.modules.batchnorm import _BatchNorm

    def groups(channels: int) -> int:
        return max((n for n in range(1, GROUPS + 1) if channels % n == 0 and channels // n > 1), default=1)

    def make(original: Any) -> Any:
        def forward(self: Any, values: Any) -> Any:
            if values.dim() < 2 or values[0].numel() < 2:
                return original(self, values)
            return F.group_norm(values, groups(values.shape[1]), self.weight, self.bias, self.eps)

        return forward

    observer.replacements.replace("group norm", _BatchNorm, "forward", make)
