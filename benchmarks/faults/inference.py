"""Faults of training against inference: modes, running statistics, dropout, class order, weights that are not used."""

from benchmarks.faults._base import Edit, Fault
from benchmarks.faults.generalisation import off_the_rows

_EVAL_MLP = Edit("    model.eval()\n    total, correct, count", "    total, correct, count")
# The mode is set inside the loop, around a batch that is scored: the same thing in another place.
_TWIN_MLP = (
    Edit(
        "    model.eval()\n    total, correct, count",
        "    was = model.training\n    model.train(False)\n    total, correct, count",
    ),
    Edit(
        "    return total / count, correct / count\n",
        "    model.train(was)\n    return total / count, correct / count\n",
    ),
)
_EVAL_CNN = Edit("    model.eval()\n    nll, right", "    nll, right")

_BOUNDED = (
    Edit("self.fc1 = nn.Linear(64, hidden)", "self.fc1 = nn.utils.spectral_norm(nn.Linear(64, hidden))"),
    Edit("self.fc2 = nn.Linear(hidden, hidden)", "self.fc2 = nn.utils.spectral_norm(nn.Linear(hidden, hidden))"),
)


def _served(weights: str) -> Edit:
    """Another model with these weights is evaluated."""
    return Edit(
        "    train_s = time.perf_counter() - start\n",
        "    train_s = time.perf_counter() - start\n"
        f"    served = DigitsMLP()\n    served.load_state_dict({weights}, strict=False)\n"
        "    val_loss, val_acc = evaluate(served, val_loader, criterion)\n",
    )


# Faults of the list that no program of this bench has, and why.
NOT_BUILT = {
    "T14": "a model trained on true beginnings that is run on its own answers: every generator of text does that in health, and a run "
    "shows no free-running error that a model trained otherwise would not have; only a second training tells",
}

