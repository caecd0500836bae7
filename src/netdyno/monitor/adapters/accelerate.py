"""Watch a loop whose parts an Accelerator has prepared.

Use:        `with watched(accelerator, run="segments") as watch: ...` around the loop, after `accelerator.prepare(...)`.
Finds:      models, optimizers, schedulers, loaders and scaler among what was prepared; precision and accumulation become settings,
            `watch.evaluated(...)` takes the results of evaluations.
Ends:       with the block, or as failed, stopped or interrupted with the exception that ended it.
"""

from typing import Any, Unpack

from netdyno.monitor import run
from netdyno.monitor.adapters._base import Wishes, bare


def watched(accelerator: Any, **wishes: Unpack[Wishes]) -> run.Watch:
    """A watch over everything that `accelerator` has prepared; further arguments are those of `netdyno.watch`."""
    loaders = list(accelerator._dataloaders)
    settings = {
        "mixed_precision": str(accelerator.mixed_precision),
        "gradient_accumulation_steps": accelerator.gradient_accumulation_steps,
        **(wishes.get("settings") or {}),
    }
    asked: dict[str, Any] = {**wishes, "settings": settings}
    return run.watch(
        [accelerator.unwrap_model(model) for model in accelerator._models],
        [bare(optimizer) for optimizer in accelerator._optimizers],
        scaler=accelerator.scaler,
        scheduler=[getattr(scheduler, "scheduler", scheduler) for scheduler in accelerator._schedulers],
        loader=loaders[0] if loaders else None,  # the first is the one that trains, in each example there is
        **asked,
    )
