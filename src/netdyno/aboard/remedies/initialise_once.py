"""Leave weights alone that the script fills with numbers after the first update."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In the functions that fill a tensor, for the weights that an optimizer has stepped; also through `.data`."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    places: set[int] = set()

    def stepped(optimizer: Any, *_: Any) -> None:
        places.update(one.data_ptr() for group in optimizer.param_groups for one in group["params"])

    def make(original: Any) -> Any:
        def fill(self: Any, *args: Any, **kwargs: Any) -> Any:
            if places and self.layout is torch.strided and self.data_ptr() in places:
                return self
            return original(self, *args, **kwargs)

        return fill

    register_optimizer_step_post_hook(stepped)
    for name in ("normal_", "uniform_", "fill_", "zero_"):
        observer.replacements.replace(f"initialise once {name}", torch.Tensor, name, make)
