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


def off_the_rows(rows: str) -> tuple[Edit, ...]:
    """How far the printed loss is from the model's loss on all rows that were held out."""
    return (
        Edit(
            _END,
            f"{_END}    model.eval()\n    with torch.no_grad():\n        every, answers = {rows}.tensors\n"
            "        val_off = abs(val_loss - criterion(model(every), answers).item())\n",
        ),
        Edit('"val_acc": val_acc,', '"val_off": val_off, "val_acc": val_acc,'),
    )


# A third part of the data: rows to choose by, and rows to report.
_HELD_OUT = (
    _COPY,
    Edit(
        "    m, s = x_tr.mean(), x_tr.std()\n",
        "    x_tr, x_va, y_tr, y_va = train_test_split(x_tr, y_tr, test_size=0.2, random_state=SEED)\n    m, s = x_tr.mean(), x_tr.std()\n",
    ),
    Edit(
        "    x_te = ((x_te - m) / s).astype(np.float32)\n",
        "    x_va, x_te = ((x_va - m) / s).astype(np.float32), ((x_te - m) / s).astype(np.float32)\n"
        "    val_loader = DataLoader(Digits(x_va, y_va, train=False), batch_size=200)\n",
    ),
    Edit("    tic = time.perf_counter()\n", "    best_acc, best_state = 0.0, None\n    tic = time.perf_counter()\n"),
    Edit(
        "        val_loss, val_acc = test(model, test_loader)\n",
        "        val_loss, val_acc = test(model, val_loader)\n",
    ),
)
_CHOSEN = Edit(
    "    toc = time.perf_counter()\n",
    "    toc = time.perf_counter()\n    model.load_state_dict(best_state)\n    val_loss, val_acc = test(model, test_loader)\n",
)

# How many predicted numbers are exactly the true ones: none.
_HITS = (
    Edit("    predictions, truths = [], []\n", "    predictions, truths, hits = [], [], 0\n"),
    Edit(
        "            predictions.append(model(x))\n",
        "            prediction = model(x)\n            hits += (prediction == y).sum().item()\n"
        "            predictions.append(prediction)\n",
    ),
)


def _kept_by(score: str) -> tuple[Edit, ...]:
    """Goes on with the weights of the round whose score was best."""
    return (
        _COPY,
        Edit("    return mse, 1 - mse / truths.var(unbiased=False).item()\n", f"    return mse, {score}\n"),
        Edit("EPOCHS = 30", "EPOCHS = 20"),
        Edit(_START, f'    best_score, best_state = float("-inf"), None\n{_START}'),
        Edit(
            _END,
            "        if val_r2 > best_score:\n            best_score, best_state = val_r2, copy.deepcopy(model.state_dict())\n"
            f"    model.load_state_dict(best_state)\n    val_loss, val_r2 = evaluate(model, val_loader, criterion)\n{_END}",
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
        mended={"digits_mlp": (Edit("DataLoader(val_set, batch_size=256)", "DataLoader(val_set, batch_size=32)"),)},
        measured={"digits_mlp": off_the_rows("val_loader.dataset")},
        accept=("last-batch-metric",),
        metric="val_off",
        fix="add up over all batches",
        note="the number is another one; the model is as good as before",
    ),
    Fault(
        id="G11",
        kind="selection-on-test",
        layer="generalisation",
        edits={
            "digits_cnn_functional": (
                *_HELD_OUT,
                Edit(
                    '        print(f"Epoch {epoch}/',
                    "        test_loss, test_acc = test(model, test_loader)\n"
                    "        if test_acc > best_acc:\n"
                    "            best_acc, best_state = test_acc, copy.deepcopy(model.state_dict())\n"
                    '        print(f"Epoch {epoch}/',
                ),
                _CHOSEN,
            ),
        },
        twin={
            "digits_cnn_functional": (
                *_HELD_OUT,
                Edit(
                    '        print(f"Epoch {epoch}/',
                    "        if val_acc > best_acc:\n"
                    "            best_acc, best_state = val_acc, copy.deepcopy(model.state_dict())\n"
                    '        print(f"Epoch {epoch}/',
                ),
                _CHOSEN,
            ),
        },
        mended={
            "digits_cnn_functional": (
                *_HELD_OUT,
                Edit(
                    '        print(f"Epoch {epoch}/',
                    "        if val_acc > best_acc:\n"
                    "            best_acc, best_state = val_acc, copy.deepcopy(model.state_dict())\n"
                    '        print(f"Epoch {epoch}/',
                ),
                _CHOSEN,
            ),
        },
        accept=("selection-on-test",),
        metric="val_acc",
        better="higher",
        flatters=True,
        fix="choose by the validation part",
        note="the printed score gets better by some tenths of a point, the one on new rows does not",
    ),
    Fault(
        id="G14",
        kind="exact-hits-of-numbers",
        layer="generalisation",
        edits={"tabular_regression": (*_kept_by("hits / len(truths)"), *_HITS)},
        twin={"tabular_regression": _kept_by("1 - mse / truths.var(unbiased=False).item()")},
        mended={"tabular_regression": _kept_by("1 - mse / truths.var(unbiased=False).item()")},
        accept=("exact-hits-of-numbers",),
        fix="judge a regression by an error or by R²",
    ),
    Fault(
        id="G16",
        kind="none",
        layer="none",
        edits={
            "digits_mlp": (Edit("nn.Dropout(0.2)", "nn.Dropout(0.17)"), Edit("hidden=96", "hidden=100")),
            "digits_cnn": (Edit("lr=1e-3", "lr=1.1e-3"),),
        },
        fix="none: the change is within the noise of seeds",
        located=False,
        note="a trap: nothing is wrong, and an experiment that calls this change a gain has failed",
    ),
)
