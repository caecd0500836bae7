"""Change no weights `after` so many updates: the run ends with the weights of that time."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Before every later step its gradients are taken away: optimizers leave weights without a gradient alone."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    most = int(settings["after"])
    steps: dict[int, int] = {}

    def stop(optimizer: Any, *_: Any) -> None:
        steps[id(optimizer)] = steps.get(id(optimizer), 0) + 1
        if steps[id(optimizer)] > most:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None

    register_optimizer_step_pre_hook(stop)
