"""Ask for no gradients of weights that no optimizer moves."""

from typing import Any

from ._base import Settings, around_calls

STEPS = 4


def put_on(observer: Any, settings: Settings) -> None:
    """After the first steps, when every optimizer has shown what it holds: of the models that were called with gradients."""
    import weakref

    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    models: weakref.WeakSet[Any] = weakref.WeakSet()
    held: set[int] = set()
    steps = [0]

    def around(call: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if steps[0] < STEPS and torch.is_grad_enabled() and not observer.inside:
            models.add(model)
        return call(model, *args, **kwargs)

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

    around_calls(observer, "freeze the idle", around)
    register_optimizer_step_post_hook(stepped)
