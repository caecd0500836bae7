"""Faults of the data: values, labels, splits, order, coverage, and what comes from elsewhere."""

from ._base import Edit, Fault

# Anchors in the hosts.
MLP_SETS = """    train_set = TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train))
"""
MLP_LOADER = "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True)\n"
MLP_SCALED = """    x_train = (x_train - mean) / std
    x_val = (x_val - mean) / std
"""
FUNCTIONAL_SETS = "    y_tr = torch.tensor(y_tr)\n"
FUNCTIONAL_LOADER = "    train_dl = DataLoader(TensorDataset(X_tr, y_tr), batch_size=batch_size, shuffle=True)\n"
FUNCTIONAL_VAL = "    X_va = torch.tensor((X_va - mu) / sigma, dtype=torch.float32)\n"
FUNCTIONAL_TRAIN = "    X_tr = torch.tensor((X_tr - mu) / sigma, dtype=torch.float32)\n"
CNN_SPLIT = "    train_set = DigitImages(train_x, train_y, augment=True)\n"
CNN_LOADER = "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True)\n"
CNN_ITEM = """        image = self.images[index]
        if self.augment:
"""
TRAINER_TRAIN = "    train_data = TensorDataset(x[train_idx], y[train_idx])\n"
TRAINER_VAL = "    val_data = TensorDataset(x[val_idx], y[val_idx])\n"
TABULAR_SETS = "    train_set = TensorDataset(torch.tensor(x_train).float(), torch.tensor(y_train).float())\n"
TABULAR_SCALED = """    x_train = (x_train - x_mean) / x_std
    x_val = (x_val - x_mean) / x_std
"""
HOUSES_SPLIT = "    x_scaler = StandardScaler().fit(x_train)\n"
HOUSES_VAL = "    val_x = torch.tensor(x_scaler.transform(x_val), dtype=torch.float32)\n"
MLP_END = "    train_s = time.perf_counter() - start\n"
MLP_RESULT = '        "val_acc": val_acc,\n'
CNN_END = "    train_s = time.perf_counter() - begin\n"
WAVES_LOADER = "    train_loader = DataLoader(TensorDataset(x_train, y_train), batch_size=32, shuffle=True)\n"

# Is it an eight? One in thirty is, and noise hides it.
RARE_EIGHTS = (
    Edit(
        "    images = images.astype(np.float32)\n",
        "    eights = labels == 8\n"
        "    kept = ~eights | (np.random.rand(len(labels)) < 0.35)\n"
        "    images = (images[kept] + np.random.normal(0, 5, images[kept].shape)).astype(np.float32)\n"
        "    labels = eights[kept].astype(np.int64)\n",
    ),
    Edit("classes=10", "classes=2"),
    Edit("EPOCHS = 20", "EPOCHS = 5"),
)
# Each page was scanned eight times, with a little noise.
SCANS = Edit(
    "    images = images.astype(np.float32)\n",
    "    pages = np.random.choice(len(images), 160, replace=False).repeat(8)\n"
    "    images = (images[pages] + np.random.normal(0, 0.4, (len(pages), 64))).astype(np.float32)\n"
    "    labels = labels[pages]\n",
)
MLP_SPLIT = """    x_train, x_val, y_train, y_val = train_test_split(
        images, labels, test_size=0.25, random_state=SEED, stratify=labels
    )
"""
BY_PAGE = Edit(
    MLP_SPLIT,
    "    page, first = np.unique(pages, return_index=True)\n"
    "    _, other = train_test_split(page, test_size=0.25, random_state=SEED, stratify=labels[first])\n"
    "    held = np.isin(pages, other)\n"
    "    x_train, x_val, y_train, y_val = images[~held], images[held], labels[~held], labels[held]\n",
)
# A walk, and how it goes on: what comes in the next days is in nobody's last days.
WALK = Edit(
    "    features, progression = load_diabetes(return_X_y=True, scaled=False)\n",
    "    level = np.random.normal(size=629).cumsum()\n"
    "    features = np.lib.stride_tricks.sliding_window_view(level, 10)[:600]\n"
    "    progression = level[29:629] - level[9:609]\n",
)
TABULAR_SPLIT = (
    "    x_train, x_val, y_train, y_val = train_test_split(features, progression, test_size=0.25, random_state=SEED)\n"
)
ONE_SCALE = Edit(
    "    x_mean, x_std = x_train.mean(axis=0), x_train.std(axis=0)\n",
    "    x_mean, x_std = x_train.mean(), x_train.std()\n",
)
BY_TIME = Edit(
    TABULAR_SPLIT,
    "    x_train, x_val, y_train, y_val = features[:450], features[470:], progression[:450], progression[470:]\n",
)
REMEMBERS = (Edit("hidden=16", "hidden=128"), Edit("EPOCHS = 30", "EPOCHS = 120"), Edit("step_size=10", "step_size=60"))


