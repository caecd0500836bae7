"""Default rules that other tools published, in our own code from their descriptions, over a record of a run.

They look more often than the tools do by default, and see modules only, as the tools do. Where a tool needs facts that a plain
PyTorch script does not declare (a softmax layer, a validation accuracy), its rule is left out: fewer alarms, fewer hits.
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

Run = dict[str, Any]


class Alarm(NamedTuple):
    """A rule that fired, and the update at which it did."""

    name: str
    at: int = 0


# Which faults an alarm names, generously: every fault of the list that a reader of the alarm's text would look for.
NAMES: dict[str, tuple[str, ...]] = {
    "vanishing gradient": ("O14", "O16", "O17"),
    "exploding tensor": ("O01", "D01", "D02", "O48", "O50"),
    "weight update ratio": ("O01", "O02", "O03", "O32", "O36", "O47"),
    "dead relu": ("O14", "O19"),
    "saturated activation": ("O15", "O17", "O20", "D03"),
    "poor initialisation": ("O14", "O15", "O16", "O19"),
    "loss not decreasing": ("O03", "O08", "O09", "O28"),
    "overfit": ("G01", "G04"),
    "overtraining": ("G04",),
    "unchanged tensor": ("O08", "O09", "O11", "O12", "O47"),
    "all zero": ("O14",),
    "class imbalance": ("D11",),
    "input images": ("D03", "D04"),
    "input range": ("D03", "D04", "D25"),
    "input type": ("D25", "C11"),
    "nan in input": ("D01", "D02"),
    "learning rate high": ("O01", "O02"),
    "learning rate low": ("O03",),
    "dropout high": ("G06",),
    "suspicious validation": ("D12", "D15"),
    "exploding gradient": ("O01", "O02", "O07", "O15", "O18", "D03"),
    "dying relu": ("O14", "O19"),
    "oscillating loss": ("O35", "O42", "O02"),
    "slow convergence": ("O03", "G02"),
    "negative loss": ("O22", "O28"),
    "numerical error": ("D01", "D02", "O01", "O50"),
    "dead node": ("O14", "O19"),
    "accuracy not increasing": ("G02",),
}


def sagemaker(run: Run) -> Iterator[Alarm]:
    """SageMaker Debugger's built-in rules with their defaults."""
    yield from _each_tensor(run, "vanishing gradient", lambda t: t.get("mean") is not None and t["mean"] < 1e-7)
    yield from _not_finite(run, "exploding tensor")
    # Two looks in a row at which the ratio of an update to its weight is outside.
    yield from _each_tensor(run, "weight update ratio", lambda t: _outside(t.get("ratio"), 1e-8, 10), times=2)
    if any(unit["kind"] in ("ReLU", "LeakyReLU") and unit["dead"] > 0.5 for unit in run["units"]):
        yield Alarm("dead relu", run["steps"])
    if any(unit["kind"] in ("Sigmoid", "Tanh") and unit["flat"] > 0.5 for unit in run["units"]):
        yield Alarm("saturated activation", run["steps"])
    yield from _not_decreasing(run["losses"], window=10, least=0.001)
    for each in run["rounds"]:
        if each["train_loss"] > 0 and (each["val_loss"] - each["train_loss"]) / each["train_loss"] > 0.1:
            yield Alarm("overfit", each["step"])
            break
    yield from _overtrained(run["rounds"])
    yield from _each_tensor(run, "unchanged tensor", lambda t: bool(t.get("unchanged")), times=3)
    yield from _each_tensor(run, "all zero", lambda t: t["zero"])
    if len(run["classes"]) > 1 and sum(run["classes"]) >= 500 and run["classes"][-1] > 10 * run["classes"][0]:
        yield Alarm("class imbalance", 0)
    if run["images"] >= 500 and run["inputs"].get("channel_mean", 0.0) > 0.2:
        yield Alarm("input images", 0)


def umlaut(run: Run) -> Iterator[Alarm]:
    """UMLAUT's checks that a plain script allows."""
    inputs, losses = run["inputs"], run["losses"]
    if _outside(inputs.get("low"), -1, math.inf) or _outside(inputs.get("high"), -math.inf, 1):
        yield Alarm("input range", 0)
    if not inputs.get("finite", True) and any(not math.isfinite(each) for each in losses):
        yield Alarm("nan in input", 0)
    if any(lr > 0.01 for lr in run["lr"]):
        yield Alarm("learning rate high", 0)
    if any(lr < 1e-7 for lr in run["lr"]):
        yield Alarm("learning rate low", 0)
    if any(p > 0.5 for p in run["dropout"]):
        yield Alarm("dropout high", 0)
    pairs = list(pairwise(run["rounds"]))
    for before, after in pairs:
        if after["val_loss"] > before["val_loss"] and after["train_loss"] <= before["train_loss"]:
            yield Alarm("overfit", after["step"])
            break
    for each in run["rounds"][3:]:
        if each["val_acc"] > 0.95 or each["val_acc"] > each["train_acc"] + 0.05:
            yield Alarm("suspicious validation", each["step"])
            break


