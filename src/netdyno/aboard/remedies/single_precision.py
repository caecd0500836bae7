"""Compute in float32 where the script asks for float64: tensors from NumPy, `.double()`, the default type."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Where double precision comes from: makers of tensors, conversions, modules."""
    import torch

    def single(original: Any) -> Any:
        def made(*args: Any, **kwargs: Any) -> Any:
            args = tuple(torch.float32 if each is torch.float64 else each for each in args)
            kwargs = {name: torch.float32 if each is torch.float64 else each for name, each in kwargs.items()}
            result = original(*args, **kwargs)
            return result.float() if isinstance(result, torch.Tensor) and result.dtype == torch.float64 else result

        return made

    def without(kind: Any) -> Any:
        def make(original: Any) -> Any:
            def double(self: Any) -> Any:
                return kind.float(self)

            return double

        return make

    for owner, names in (
        (torch, ("from_numpy", "tensor", "as_tensor", "zeros", "ones", "randn", "rand", "full", "set_default_dtype")),
        (torch.Tensor, ("to", "type")),
        (torch.nn.Module, ("to",)),
    ):
        for name in names:
            observer.replacements.replace(f"single {name}", owner, name, single)
    for owner in (torch.Tensor, torch.nn.Module):
        observer.replacements.replace("single double", owner, "double", without(owner))
