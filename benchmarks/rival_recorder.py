"""Runs a script unmodified and writes down what published rules look at: losses, gradients, updates, activations, inputs.

    python benchmarks/rival_recorder.py FOLDER train.py

Into the folder go record.json and metrics.csv (step, train_loss, val_loss, learning_rate, grad_norm), for tools that read logs.
Modules are watched by hooks, as those tools do: what a script computes with functions they do not see.
"""

import contextlib
import csv
import json
import math
import runpy
import sys
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

FIRST, EVERY = 10, 10  # updates that are looked at: the first ones, then every tenth
MOST = 20_000  # losses that are kept
LOSSES = ("cross_entropy", "nll_loss", "mse_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy", "l1_loss", "smooth_l1_loss")  # fmt: skip
SQUASHED = (torch.nn.Sigmoid, torch.nn.Tanh)
RECTIFIED = (torch.nn.ReLU, torch.nn.LeakyReLU)


class Recorder:
    """What happened, in lists that JSON can hold."""

    def __init__(self):
        self.losses: list[float] = []
        self.rows: list[dict] = []
        self.rounds: list[dict] = []
        self.looks: list[dict] = []
        self.units: dict[str, dict] = {}
        self.inputs: dict = {}
        self.classes: Counter = Counter()
        self.images = 0
        self.lr: list[float] = []
        self.dropout: set[float] = set()
        self.names: dict[int, str] = {}
        self.before: dict[int, torch.Tensor] = {}
        self.train = [0.0, 0.0, 0]  # loss, right, samples since the last evaluation
        self.open_round: dict | None = None
        self.steps = 0
        self.depth = 0
        self.broke = ""

    @property
    def looking(self) -> bool:
        return self.steps < FIRST or self.steps % EVERY == 0

    def install(self):
        torch.nn.modules.module.register_module_forward_pre_hook(self.entered)
        torch.nn.modules.module.register_module_forward_hook(self.called)
        register_optimizer_step_pre_hook(self.stepping)
        register_optimizer_step_post_hook(self.stepped)
        plain = torch.Tensor.backward

        def backward(tensor, *args, **kwargs):
            if len(self.losses) < MOST and tensor.numel() == 1:
                self.losses.append(tensor.item())
            return plain(tensor, *args, **kwargs)

        torch.Tensor.backward = backward
        for name in LOSSES:
            self.watch_loss(name)

    def watch_loss(self, name):
        plain = getattr(F, name)

        def loss(given, target, *args, **kwargs):
            value = plain(given, target, *args, **kwargs)
            trains = torch.is_grad_enabled() and given.requires_grad
            with contextlib.suppress(Exception), torch.no_grad():
                self.judged(given, target, value, trains=trains)
            return value

        setattr(F, name, loss)

    def judged(self, given, target, value, *, trains):
        value, number = float(value.mean()), len(target)
        right = math.nan
        if not target.is_floating_point() and given.dim() == target.dim() + 1:
            right = float((given.argmax(1) == target).float().mean())
        if trains:
            if not target.is_floating_point() and target.numel() < 10_000:
                self.classes.update(target.flatten().tolist())
            self.open_round = None
            self.train[0] += value * number
            self.train[1] += right * number
            self.train[2] += number
        else:
            self.evaluated(value, right, number)

    def evaluated(self, value, right, number):
        if self.open_round is None:
            seen = max(self.train[2], 1)
            self.open_round = {
                "step": self.steps, "train_loss": self.train[0] / seen, "train_acc": self.train[1] / seen, "sum": 0.0,
                "right": 0.0, "number": 0,
            }  # fmt: skip
            self.rounds.append(self.open_round)
            self.train = [0.0, 0.0, 0]
        self.open_round["sum"] += value * number
        self.open_round["right"] += right * number
        self.open_round["number"] += number

    def entered(self, module, args):
        if self.depth == 0 and module.training and args and isinstance(args[0], torch.Tensor):
            self.saw(args[0])
            self.dropout |= {each.p for each in module.modules() if isinstance(each, torch.nn.Dropout)}
            for name, parameter in module.named_parameters():
                self.names.setdefault(id(parameter), name)
        self.depth += 1

    def called(self, module, args, output):
        self.depth = max(self.depth - 1, 0)
        if not (module.training and self.looking and isinstance(output, torch.Tensor) and output.dim() > 1):
            return
        if isinstance(module, RECTIFIED + SQUASHED):
            with torch.no_grad():
                self.activated(module, args[0], output)

    def activated(self, module, given, output):
        flat = output.transpose(1, -1).reshape(-1, output.shape[1])
        told = self.units.setdefault(
            str(id(module)), {"kind": type(module).__name__, "active": 0, "rows": 0, "low": 0.0}
        )
        told["active"] = told["active"] + (flat.abs() > 0 if isinstance(module, RECTIFIED) else flat > -2).float().sum(
            0
        )
        told["rows"] += len(flat)
        told["low"] = float((output <= 0).float().mean())
        told["extreme"] = float((given.abs() > 5).float().mean())
        told["flat"] = float((given.abs() > (9.5 if isinstance(module, torch.nn.Tanh) else 17)).float().mean())
        told["mean"] = float(output.mean())

    def saw(self, given):
        with torch.no_grad():
            if not given.is_floating_point():
                self.inputs.setdefault("whole", True)
                return
            self.images += len(given)
            low, high = float(given.min()), float(given.max())
            self.inputs["low"] = min(low, self.inputs.get("low", low))
            self.inputs["high"] = max(high, self.inputs.get("high", high))
            self.inputs["finite"] = self.inputs.get("finite", True) and bool(torch.isfinite(given).all())
            if given.dim() == 4 and self.images <= 2000:
                self.inputs["channel_mean"] = float(given.mean((0, 2, 3)).abs().max())

    def stepping(self, optimizer, args, kwargs):
        self.lr.append(float(optimizer.param_groups[0]["lr"]))
        if self.looking:
            self.before = {id(p): p.detach().clone() for group in optimizer.param_groups for p in group["params"]}

    def stepped(self, optimizer, args, kwargs):
        row = {"step": self.steps, "learning_rate": self.lr[-1], "train_loss": self.losses[-1] if self.losses else ""}
        if self.looking:
            with torch.no_grad():
                look = self.look(optimizer)
            self.looks.append(look)
            row["grad_norm"] = math.sqrt(sum((each["norm"] or 0.0) ** 2 for each in look["tensors"]))
        self.rows.append(row)
        self.steps += 1

    def look(self, optimizer):
        tensors = []
        for group in optimizer.param_groups:
            for number, parameter in enumerate(group["params"]):
                grad, old = parameter.grad, self.before.get(id(parameter))
                told = {"name": self.names.get(id(parameter), str(number)), "dims": parameter.dim(), "norm": None}
                told["weight_finite"] = bool(torch.isfinite(parameter).all())
                told["zero"] = not bool(parameter.any())
                told["std"] = float(parameter.std()) if parameter.numel() > 1 else 0.0
                if old is not None:
                    told["unchanged"] = bool(torch.allclose(old, parameter, rtol=1e-5, atol=1e-8))
                    told["ratio"] = float((parameter - old).norm() / (old.norm() + 1e-9))
                if grad is not None:
                    dense = grad.to_dense() if grad.is_sparse else grad
                    told |= {"norm": float(dense.norm()), "mean": float(dense.abs().mean())}
                    told |= {
                        "grad_zero": float((dense == 0).float().mean()),
                        "grad_finite": bool(torch.isfinite(dense).all()),
                    }
                tensors.append(told)
        return {"step": self.steps, "tensors": tensors}

    def told(self):
        units = [{**each, "dead": _dead(each)} for each in self.units.values()]
        for each in units:
            each.pop("active", None)
        rounds = [
            {"step": r["step"], "train_loss": r["train_loss"], "train_acc": r["train_acc"],
             "val_loss": r["sum"] / max(r["number"], 1), "val_acc": r["right"] / max(r["number"], 1)}
            for r in self.rounds
        ]  # fmt: skip
        return {
            "losses": self.losses, "rounds": rounds, "looks": self.looks, "units": units, "inputs": self.inputs,
            "images": self.images, "classes": sorted(self.classes.values()), "lr": self.lr, "dropout": sorted(self.dropout),
            "steps": self.steps, "broke": self.broke,
        }  # fmt: skip


def _dead(unit) -> float:
    """The share of units that are active in less than one row of a hundred."""
    return float((unit["active"] / max(unit["rows"], 1) < 0.01).float().mean())


def write(recorder: Recorder, folder: Path) -> None:
    """The record, and the log that a user would have kept."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.json").write_text(json.dumps(recorder.told()), encoding="utf-8")
    values = {each["step"]: each["val_loss"] for each in recorder.told()["rounds"]}
    with (folder / "metrics.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, ("step", "train_loss", "val_loss", "learning_rate", "grad_norm"))
        rows.writeheader()
        for row in recorder.rows:
            rows.writerow({**row, "val_loss": values.get(row["step"] + 1, "")})


def main() -> None:
    folder, script = Path(sys.argv[1]).resolve(), sys.argv[2]
    recorder = Recorder()
    recorder.install()
    sys.argv = [script]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit:
        pass
    except BaseException as error:
        recorder.broke = f"{type(error).__name__}: {error}"[:300]
    write(recorder, folder)


if __name__ == "__main__":
    main()