def autotrainer(run: Run) -> Iterator[Alarm]:
    """AutoTrainer's symptoms; "accuracy is bad" is below 0.6, its default."""
    losses = run["losses"]
    accuracies = [each["train_acc"] for each in run["rounds"] if math.isfinite(each["train_acc"])]
    bad = bool(accuracies) and max(accuracies) < 0.6
    weights = [t for look in run["looks"] for t in look["tensors"]]
    broken = any(not t["weight_finite"] or not t.get("grad_finite", True) for t in weights)
    if broken and any(not math.isfinite(each) or each >= 1000 for each in losses):
        yield Alarm("exploding gradient", 0)
    for look in run["looks"]:
        norms = [t["norm"] for t in look["tensors"] if t["dims"] > 1 and t["norm"] is not None]
        if bad and len(norms) > 1 and norms[-1] > 0:
            if norms[0] / norms[-1] > 70:
                yield Alarm("exploding gradient", look["step"])
                break
            if norms[0] / norms[-1] < 1e-3 and norms[0] < 1e-4:
                yield Alarm("vanishing gradient", look["step"])
                break
    shares = [t["grad_zero"] for t in weights if t["dims"] > 1 and "grad_zero" in t]
    if bad and shares and max(shares) >= 0.7:
        yield Alarm("dying relu", 0)
    jumps = [abs(b - a) for a, b in pairwise(accuracies) if b < a]
    if accuracies and sum(jump >= 0.03 for jump in jumps) >= max(1, 0.2 * len(accuracies)):
        yield Alarm("oscillating loss", run["steps"])
    rises = [b - a for a, b in pairwise(accuracies)]
    if bad and (not rises or max(rises) < 0.01):
        yield Alarm("slow convergence", run["steps"])
    if any(each < 0 for each in losses):
        yield Alarm("negative loss", 0)


def deepdiagnosis(run: Run) -> Iterator[Alarm]:
    """DeepDiagnosis' symptoms; its unchanged tensor is left out, since frozen layers are told to it by hand."""
    yield from _not_finite(run, "numerical error")
    if any(unit["kind"] in ("Sigmoid", "Tanh") and unit["extreme"] > 0.5 for unit in run["units"]):
        yield Alarm("saturated activation", run["steps"])
    if any(unit["kind"] == "ReLU" and unit["low"] >= 0.7 for unit in run["units"]):
        yield Alarm("dead node", run["steps"])
    losses = run["losses"]
    for at in range(4, len(losses)):
        if len(set(losses[at - 4 : at + 1])) == 1:
            yield Alarm("loss not decreasing", at)
            break
    accuracies = [each["train_acc"] for each in run["rounds"]]
    if any(len(set(accuracies[at - 19 : at + 1])) == 1 for at in range(19, len(accuracies))):
        yield Alarm("accuracy not increasing", run["steps"])
    yield from _each_tensor(
        run, "vanishing gradient", lambda t: t["dims"] > 1 and t.get("mean") is not None and t["mean"] < 1e-7
    )


RULES: dict[str, Callable[[Run], Iterator[Alarm]]] = {
    "SageMaker Debugger's defaults": sagemaker,
    "UMLAUT's defaults": umlaut,
    "AutoTrainer's defaults": autotrainer,
    "DeepDiagnosis' defaults": deepdiagnosis,
}


def alarms(run: Run) -> dict[str, list[str]]:
    """The alarms of each rule set, in the order in which they fired."""
    return {
        who: list(dict.fromkeys(alarm.name for alarm in sorted(rules(run), key=lambda alarm: alarm.at)))
        for who, rules in RULES.items()
    }


def _outside(value: float | None, low: float, high: float) -> bool:
    return value is not None and not low <= value <= high


def _each_tensor(run: Run, name: str, holds: Callable[[dict], bool], *, times: int = 1) -> Iterator[Alarm]:
    """Fires at the first look at which it has held for any tensor so many looks in a row."""
    rows: dict[str, int] = {}
    for look in run["looks"]:
        for tensor in look["tensors"]:
            rows[tensor["name"]] = rows.get(tensor["name"], 0) + 1 if holds(tensor) else 0
            if rows[tensor["name"]] >= times:
                yield Alarm(name, look["step"])
                return


def _not_finite(run: Run, name: str) -> Iterator[Alarm]:
    for at, loss in enumerate(run["losses"]):
        if not math.isfinite(loss):
            yield Alarm(name, at)
            return
    yield from _each_tensor(run, name, lambda t: not t["weight_finite"] or not t.get("grad_finite", True))


def _not_decreasing(losses: list[float], *, window: int, least: float) -> Iterator[Alarm]:
    """The loss fell by less than `least` of itself over the window."""
    for at in range(window, len(losses), window):
        before, now = losses[at - window], losses[at]
        if math.isfinite(before) and before - now < least * abs(before):
            yield Alarm("loss not decreasing", at)
            return


def _overtrained(rounds: list[dict]) -> Iterator[Alarm]:
    """The training loss did not improve by 0.01 for five checks, or the validation loss for ten."""
    for name, patience in (("train_loss", 5), ("val_loss", 10)):
        best, waited = math.inf, 0
        for each in rounds:
            waited = 0 if each[name] < best - 0.01 else waited + 1
            best = min(best, each[name])
            if waited >= patience:
                yield Alarm("overtraining", each["step"])
                return
