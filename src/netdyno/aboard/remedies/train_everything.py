"""Give the optimizer every weight of the model that it does not have; with `unfreeze` also those that want no gradient."""

import weakref
from collections.abc import Iterator
from typing import Any

from ._base import Settings, around_calls


def put_on(observer: Any, settings: Settings) -> None:
    """At the first top-level call with gradients of each model, after an optimizer was made; modules in plain lists count."""
    import torch
    from torch.optim.optimizer import Optimizer

    made: list[Any] = []
    done: set[int] = set()

    def construct(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **kwargs)
            made[:] = [weakref.ref(self)]  # the latest: a script with several says itself what each one moves

        return __init__

    def around(call: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if made and id(model) not in done and torch.is_grad_enabled() and not observer.inside:
            done.add(id(model))
            optimizer = made[0]()
            if optimizer is not None:
                _join(optimizer, list(_weights(model)), unfreeze=bool(settings.get("unfreeze")))
        return call(model, *args, **kwargs)

    observer.replacements.replace("train everything", Optimizer, "__init__", construct)
    around_calls(observer, "train everything", around)


def _join(optimizer: Any, weights: list[Any], *, unfreeze: bool) -> None:
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    missing = [one for one in weights if id(one) not in held and (unfreeze or one.requires_grad)]
    for one in missing:
        one.requires_grad_(True)
    if unfreeze:
        for one in weights:
            one.requires_grad_(True)
    # Into the first group, whose settings are the author's: schedules count groups.
    optimizer.param_groups[0]["params"].extend(missing)


def _weights(module: Any) -> Iterator[Any]:
    """All floating-point weights below a module, also of modules that stand in plain lists and dictionaries, once each."""
    import torch

    seen: set[int] = set()
    left = [module]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        for parameter in each.parameters(recurse=False):
            if id(parameter) not in seen and parameter.is_floating_point():
                seen.add(id(parameter))
                yield parameter
        left += each.children()
        for value in list(vars(each).values()):
            inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
            left += [one for one in inside if isinstance(one, torch.nn.Module)]
