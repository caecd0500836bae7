"""Ask for no gradients of weights that no optimizer moves."""

from typing import Any

from ._base import Settings

STEPS = 4


def put_on(observer: Any, settings: Settings) -> None:
    """After the first steps, when every optimizer has shown what it holds: of the models that were called with gradients."""
    import weakref

    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    models: weakref.WeakSet[Any] = weakref.WeakSet()
    held: set[int] = set()
    steps = [0]

    def make(original: Any) -> Any:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if steps[0] < STEPS and torch.is_grad_enabled() and not observer.inside:
                models.add(self)
            return original(self, *args, **kwargs)

        return __call__

    def stepped(optimizer: Any, *_: Any) -> None:
        steps[0] += 1
        if steps[0] > STEPS:
            return
        held.update(id(one) for group in optimizer.param_groups for one in group["params"])
        if steps[0] == STEPS:
            for model in list(models):
                for one in model.parameters():
                    if id(one) not in held:
                        one.requires_grad_(False)

    observer.replacements.replace("freeze the idle", torch.nn.Module, "__call__", make)
    register_optimizer_step_post_hook(stepped)