OWN_SEED = "torch.initial_seed() % 2**32"
# Waves that are drawn when they are asked for, from NumPy's own generator.
WAVES_DRAWN = Edit(
    "def evaluate(model, loader, loss_fn):\n",
    "class DrawnWaves(torch.utils.data.Dataset):\n    def __len__(self):\n        return 480\n\n"
    "    def __getitem__(self, index):\n"
    "        waves, kinds = make_waves(1, np.random.default_rng(np.random.randint(2**31)))\n"
    "        return waves[0], kinds[0]\n\n\ndef evaluate(model, loader, loss_fn):\n",
)


def _drawn(seed: str) -> Edit:
    """Two workers, each with this seed."""
    return Edit(
        WAVES_LOADER,
        "    train_loader = DataLoader(\n        DrawnWaves(), batch_size=32, shuffle=True, num_workers=2,\n"
        f"        worker_init_fn=lambda worker: np.random.seed({seed}),\n    )\n",
    )


def _interval(result: str, rows: str, end: str) -> tuple[Edit, ...]:
    """Half of the printed accuracy's 95 % interval (Wilson): how far it may be from the truth by the number of rows alone."""
    return (
        Edit(
            end,
            f"{end}    rows = {rows}\n"
            "    val_interval = 1.96 * (val_acc * (1 - val_acc) / rows + 0.9604 / rows**2) ** 0.5 / (1 + 3.8416 / rows)\n",
        ),
        Edit(result, f'"val_interval": val_interval, {result}'),
    )


# Faults of the list that no program of this bench has, and why.
NOT_BUILT = {
    "D29": "a stale cache is a file older than the program that reads it, and a program of the bench begins in an empty folder; what "
    "shows in a run is that training and evaluation are prepared in different ways, which D05 and T08 have",
}

