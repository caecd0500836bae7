"""Runs a script unmodified with torchmortem around its loop, and prints what it found as JSON.

    python benchmarks/rival_torchmortem.py train.py

The context that a user would write begins at the first update and ends with the script; one call follows each update.
"""

import contextlib
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torchmortem import Autopsy

MARK = "torchmortem says: "


def ridden(script: str) -> list[dict[str, str]]:
    """The findings over the training model of a script: the module that is called at top level while gradients are on."""
    state: dict[str, Any] = {"depth": 0, "model": None, "autopsy": None, "loss": None}
    plain = torch.Tensor.backward

    def entered(module, args):
        if (
            state["depth"] == 0
            and state["model"] is None
            and torch.is_grad_enabled()
            and next(module.parameters(), None) is not None
        ):
            state["model"] = module
        state["depth"] += 1

    def left(module, args, output):
        state["depth"] = max(0, state["depth"] - 1)

    def backward(tensor, *args, **kwargs):
        state["loss"] = tensor.detach()
        return plain(tensor, *args, **kwargs)

    def stepping(optimizer, args, kwargs):
        if state["autopsy"] is None and state["model"] is not None:
            state["autopsy"] = Autopsy(state["model"], optimizer=optimizer)
            state["autopsy"].attach()

    def stepped(optimizer, args, kwargs):
        if state["autopsy"] is not None and state["loss"] is not None and state["loss"].numel() == 1:
            state["autopsy"].step(loss=state["loss"].item())

    torch.Tensor.backward = backward
    torch.nn.modules.module.register_module_forward_pre_hook(entered)
    torch.nn.modules.module.register_module_forward_hook(left)
    register_optimizer_step_pre_hook(stepping)
    register_optimizer_step_post_hook(stepped)
    with contextlib.suppress(BaseException):
        runpy.run_path(script, run_name="__main__")
    if state["autopsy"] is None:
        raise SystemExit("no update of a model was seen")  # no answer, which is not silence
    state["autopsy"].detach()
    report = state["autopsy"].get_report()
    return [{"name": each.title, "severity": each.severity.name.lower()} for each in report.findings] if report else []


if __name__ == "__main__":
    target = sys.argv[1]
    sys.argv = [target]
    sys.path.insert(0, str(Path(target).resolve().parent))
    print(MARK + json.dumps(ridden(target)))
