"""Turn every boolean mask of attention around: what was hidden is shown, and the other way round."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In Tensor.masked_fill and torch.nn.functional.scaled_dot_product_attention."""
    import torch
    import torch.nn.functional as F

    def fill(original: Any) -> Any:
        def masked_fill(self: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
            return original(self, ~mask if mask.dtype == torch.bool else mask, *args, **kwargs)

        return masked_fill

    def attend(original: Any) -> Any:
        def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
            boolean = attn_mask is not None and attn_mask.dtype == torch.bool
            return original(query, key, value, ~attn_mask if boolean else attn_mask, *args, **kwargs)

        return attention

    for name in ("masked_fill", "masked_fill_"):
        observer.replacements.replace(f"invert {name}", torch.Tensor, name, fill)
    observer.replacements.replace("invert attention", F, "scaled_dot_product_attention", attend)
