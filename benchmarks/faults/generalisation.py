"""Faults of generalisation that lie in the choice and the measuring: directions, axes, last batches, test sets, seeds."""

from benchmarks.faults._base import Edit, Fault

_COPY = Edit("import json\n", "import copy\nimport json\n")
_START = "    start = time.perf_counter()\n"
_END = "    train_s = time.perf_counter() - start\n"


def _best(first: str, sign: str) -> tuple[Edit, ...]:
    """Keeps the weights of the best round, judged by this comparison, and goes on with them."""
    return (
        _COPY,
        Edit(_START, f'    best_loss, best_state = float("{first}"), None\n{_START}'),
        Edit(
            _END,
            f"        if val_loss {sign} best_loss:\n"
            "            best_loss, best_state = val_loss, copy.deepcopy(model.state_dict())\n"
            "    model.load_state_dict(best_state)\n"
            f"    val_loss, val_acc = evaluate(model, val_loader, criterion)\n{_END}",
        ),
    )


FAULTS: tuple[Fault, ...] = (
    Fault(
        id="G05",
        kind="wrong-best-direction",
        layer="generalisation",
        edits={"digits_mlp": _best("-inf", ">")},
        twin={"digits_mlp": _best("inf", "<")},
        accept=("wrong-best-direction",),
        fix="a loss is better when it is smaller",
    ),
    Fault(
        id="G12",
        kind="wrong-metric-axis",
        layer="generalisation",
        edits={
            "digits_mlp": (
                Edit(
                    "            correct += (logits.argmax(dim=1) == labels).sum().item()\n",
                    "            correct += (logits.argmax(dim=1) == labels.unsqueeze(1)).float().mean().item() * len(labels)\n",
                ),
            ),
        },
        twin={
            "digits_mlp": (
                Edit(
                    "            correct += (logits.argmax(dim=1) == labels).sum().item()\n",
                    "            correct += (logits.argmax(dim=1, keepdim=True) == labels.unsqueeze(1)).sum().item()\n",
                ),
            ),
        },
        accept=("wrong-metric-axis",),
        metric="val_acc",
        better="higher",
        fix="compare choices and labels of one shape",
    ),
    Fault(
        id="G13",
        kind="last-batch-metric",
        layer="generalisation",
        edits={
            "digits_mlp": (
                Edit("DataLoader(val_set, batch_size=256)", "DataLoader(val_set, batch_size=32)"),
                Edit(
                    "            total += criterion(logits, labels).item() * len(labels)\n",
                    "            total = criterion(logits, labels).item()\n",
                ),
                Edit(
                    "            correct += (logits.argmax(dim=1) == labels).sum().item()\n            count += len(labels)\n",
                    "            correct = (logits.argmax(dim=1) == labels).float().mean().item()\n            count = 1\n",
                ),
            ),
        },
        twin={"digits_mlp": (Edit("DataLoader(val_set, batch_size=256)", "DataLoader(val_set, batch_size=32)"),)},
        accept=("last-batch-metric",),
        fix="add up over all batches",
        note="the number is another one; the model is as good as before",
    ),
)