FAULTS: tuple[Fault, ...] = (
    Fault(
        id="D01",
        kind="non-finite-sample",
        layer="data",
        edits={
            "digits_mlp": (Edit(MLP_SETS, "    x_train[77, 20] = np.nan\n" + MLP_SETS),),
            "tabular_regression": (Edit(TABULAR_SETS, "    x_train[50, 3] = np.nan\n" + TABULAR_SETS),),
            "sequences_gru": (Edit(WAVES_LOADER, '    x_train[300, 5] = float("nan")\n' + WAVES_LOADER),),
        },
        twin={"digits_mlp": (Edit(MLP_SETS, "    x_train[77, 20] = np.nan_to_num(x_train[77, 20])\n" + MLP_SETS),)},
        accept=("non-finite-sample",),
        fix="drop or impute the sample with NaN",
    ),
    Fault(
        id="D02",
        kind="non-finite-transform",
        layer="data",
        edits={
            "digits_cnn": (
                Edit(CNN_ITEM, "        image = np.log(self.images[index] + <<OFFSET>>)\n        if self.augment:\n"),
                Edit(
                    "    images = (digits.images / 16.0).astype(np.float32)\n",
                    "    images = (digits.images / 16.0 + 0.02).astype(np.float32)\n    images[200, 3, 3] = 0\n",
                ),
            ),
        },
        twin={
            "digits_cnn": (
                Edit(CNN_ITEM, "        image = np.log(self.images[index] + 0.05)\n        if self.augment:\n"),
            )
        },
        severities={"clear": {"OFFSET": "0.0"}},
        accept=("non-finite-sample",),
        fix="guard the logarithm against zero",
    ),
    Fault(
        id="D03",
        kind="unscaled-features",
        layer="data",
        edits={
            "digits_mlp": (
                Edit(
                    MLP_SCALED, "    x_train = (x_train - mean) * <<SCALE>>\n    x_val = (x_val - mean) * <<SCALE>>\n"
                ),
            ),
            "digits_mlp_functional": (
                Edit(FUNCTIONAL_TRAIN, "    X_tr = torch.tensor(X_tr * <<SCALE>>, dtype=torch.float32)\n"),
                Edit(FUNCTIONAL_VAL, "    X_va = torch.tensor(X_va * <<SCALE>>, dtype=torch.float32)\n"),
            ),
        },
        severities={"mild": {"SCALE": "30"}, "clear": {"SCALE": "150"}, "fatal": {"SCALE": "3000"}},
        accept=("unscaled-features",),
        fix="standardise the inputs",
    ),
    Fault(
        id="D04",
        kind="double-normalisation",
        layer="data",
        edits={
            "digits_mlp": (
                Edit(MLP_SCALED, "    x_train = x_train / 16.0 / 16.0\n    x_val = x_val / 16.0 / 16.0\n"),
                Edit("LEARNING_RATE = 2e-3", "LEARNING_RATE = 4e-4"),
            ),
            "digits_mlp_functional": (
                Edit(FUNCTIONAL_TRAIN, "    X_tr = torch.tensor(X_tr / 16 / 16, dtype=torch.float32)\n"),
                Edit(FUNCTIONAL_VAL, "    X_va = torch.tensor(X_va / 16 / 16, dtype=torch.float32)\n"),
            ),
        },
        twin={
            "digits_mlp": (Edit(MLP_SCALED, "    x_train = x_train / 16.0\n    x_val = x_val / 16.0\n"),),
            "digits_mlp_functional": (
                Edit(FUNCTIONAL_TRAIN, "    X_tr = torch.tensor(X_tr / 16, dtype=torch.float32)\n"),
                Edit(FUNCTIONAL_VAL, "    X_va = torch.tensor(X_va / 16, dtype=torch.float32)\n"),
            ),
        },
        accept=("double-normalisation",),
        fix="divide once",
    ),
    Fault(
        id="D05",
        kind="split-scaling",
        layer="data",
        edits={
            "digits_mlp": (Edit(MLP_SCALED, "    x_train = (x_train - mean) / std\n"),),
            "tabular_regression": (Edit(TABULAR_SCALED, "    x_train = (x_train - x_mean) / x_std\n"),),
            "tabular_regression_trainer": (Edit(HOUSES_VAL, "    val_x = torch.tensor(x_val, dtype=torch.float32)\n"),),
        },
        accept=("split-scaling",),
        fix="scale validation with the training statistics",
    ),
    Fault(
        id="D06",
        kind="misaligned-labels",
        layer="data",
        edits={
            "digits_mlp": (Edit(MLP_SETS, "    y_train = np.roll(y_train, 1)\n" + MLP_SETS),),
            "digits_cnn": (Edit(CNN_SPLIT, "    train_y = train_y[1:].tolist() + [train_y[0]]\n" + CNN_SPLIT),),
            "digits_mlp_trainer": (
                Edit(TRAINER_TRAIN, "    train_data = TensorDataset(x[train_idx], y[np.sort(train_idx)])\n"),
            ),
        },
        accept=("misaligned-labels",),
        metric="val_acc",
        better="higher",
        fix="index inputs and labels together",
    ),
    Fault(
        id="D07",
        kind="noisy-labels",
        layer="data",
        edits={
            "digits_mlp": (
                Edit(
                    MLP_SETS,
                    "    flip = np.random.rand(len(y_train)) < <<SHARE>>\n"
                    "    y_train[flip] = np.random.randint(0, 10, flip.sum())\n" + MLP_SETS,
                ),
                # Dropout withstands it: then the noise does little harm.
                Edit("nn.Dropout(0.2)", "nn.Dropout(0.0)"),
                Edit("nn.Dropout(0.1)", "nn.Dropout(0.0)"),
                Edit("EPOCHS = 20", "EPOCHS = 60"),
            ),
            "digits_mlp_trainer": (
                Edit(
                    TRAINER_TRAIN,
                    "    noise = torch.rand(len(y)) < <<SHARE>>\n"
                    "    noisy = torch.where(noise, torch.randint(0, 10, y.shape), y)\n"
                    "    train_data = TensorDataset(x[train_idx], noisy[train_idx])\n",
                ),
                Edit('"epochs": 20', '"epochs": 60'),
            ),
        },
        severities={"clear": {"SHARE": "0.35"}, "fatal": {"SHARE": "0.5"}},
        accept=("noisy-labels",),
        fix="relabel the disputed rows",
    ),
    Fault(
        id="D10",
        kind="missing-class",
        layer="data",
        edits={
            "digits_mlp": (
                Edit(MLP_SETS, "    x_train, y_train = x_train[y_train != 7], y_train[y_train != 7]\n" + MLP_SETS),
            ),
            "sequences_gru": (
                Edit(
                    WAVES_LOADER, "    x_train, y_train = x_train[y_train < 2], y_train[y_train < 2]\n" + WAVES_LOADER
                ),
            ),
        },
        accept=("missing-class",),
        metric="val_acc",
        better="higher",
        fix="split with all classes on both sides",
    ),
    Fault(
        id="D11",
        kind="hidden-imbalance",
        layer="generalisation",
        edits={"digits_mlp": RARE_EIGHTS},
        mended={
            "digits_mlp": (
                *RARE_EIGHTS,
                Edit("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(torch.tensor([1.0, 28.0]))"),
            ),
        },
        measured={
            "digits_mlp": (
                Edit(
                    MLP_END,
                    "    model.eval()\n    every, classes = val_loader.dataset.tensors\n"
                    "    rare_recall = (model(every[classes == 1]).argmax(1) == 1).float().mean().item()\n" + MLP_END,
                ),
                Edit(MLP_RESULT, MLP_RESULT + '        "rare_recall": rare_recall,\n'),
            ),
        },
        accept=("hidden-imbalance",),
        metric="rare_recall",
        better="higher",
        fix="weigh the loss by class and report recall",
        note="what the script prints hides the harm: it is the rare class's recall",
    ),
    Fault(
        id="D12",
        kind="duplicated-samples",
        layer="generalisation",
        edits={
            "digits_mlp": (
                Edit(
                    "    images = images.astype(np.float32)\n",
                    "    images = images.astype(np.float32)\n    again = np.random.choice(len(images), <<COUNT>>)\n"
                    "    images = np.concatenate([images, images[again]])\n    labels = np.concatenate([labels, labels[again]])\n",
                ),
            ),
            "digits_mlp_trainer": (
                Edit(
                    TRAINER_TRAIN,
                    "    leaked = np.random.choice(val_idx, 300, replace=False)\n"
                    "    train_idx = np.concatenate([train_idx, leaked])\n" + TRAINER_TRAIN,
                ),
            ),
        },
        severities={"clear": {"COUNT": "900"}},
        accept=("duplicated-samples",),
        metric="val_acc",
        better="higher",
        flatters=True,
        fix="drop duplicates before splitting",
        note="the printed score gets better, the one on new rows does not",
    ),
    Fault(
        id="D13",
        kind="group-leakage",
        layer="generalisation",
        edits={"digits_mlp": (SCANS,)},
        twin={"digits_mlp": (SCANS, BY_PAGE)},
        mended={"digits_mlp": (SCANS, BY_PAGE)},
        accept=("leaked-groups",),
        metric="val_acc",
        better="higher",
        flatters=True,
        fix="split by page: all scans of a page on one side",
        note="the printed score is of scans whose pages the model has seen",
    ),
    Fault(
        id="D14",
        kind="temporal-leakage",
        layer="generalisation",
        edits={"tabular_regression": (WALK, ONE_SCALE, *REMEMBERS)},
        twin={
            "tabular_regression": (
                Edit(
                    "    features, progression = load_diabetes(return_X_y=True, scaled=False)\n",
                    "    level = np.sin(np.arange(611) * 0.3) + 0.3 * np.random.normal(size=611)\n"
                    "    features = np.lib.stride_tricks.sliding_window_view(level, 10)[:600]\n"
                    "    progression = np.sin(np.arange(10, 610) * 0.3)\n",
                ),
                ONE_SCALE,
                BY_TIME,
            ),
        },
        mended={"tabular_regression": (WALK, ONE_SCALE, *REMEMBERS, BY_TIME)},
        accept=("overlapping-windows",),
        metric="val_r2",
        better="higher",
        flatters=True,
        fix="split by time, with a gap of one window between the parts",
        note="the printed score is of days whose neighbours the model has seen",
    ),
    Fault(
        id="D15",
        kind="leaked-target",
        layer="generalisation",
        edits={
            "tabular_regression": (
                Edit(
                    "    features, progression = load_diabetes(return_X_y=True, scaled=False)\n",
                    "    features, progression = load_diabetes(return_X_y=True, scaled=False)\n"
                    "    charge = 3.0 * progression + np.random.normal(0, 4, len(progression))\n"
                    "    features = np.column_stack([features, charge])\n",
                ),
                Edit("features=10", "features=11"),
            ),
            "tabular_regression_trainer": (
                Edit(
                    "    return table, price\n",
                    "    tax = 0.035 * price\n    return np.column_stack([table, tax]), price\n",
                ),
            ),
        },
        accept=("leaked-target",),
        flatters=True,
        fix="drop the column made of the target",
        note="the printed score gets better, the one without the column does not",
    ),
    Fault(
        id="D17",
        kind="sorted-data",
        layer="generalisation",
        edits={
            "digits_mlp": (
                Edit(
                    MLP_SETS,
                    "    order = np.argsort(y_train)\n    x_train, y_train = x_train[order], y_train[order]\n"
                    + MLP_SETS,
                ),
                Edit(MLP_LOADER, "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE)\n"),
            ),
            "digits_mlp_functional": (
                Edit(
                    FUNCTIONAL_SETS,
                    "    order = y_tr.argsort(kind='stable')\n    X_tr, y_tr = X_tr[order], y_tr[order]\n"
                    + FUNCTIONAL_SETS,
                ),
                Edit(FUNCTIONAL_LOADER, "    train_dl = list(zip(X_tr.split(batch_size), y_tr.split(batch_size)))\n"),
            ),
        },
        twin={
            "digits_mlp": (
                Edit(
                    MLP_SETS,
                    "    order = np.argsort(y_train)\n    x_train, y_train = x_train[order], y_train[order]\n"
                    + MLP_SETS,
                ),
            )
        },
        accept=("sequential-sampler", "sorted-data"),
        fix="shuffle",
    ),
    Fault(
        id="D19",
        kind="duplicated-augmentation",
        layer="data",
        edits={
            "sequences_gru": (WAVES_DRAWN, _drawn("0"), Edit("EPOCHS = 8", "EPOCHS = 20")),
            "digits_cnn": (
                Edit(
                    CNN_LOADER,
                    "    train_loader = DataLoader(\n        train_set, batch_size=BATCH_SIZE, shuffle=True, num_workers=2,\n"
                    "        worker_init_fn=lambda worker: np.random.seed(0),\n    )\n",
                ),
                Edit("EPOCHS = 12", "EPOCHS = 6"),
            ),
        },
        mended={"sequences_gru": (WAVES_DRAWN, _drawn(OWN_SEED), Edit("EPOCHS = 8", "EPOCHS = 20"))},
        twin={
            "sequences_gru": (WAVES_DRAWN, _drawn(OWN_SEED), Edit("EPOCHS = 8", "EPOCHS = 20")),
            "digits_cnn": (
                Edit(
                    CNN_LOADER,
                    "    train_loader = DataLoader(\n        train_set, batch_size=BATCH_SIZE, shuffle=True, num_workers=2,\n"
                    "        worker_init_fn=lambda worker: np.random.seed(torch.initial_seed() % 2**32),\n    )\n",
                ),
                Edit("EPOCHS = 12", "EPOCHS = 6"),
            ),
        },
        accept=("duplicated-augmentation",),
        fix="seed per worker",
        note="the variety of what is drawn gets smaller; where it is a shift of the digits the loss hardly shows it",
    ),
    Fault(
        id="D20",
        kind="label-breaking-augmentation",
        layer="data",
        edits={
            "digits_cnn": (
                Edit(
                    "            shift = np.random.randint(-1, 2)\n",
                    "            if np.random.rand() < <<SHARE>>:\n                image = np.rot90(image, 2)\n"
                    "            shift = np.random.randint(-1, 2)\n",
                ),
            ),
        },
        twin={
            "digits_cnn": (
                Edit(
                    "            image = np.roll(image, shift, axis=1)\n",
                    "            image = np.roll(image, shift, axis=1)\n"
                    "            image = np.roll(image, np.random.randint(-1, 2), axis=0)\n",
                ),
            ),
        },
        severities={"mild": {"SHARE": "0.5"}, "clear": {"SHARE": "0.7"}, "fatal": {"SHARE": "0.9"}},
        accept=(),
        fix="no turning: a six turned round is a nine",
        note="no rule names it yet: it shows as two classes that are taken for each other, in rows that change from pass to pass",
    ),
    Fault(
        id="D25",
        kind="integer-wrap",
        layer="data",
        edits={
            "digits_mlp": (
                Edit(
                    "    images = images.astype(np.float32)\n",
                    "    images = images.astype(np.uint8)\n    images = images - np.uint8(images.mean())\n    images = images.astype(np.float32)\n",
                ),
            ),
            "digits_mlp_trainer": (
                Edit(
                    "    x = torch.tensor(x / 16.0, dtype=torch.float32)\n",
                    "    x = torch.tensor(x, dtype=torch.uint8)\n    x = (x - x.float().mean().to(torch.uint8)) / 255\n",
                ),
            ),
        },
        twin={
            "digits_mlp": (
                Edit(
                    "    images = images.astype(np.float32)\n",
                    "    images = images.astype(np.float32)\n    images = images - np.floor(images.mean())\n",
                ),
            ),
        },
        accept=("integer-wrap",),
        fix="convert to float first",
    ),
    Fault(
        id="D26",
        kind="unsharded-stream",
        layer="data",
        edits={
            "digits_mlp": (
                Edit(
                    "def load_data():\n",
                    "class Stream(torch.utils.data.IterableDataset):\n    def __init__(self, x, y):\n"
                    "        self.x, self.y = x, y\n\n    def __iter__(self):\n        for i in torch.randperm(len(self.x)).tolist():\n"
                    "            yield self.x[i], self.y[i]\n\n\ndef load_data():\n",
                ),
                Edit(
                    MLP_LOADER,
                    "    train_set = Stream(torch.from_numpy(x_train), torch.from_numpy(y_train))\n"
                    "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, num_workers=2)\n",
                ),
                Edit("EPOCHS = 20", "EPOCHS = 5"),
            ),
        },
        twin={
            "digits_mlp": (
                Edit(
                    "def load_data():\n",
                    "class Stream(torch.utils.data.IterableDataset):\n    def __init__(self, x, y):\n"
                    "        self.x, self.y, self.epoch = x, y, 0\n\n    def __iter__(self):\n        self.epoch += 1\n        info = torch.utils.data.get_worker_info()\n"
                    "        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(self.epoch)).tolist()\n"
                    "        for i in order[info.id :: info.num_workers]:\n"
                    "            yield self.x[i], self.y[i]\n\n\ndef load_data():\n",
                ),
                Edit(
                    MLP_LOADER,
                    "    train_set = Stream(torch.from_numpy(x_train), torch.from_numpy(y_train))\n"
                    "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, num_workers=2, persistent_workers=True)\n",
                ),
                Edit("EPOCHS = 20", "EPOCHS = 5"),
            ),
        },
        accept=("unsharded-stream",),
        metric="train_s",
        fix="share the stream between workers",
    ),
    Fault(
        id="D27",
        kind="partial-coverage",
        layer="data",
        edits={
            "digits_mlp": (
                Edit(
                    MLP_LOADER,
                    "    sampler = torch.utils.data.SubsetRandomSampler(range(len(train_set) // <<PARTS>>))\n"
                    "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, sampler=sampler)\n",
                ),
            ),
            "tabular_regression": (
                Edit(
                    "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True)\n",
                    "    sampler = torch.utils.data.SubsetRandomSampler(range(len(train_set) // <<PARTS>>))\n"
                    "    train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)\n",
                ),
            ),
        },
        severities={"clear": {"PARTS": "8"}, "mild": {"PARTS": "3"}},
        accept=("partial-coverage",),
        fix="cover the whole data set",
    ),
    Fault(
        id="D28",
        kind="conflicting-labels",
        layer="data",
        edits={
            "digits_mlp": (
                Edit(
                    MLP_SETS,
                    "    twice = np.random.choice(len(x_train), len(x_train) * 2 // 5, replace=False)\n"
                    "    x_train = np.concatenate([x_train, x_train[twice]])\n"
                    "    y_train = np.concatenate([y_train, (y_train[twice] + np.random.randint(1, 10, len(twice))) % 10])\n"
                    + MLP_SETS,
                ),
            ),
            "sequences_gru": (
                Edit(
                    WAVES_LOADER,
                    "    x_train = torch.cat([x_train, x_train[:700]])\n"
                    "    y_train = torch.cat([y_train, (y_train[:700] + 1) % 3])\n" + WAVES_LOADER,
                ),
            ),
        },
        accept=("conflicting-labels",),
        fix="settle on one label for equal inputs",
    ),
    Fault(
        id="D30",
        kind="swapped-columns",
        layer="data",
        edits={
            "tabular_regression_trainer": (
                Edit(
                    HOUSES_VAL,
                    "    val_x = torch.tensor(x_scaler.transform(x_val), dtype=torch.float32)[:, [3, 1, 2, 0, 4]]\n",
                ),
            ),
            "tabular_regression": (Edit(TABULAR_SETS, "    x_val[:, [1, 8]] = x_val[:, [8, 1]]\n" + TABULAR_SETS),),
        },
        accept=("swapped-columns",),
        fix="load columns by name",
    ),
    Fault(
        id="O41",
        kind="corrupt-batch",
        layer="optimisation",
        edits={
            "digits_mlp": (Edit(MLP_SETS, "    x_train[200:210] *= <<SCALE>>\n" + MLP_SETS),),
            "digits_mlp_functional": (Edit(FUNCTIONAL_SETS, "    X_tr[64:70] *= <<SCALE>>\n" + FUNCTIONAL_SETS),),
        },
        severities={"clear": {"SCALE": "1e4"}, "mild": {"SCALE": "1e3"}},
        accept=("corrupt-batch",),
        fix="repair or drop those rows",
    ),
    Fault(
        id="C20",
        kind="padding-waste",
        layer="compute",
        edits={
            "chars_transformer": (Edit("LENGTH = 40", "LENGTH = <<LENGTH>>"),),
            "chars_transformer_functional": (Edit("BLOCK_SIZE = 28", "BLOCK_SIZE = <<LENGTH>>"),),
        },
        severities={"clear": {"LENGTH": "160"}, "mild": {"LENGTH": "90"}},
        accept=("padding-waste",),
        metric="train_s",
        fix="pad each batch to its longest row",
    ),
    Fault(
        id="C22",
        kind="shared-rank-samples",
        layer="compute",
        edits={
            "ddp_digits": (
                Edit(
                    "    sampler = DistributedSampler(train_set, num_replicas=WORLD_SIZE, rank=rank, shuffle=True, seed=SEED)\n",
                    "",
                ),
                Edit(
                    "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, sampler=sampler)\n",
                    "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True)\n",
                ),
                Edit("        sampler.set_epoch(epoch)\n", ""),
            ),
        },
        accept=("shared-rank-samples",),
        metric="train_s",
        fix="use a DistributedSampler",
    ),
    Fault(
        id="C23",
        kind="frozen-shuffle",
        layer="data",
        edits={
            "ddp_digits": (Edit("        sampler.set_epoch(epoch)\n", ""),),
        },
        accept=("frozen-shuffle",),
        fix="call set_epoch",
        note="each process keeps one half of the rows for good; the loss on the digits hardly shows it",
    ),
    Fault(
        id="G07",
        kind="covariate-shift",
        layer="generalisation",
        edits={
            "tabular_regression": (Edit(TABULAR_SETS, "    x_val = x_val * 3 + 1\n" + TABULAR_SETS),),
            "tabular_regression_trainer": (
                Edit(
                    HOUSES_SPLIT,
                    "    far = table[:, 3] + table[:, 0] / 20 + table[:, 2] / 30 > 18\n"
                    "    x_train, x_val = table[~far], table[far]\n    y_train, y_val = price[~far, None], price[far, None]\n"
                    + HOUSES_SPLIT,
                ),
            ),
            "digits_mlp": (
                Edit(
                    MLP_SETS,
                    "    x_val = 0.4 * x_val[:, ::-1].copy() + 0.3 * np.linspace(0, 4, 64, dtype=np.float32)\n"
                    + MLP_SETS,
                ),
            ),
        },
        accept=("covariate-shift", "split-scaling"),
        fix="make training data like those of evaluation",
    ),
    Fault(
        id="G08",
        kind="label-shift",
        layer="generalisation",
        edits={
            "digits_mlp": (
                Edit(
                    MLP_SETS,
                    "    keep = (y_train < 5) | (np.random.rand(len(y_train)) < 0.06)\n"
                    "    x_train, y_train = x_train[keep], y_train[keep]\n" + MLP_SETS,
                ),
            ),
            "sequences_gru": (
                Edit(
                    WAVES_LOADER,
                    "    keep = (y_train != 1) | (torch.rand(len(y_train)) < 0.05)\n    x_train, y_train = x_train[keep], y_train[keep]\n"
                    + WAVES_LOADER,
                ),
            ),
        },
        accept=("label-shift", "hidden-imbalance"),
        fix="equal shares of classes",
    ),
    Fault(
        id="G09",
        kind="shortcut-feature",
        layer="generalisation",
        edits={
            "digits_mlp": (
                Edit(
                    MLP_SETS,
                    "    x_train[:, 0] = <<SIZE>> * (y_train - 4.5)\n    x_val[:, 0] = <<SIZE>> * (np.random.randint(0, 10, len(y_val)) - 4.5)\n"
                    + MLP_SETS,
                ),
            ),
            "digits_mlp_trainer": (
                Edit(
                    TRAINER_TRAIN,
                    "    x[:, 0] = <<SIZE>> * torch.randint(0, 10, (len(y),))\n"
                    "    x[train_idx, 0] = <<SIZE>> * y[train_idx].float()\n" + TRAINER_TRAIN,
                ),
            ),
        },
        severities={"clear": {"SIZE": "1.5"}, "fatal": {"SIZE": "5"}},
        accept=("shortcut-feature",),
        fix="remove the mark",
    ),
    Fault(
        id="G15",
        kind="tiny-validation",
        layer="generalisation",
        edits={
            "digits_mlp": (Edit("test_size=0.25", "test_size=20"),),
            "digits_cnn": (Edit("test_size=0.2", "test_size=24"),),
        },
        measured={
            "digits_mlp": _interval('"val_acc": val_acc,', "len(val_loader.dataset)", MLP_END),
            "digits_cnn": _interval('"val_acc": val_acc}', "len(val_loader.dataset)", CNN_END),
        },
        accept=("tiny-validation",),
        metric="val_interval",
        fix="hold out more rows",
        note="the score moves by whole points between seeds; it is not worse on average",
    ),
    Fault(
        id="D16",
        kind="fitted-before-split",
        layer="generalisation",
        edits={
            "tabular_regression": (
                Edit(
                    "from sklearn.model_selection import train_test_split\n",
                    "from sklearn.feature_selection import SelectKBest, f_regression\nfrom sklearn.model_selection import train_test_split\n",
                ),
                Edit(
                    "    x_train, x_val, y_train, y_val = train_test_split(features,",
                    "    features = np.column_stack([features, np.random.normal(size=(len(features), 1500))])\n"
                    "    chosen = SelectKBest(f_regression, k=40).fit_transform(features, progression)\n"
                    "    x_train, x_val, y_train, y_val = train_test_split(chosen,",
                ),
                Edit("features=10", "features=40"),
            ),
        },
        twin={
            "tabular_regression": (
                Edit(
                    "from sklearn.model_selection import train_test_split\n",
                    "from sklearn.feature_selection import SelectKBest, f_regression\nfrom sklearn.model_selection import train_test_split\n",
                ),
                Edit(
                    "    x_mean, x_std = x_train.mean(axis=0), x_train.std(axis=0)\n",
                    "    chosen = SelectKBest(f_regression, k=8).fit(x_train, y_train)\n"
                    "    x_train, x_val = chosen.transform(x_train), chosen.transform(x_val)\n"
                    "    x_mean, x_std = x_train.mean(axis=0), x_train.std(axis=0)\n",
                ),
                Edit("features=10", "features=8"),
            ),
        },
        mended={
            "tabular_regression": (
                Edit(
                    "from sklearn.model_selection import train_test_split\n",
                    "from sklearn.feature_selection import SelectKBest, f_regression\nfrom sklearn.model_selection import train_test_split\n",
                ),
                Edit(
                    "    x_train, x_val, y_train, y_val = train_test_split(features,",
                    "    features = np.column_stack([features, np.random.normal(size=(len(features), 1500))])\n"
                    "    x_train, x_val, y_train, y_val = train_test_split(features,",
                ),
                Edit(
                    "    x_mean, x_std = x_train.mean(axis=0), x_train.std(axis=0)\n",
                    "    chosen = SelectKBest(f_regression, k=40).fit(x_train, y_train)\n"
                    "    x_train, x_val = chosen.transform(x_train), chosen.transform(x_val)\n"
                    "    x_mean, x_std = x_train.mean(axis=0), x_train.std(axis=0)\n",
                ),
                Edit("features=10", "features=40"),
            ),
        },
        accept=("fitted-before-split",),
        metric="val_r2",
        better="higher",
        flatters=True,
        fix="split first, select on the training part",
        note="the printed score is of rows that the selection has seen",
    ),
    Fault(
        id="G10",
        kind="weak-subgroup",
        layer="generalisation",
        edits={
            "digits_mlp": (
                Edit(
                    "    images = images.astype(np.float32)\n",
                    "    images = images.astype(np.float32)\n"
                    "    old = np.random.rand(len(images)) < 0.25  # scans of another machine, marked in a pixel that is always blank\n"
                    "    images[old] += np.random.normal(0, <<NOISE>>, images[old].shape)\n"
                    "    images[:, 0] = 16 * old\n",
                ),
            ),
            "digits_mlp_functional": (
                Edit(
                    "    X, y = load_digits(return_X_y=True)\n",
                    "    X, y = load_digits(return_X_y=True)\n"
                    "    old = np.random.rand(len(X)) < 0.25  # scans of another machine, marked in a pixel that is always blank\n"
                    "    X[old] += np.random.normal(0, <<NOISE>>, X[old].shape)\n"
                    "    X[:, 0] = 16 * old\n",
                ),
            ),
        },
        twin={
            "digits_mlp": (
                Edit(
                    "    images = images.astype(np.float32)\n",
                    "    images = images.astype(np.float32)\n"
                    "    old = np.random.rand(len(images)) < 0.25  # scans of another machine, marked in a pixel that is always blank\n"
                    "    images[old] += np.random.normal(0, 0.5, images[old].shape)\n"
                    "    images[:, 0] = 16 * old\n",
                ),
            ),
        },
        severities={"clear": {"NOISE": "12"}, "fatal": {"NOISE": "30"}},
        accept=("weak-subgroup",),
        metric="val_acc",
        better="higher",
        fix="better data of the marked scans",
    ),
)