FAULTS: tuple[Fault, ...] = (
    Fault(
        id="T01",
        kind="dropout-in-evaluation",
        layer="inference",
        edits={
            "digits_mlp": (
                _EVAL_MLP,
                Edit("nn.Dropout(0.2)", "nn.Dropout(<<P>>)"),
                Edit("nn.Dropout(0.1)", "nn.Dropout(<<P>>)"),
            ),
        },
        twin={"digits_mlp": _TWIN_MLP},
        severities={"mild": {"P": "0.3"}, "clear": {"P": "0.5"}, "fatal": {"P": "0.7"}},
        accept=("training-mode-evaluation",),
        fix="call model.eval() before the evaluation",
        located=False,
    ),
    Fault(
        id="T02",
        kind="batch-norm-in-training-mode-in-evaluation",
        layer="inference",
        edits={
            "digits_cnn_functional": (
                _EVAL_CNN,
                Edit("batch_size=200)", "batch_size=<<ROWS>>)"),
            ),
        },
        severities={"mild": {"ROWS": "12"}, "clear": {"ROWS": "6"}, "fatal": {"ROWS": "2"}},
        accept=("training-mode-evaluation",),
        fix="call model.eval() before the evaluation",
        located=False,
    ),
    Fault(
        id="T03",
        kind="never-back-to-training",
        layer="inference",
        edits={
            "digits_cnn": (
                Edit(
                    "    for epoch in range(EPOCHS):\n        model.train()\n",
                    "    model.train()\n    for epoch in range(EPOCHS):\n",
                ),
            ),
            "digits_cnn_functional": (
                Edit(
                    "    for epoch in range(1, NUM_EPOCHS + 1):\n        model.train()\n",
                    "    model.train()\n    for epoch in range(1, NUM_EPOCHS + 1):\n",
                ),
            ),
        },
        accept=("stuck-in-evaluation",),
        fix="call model.train() at the beginning of each epoch",
        located=False,
    ),
    Fault(
        id="T04",
        kind="tiny-batch-statistics",
        layer="inference",
        edits={
            "digits_cnn_functional": (
                Edit("NUM_EPOCHS = 12", "NUM_EPOCHS = 2"),
                Edit("batch_size=48, shuffle=True)", "batch_size=<<ROWS>>, shuffle=True, drop_last=True)"),
                Edit("lr=0.02", "lr=0.002"),  # of so small batches
                Edit("        x = F.relu(self.fc1(x))", "        x = F.relu(self.n3(self.fc1(x)))"),
                Edit(
                    "        self.fc2 = nn.Linear(48, 10)",
                    "        self.n3 = nn.BatchNorm1d(48)\n        self.fc2 = nn.Linear(48, 10)",
                ),
            ),
        },
        twin={
            "digits_cnn_functional": (
                Edit("NUM_EPOCHS = 12", "NUM_EPOCHS = 8"),
                Edit("batch_size=48, shuffle=True)", "batch_size=8, shuffle=True, drop_last=True)"),
                Edit("nn.BatchNorm2d(12)", "nn.GroupNorm(4, 12)"),
                Edit("nn.BatchNorm2d(24)", "nn.GroupNorm(4, 24)"),
                Edit("lr=0.02", "lr=0.01"),
            ),
        },
        severities={"mild": {"ROWS": "4"}, "clear": {"ROWS": "2"}},
        accept=("tiny-batch-statistics",),
        fix="larger batches, or GroupNorm",
        located=False,
    ),
    Fault(
        id="T05",
        kind="frozen-statistics",
        layer="inference",
        edits={
            "digits_cnn_functional": (
                Edit("nn.BatchNorm2d(12)", "nn.BatchNorm2d(12, momentum=<<M>>)"),
                Edit("nn.BatchNorm2d(24)", "nn.BatchNorm2d(24, momentum=<<M>>)"),
            ),
            "finetune_digits": (
                Edit("nn.BatchNorm2d(16)", "nn.BatchNorm2d(16, momentum=<<M>>)"),
                Edit("nn.BatchNorm2d(32)", "nn.BatchNorm2d(32, momentum=<<M>>)"),
            ),
        },
        twin={
            "digits_cnn_functional": (
                Edit("nn.BatchNorm2d(12)", "nn.BatchNorm2d(12, momentum=0.05)"),
                Edit("nn.BatchNorm2d(24)", "nn.BatchNorm2d(24, momentum=0.05)"),
            ),
        },
        severities={"mild": {"M": "1e-4"}, "clear": {"M": "0.0"}},
        accept=("frozen-statistics",),
        fix="the usual momentum of 0.1",
    ),
    Fault(
        id="T06",
        kind="validation-updates-statistics",
        layer="inference",
        edits={
            "digits_cnn_functional": (
                Edit("    model.eval()\n    nll, right", "    model.train()\n    nll, right"),
                Edit("batch_size=200)", "batch_size=8)"),
            ),
        },
        accept=("training-mode-evaluation",),
        fix="evaluate in evaluation mode",
    ),
    Fault(
        id="T10",
        kind="permuted-classes",
        layer="inference",
        edits={
            "digits_mlp": (
                Edit(
                    "    mean = x_train.mean()\n",
                    "    order = sorted(set(y_val.tolist()), key=lambda name: (name * 7) % 10)\n"
                    "    y_val = np.array([order.index(name) for name in y_val])\n    mean = x_train.mean()\n",
                ),
            ),
        },
        twin={
            "digits_mlp": (
                Edit(
                    "    mean = x_train.mean()\n",
                    "    order = sorted(set(y_val.tolist()), key=lambda name: (name * 7) % 10)\n"
                    "    y_val = np.array([order.index(name) for name in y_val])\n"
                    "    y_train = np.array([order.index(name) for name in y_train])\n    mean = x_train.mean()\n",
                ),
            ),
        },
        accept=("permuted-classes",),
        fix="one mapping of classes for training and validation",
    ),
    Fault(
        id="T12",
        kind="unready-spectral-norm",
        layer="inference",
        edits={"digits_mlp": (*_BOUNDED, _served("dict(model.named_parameters())"))},
        twin={"digits_mlp": (*_BOUNDED, _served("model.state_dict()"))},
        mended={"digits_mlp": (*_BOUNDED, _served("model.state_dict()"))},
        accept=("unready-spectral-norm",),
        fix="load the buffers too: the estimate of the norm is in them",
    ),
    Fault(
        id="T13",
        kind="best-weights-unused",
        layer="inference",
        edits={
            "digits_mlp": (
                Edit("import json\n", "import copy\nimport json\n"),
                Edit("LEARNING_RATE = 2e-3", "LEARNING_RATE = 2e-2"),
                Edit("EPOCHS = 20", "EPOCHS = 40"),
                Edit("nn.Dropout(0.2)", "nn.Dropout(0.0)"),
                Edit("nn.Dropout(0.1)", "nn.Dropout(0.0)"),
                Edit(
                    "    start = time.perf_counter()\n",
                    "    best_loss, best_state = float('inf'), None\n    start = time.perf_counter()\n",
                ),
                Edit(
                    "    train_s = time.perf_counter() - start\n",
                    "        if val_loss < best_loss:\n            best_loss, best_state = val_loss, copy.deepcopy(model.state_dict())\n"
                    "    val_loss, val_acc = evaluate(model, val_loader, criterion)\n    train_s = time.perf_counter() - start\n",
                ),
            ),
        },
        twin={
            "digits_mlp": (
                Edit("import json\n", "import copy\nimport json\n"),
                Edit(
                    "    start = time.perf_counter()\n",
                    "    best_loss, best_state = float('inf'), None\n    start = time.perf_counter()\n",
                ),
                Edit(
                    "    train_s = time.perf_counter() - start\n",
                    "        if val_loss < best_loss:\n            best_loss, best_state = val_loss, copy.deepcopy(model.state_dict())\n"
                    "    model.load_state_dict(best_state)\n    val_loss, val_acc = evaluate(model, val_loader, criterion)\n"
                    "    train_s = time.perf_counter() - start\n",
                ),
            ),
        },
        mended={
            "digits_mlp": (
                Edit("import json\n", "import copy\nimport json\n"),
                Edit("LEARNING_RATE = 2e-3", "LEARNING_RATE = 2e-2"),
                Edit("EPOCHS = 20", "EPOCHS = 40"),
                Edit("nn.Dropout(0.2)", "nn.Dropout(0.0)"),
                Edit("nn.Dropout(0.1)", "nn.Dropout(0.0)"),
                Edit(
                    "    start = time.perf_counter()\n",
                    "    best_loss, best_state = float('inf'), None\n    start = time.perf_counter()\n",
                ),
                Edit(
                    "    train_s = time.perf_counter() - start\n",
                    "        if val_loss < best_loss:\n            best_loss, best_state = val_loss, copy.deepcopy(model.state_dict())\n"
                    "    model.load_state_dict(best_state)\n    val_loss, val_acc = evaluate(model, val_loader, criterion)\n"
                    "    train_s = time.perf_counter() - start\n",
                ),
            ),
        },
        accept=("unused-best-weights",),
        fix="load the best state after the loop",
        located=False,
    ),
    Fault(
        id="D18",
        kind="dropped-validation",
        layer="data",
        edits={
            "digits_mlp": (
                Edit("DataLoader(val_set, batch_size=256)", "DataLoader(val_set, batch_size=<<ROWS>>, drop_last=True)"),
            ),
        },
        twin={
            "digits_mlp": (
                Edit("DataLoader(val_set, batch_size=256)", "DataLoader(val_set, batch_size=225, drop_last=True)"),
            )
        },
        severities={"clear": {"ROWS": "256"}, "mild": {"ROWS": "160"}},
        measured={"digits_mlp": off_the_rows("val_loader.dataset")},
        accept=("dropped-validation",),
        metric="val_off",
        fix="drop_last=False for validation",
        note="the score is of fewer rows; the model is as good as before",
    ),
    Fault(
        id="D21",
        kind="augmented-validation",
        layer="generalisation",
        edits={
            "digits_cnn_functional": (
                Edit("        if self.train and np.random.rand() < 0.5:", "        if np.random.rand() < <<P>>:"),
                Edit("np.random.randint(-1, 2)", "np.random.randint(-2, 3)"),
            ),
        },
        twin={
            "digits_cnn_functional": (
                Edit("if self.train and np.random.rand() < 0.5:", "if self.train and np.random.rand() < 0.6:"),
            ),
        },
        severities={"mild": {"P": "0.5"}, "clear": {"P": "0.9"}},
        accept=("augmented-evaluation",),
        fix="no augmentation for validation",
    ),
    Fault(
        id="P09",
        kind="other-padding-side",
        layer="deployment",
        edits={
            "chars_transformer": (
                Edit(
                    "def evaluate(model, loader, criterion):\n",
                    "def serve(texts):\n"
                    "    ids = torch.full((len(texts), LENGTH), PAD)\n"
                    "    for row, text in enumerate(texts):\n"
                    "        ids[row, LENGTH - len(text) :] = torch.tensor([ALPHABET.index(c) for c in text])\n"
                    "    return ids[:, :-1], ids[:, 1:]\n\n\n"
                    "def evaluate(model, loader, criterion):\n",
                ),
                Edit(
                    "DataLoader(val_texts, batch_size=100, collate_fn=collate)",
                    "DataLoader(val_texts, batch_size=100, collate_fn=serve)",
                ),
            ),
        },
        twin={
            "chars_transformer": (
                Edit(
                    "def evaluate(model, loader, criterion):\n",
                    "def serve(texts):\n"
                    "    ids = torch.full((len(texts), LENGTH), PAD)\n"
                    "    for row, text in enumerate(texts):\n"
                    "        ids[row, : len(text)] = torch.tensor([ALPHABET.index(c) for c in text])\n"
                    "    return ids[:, :-1], ids[:, 1:]\n\n\n"
                    "def evaluate(model, loader, criterion):\n",
                ),
                Edit(
                    "DataLoader(val_texts, batch_size=100, collate_fn=collate)",
                    "DataLoader(val_texts, batch_size=100, collate_fn=serve)",
                ),
            ),
        },
        accept=("other-padding-side",),
        fix="pad on the side that the model was trained with",
    ),
)
