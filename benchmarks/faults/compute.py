"""Faults that make a script slow and change nothing of what it learns."""

from benchmarks.faults._base import Edit, Fault

MLP, CNN, FUNCTIONAL, FORMER, GRU = (
    "digits_mlp",
    "digits_cnn",
    "digits_mlp_functional",
    "chars_transformer",
    "sequences_gru",
)
CNN_FUNCTIONAL, TUNED, FORMER_FUNCTIONAL = "digits_cnn_functional", "finetune_digits", "chars_transformer_functional"

MLP_STEP = (
    "            loss.backward()\n            optimizer.step()\n            running += loss.item() * len(targets)\n"
)
CNN_STEP = "            loss.backward()\n            optimizer.step()\n            total += loss.item() * len(y)\n"
FORMER_STEP = "            optimizer.step()\n            running += loss.item()\n"
MLP_OUT = "            outputs = model(inputs)\n"
CNN_OUT = "            logits = model(x)\n            loss = loss_fn(logits, y)\n"
MLP_LOADER = "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True)\n"
MLP_FORWARD = "        x = self.drop1(self.act1(self.fc1(x)))\n        x = self.drop2(self.act2(self.fc2(x)))\n        return self.head(x)\n"
SEEDS = "    torch.manual_seed(SEED)\n"


def after(step: str, *lines: str) -> Edit:
    """A step, and more lines in the loop over batches."""
    return Edit(step, step + "".join(f"            {line}\n" for line in lines))


FAULTS = (
    Fault(
        id="C01",
        kind="slow-samples",
        layer="data",
        edits={
            CNN: (
                Edit(
                    "        image = self.images[index]\n",
                    "        image = self.images[index]\n        time.sleep(<<WAIT>>)\n",
                ),
            ),
            CNN_FUNCTIONAL: (
                Edit(
                    "        img = self.x[i]\n",
                    "        img = self.x[i]\n        for _ in range(<<TIMES>>):\n            img = np.fft.ifft2(np.fft.fft2(img)).real.astype(np.float32)\n",
                ),
            ),
            MLP: (
                Edit("EPOCHS = 20\n", "EPOCHS = 4\n"),
                Edit("import DataLoader, TensorDataset\n", "import DataLoader, Dataset, TensorDataset\n"),
                Edit(
                    "def load_data():\n",
                    "class Scans(Dataset):\n    def __init__(self, images, labels):\n        self.images, self.labels = images, labels\n\n"
                    "    def __len__(self):\n        return len(self.labels)\n\n"
                    "    def __getitem__(self, index):\n        time.sleep(4 * <<WAIT>>)\n"
                    "        return self.images[index], self.labels[index]\n\n\ndef load_data():\n",
                ),
                Edit(
                    "    train_set = TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train))\n",
                    "    train_set = Scans(x_train, y_train)\n",
                ),
            ),
        },
        severities={
            "mild": {"WAIT": "0.0001", "TIMES": "5"},
            "clear": {"WAIT": "0.0002", "TIMES": "10"},
        },
        accept=("input-bound", "per-row-indexing"),
        metric="train_s",
        fix="make samples once and keep them, or let workers wait for them",
        located=True,
    ),
    Fault(
        id="C02",
        kind="excess-workers",
        layer="data",
        edits={
            MLP: (
                Edit("EPOCHS = 20\n", "EPOCHS = 4\n"),
                Edit(
                    MLP_LOADER,
                    "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True, num_workers=12, persistent_workers=True)\n",
                ),
            ),
        },
        accept=("excess-workers",),
        metric="train_s",
        fix="no more workers than cores",
        note="four epochs, as against twenty of the host, are slower",
    ),
    Fault(
        id="C03",
        kind="restarted-workers",
        layer="data",
        edits={
            MLP: (
                Edit(
                    MLP_LOADER,
                    "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True, num_workers=2)\n",
                ),
            )
        },
        accept=("restarted-workers",),
        metric="train_s",
        fix="persistent_workers=True",
    ),
    Fault(
        id="C04",
        kind="costly-statistics",
        layer="compute",
        edits={
            MLP: (
                Edit("    start = time.perf_counter()\n", "    histograms = {}\n    start = time.perf_counter()\n"),
                after(
                    MLP_STEP,
                    "for name, parameter in model.named_parameters():",
                    "    histograms[name] = np.histogram(parameter.detach().numpy(), bins=64)",
                    "    histograms[name + '.grad'] = np.histogram(parameter.grad.numpy(), bins=64)",
                ),
            ),
            CNN: (
                Edit("    begin = time.perf_counter()\n", "    histograms = {}\n    begin = time.perf_counter()\n"),
                after(
                    CNN_STEP,
                    "for name, parameter in model.named_parameters():",
                    "    histograms[name] = np.histogram(parameter.detach().numpy(), bins=64)",
                    "    histograms[name + '.grad'] = np.histogram(parameter.grad.numpy(), bins=64)",
                ),
            ),
        },
        accept=("costly-line", "logging-cost"),
        metric="train_s",
        fix="take them every hundredth update",
    ),
    Fault(
        id="C05",
        kind="per-sample-loop",
        layer="compute",
        edits={
            MLP: (
                Edit("EPOCHS = 20\n", "EPOCHS = 5\n"),
                Edit(
                    MLP_FORWARD,
                    "        rows = []\n        for row in x:\n            h = self.drop1(self.act1(self.fc1(row)))\n"
                    "            h = self.drop2(self.act2(self.fc2(h)))\n            rows.append(self.head(h))\n        return torch.stack(rows)\n",
                ),
            ),
            FUNCTIONAL: (
                Edit(
                    "        epoch_loss, n_seen = 0.0, 0\n",
                    "        epoch_loss, n_seen, confusion = 0.0, 0, torch.zeros(10, 10)\n",
                ),
                Edit(
                    "            opt.step()\n",
                    "            opt.step()\n            for i in range(len(yb)):\n"
                    "                confusion[yb[i].item(), pred[i].argmax().item()] += 1\n",
                ),
            ),
        },
        accept=("per-sample-loop",),
        metric="train_s",
        fix="work on the whole batch",
    ),
    Fault(
        id="C06",
        kind="rebuilt-constants",
        layer="compute",
        edits={
            FORMER: (
                Edit(
                    '        scores = scores.masked_fill(~self.mask[:steps, :steps], float("-inf"))\n',
                    "        mask = torch.tril(torch.ones(<<SIZE>>, <<SIZE>>, dtype=torch.bool))\n"
                    '        scores = scores.masked_fill(~mask[:steps, :steps], float("-inf"))\n',
                ),
            ),
        },
        twin={
            FORMER: (
                Edit(
                    '        scores = scores.masked_fill(~self.mask[:steps, :steps], float("-inf"))\n',
                    "        mask = torch.tril(torch.ones(steps, steps, dtype=torch.bool))\n"
                    '        scores = scores.masked_fill(~mask, float("-inf"))\n',
                ),
            ),
        },
        severities={"mild": {"SIZE": "1024"}, "clear": {"SIZE": "2048"}},
        accept=("rebuilt-constants",),
        metric="train_s",
        fix="register the mask once, as a buffer",
    ),
    Fault(
        id="C08",
        kind="frequent-evaluation",
        layer="compute",
        edits={
            MLP: (after(MLP_STEP, "val_loss, val_acc = evaluate(model, val_loader, criterion)", "model.train()"),),
            CNN: (after(CNN_STEP, "val_loss, val_acc = evaluate(model, val_loader, loss_fn)", "model.train()"),),
        },
        accept=("costly-evaluation",),
        metric="train_s",
        fix="evaluate once an epoch",
    ),
    Fault(
        id="C09",
        kind="frequent-saving",
        layer="compute",
        edits={
            MLP: (
                after(
                    MLP_STEP,
                    'torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")',
                ),
            ),
            CNN: (
                after(
                    CNN_STEP,
                    'torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")',
                ),
            ),
        },
        accept=("frequent-saving",),
        metric="train_s",
        fix="save once an epoch",
    ),
    Fault(
        id="C10",
        kind="anomaly-mode",
        layer="compute",
        edits={
            MLP: (Edit(SEEDS, SEEDS + "    torch.autograd.set_detect_anomaly(True)\n"),),
            FORMER: (Edit(SEEDS, SEEDS + "    torch.autograd.set_detect_anomaly(True)\n"),),
        },
        twin={MLP: (Edit(SEEDS, SEEDS + "    torch.autograd.set_detect_anomaly(False)\n"),)},
        accept=("anomaly-mode",),
        metric="train_s",
        fix="leave it off unless a NaN is looked for",
    ),
    Fault(
        id="C11",
        kind="double-precision",
        layer="compute",
        edits={
            CNN: (
                Edit("    images = (digits.images / 16.0).astype(np.float32)\n", "    images = digits.images / 16.0\n"),
                Edit("    model = ConvNet()\n", "    model = ConvNet().double()\n"),
            ),
            FORMER: (Edit("    model = CharTransformer()\n", "    model = CharTransformer().double()\n"),),
        },
        accept=("double-precision",),
        metric="train_s",
        fix="compute in float32",
    ),
    Fault(
        id="C12",
        kind="tiny-batch",
        layer="compute",
        edits={MLP: (Edit("BATCH_SIZE = 64\n", "BATCH_SIZE = <<BATCH>>\n"),)},
        severities={"mild": {"BATCH": "4"}, "clear": {"BATCH": "2"}},
        accept=("tiny-batch", "python-bound"),
        metric="train_s",
        fix="a larger batch",
        note="pairs may be wanted, as in H03 and H07, and look the same: a suspicion is the right answer",
    ),
    Fault(
        id="C14",
        kind="hidden-state-never-detached",
        layer="memory",
        edits={
            GRU: (
                Edit("EPOCHS = 8\n", "EPOCHS = 1\n"),
                Edit(
                    "        states, _ = self.gru(x)\n",
                    "        states, state = self.gru(x, self.state if self.training else None)\n        self.state = state if self.training else None\n",
                ),
                Edit(
                    "        self.dropout = nn.Dropout(0.1)\n",
                    "        self.dropout = nn.Dropout(0.1)\n        self.state = None\n",
                ),
                Edit("            loss.backward()\n", "            loss.backward(retain_graph=True)\n"),
                Edit(
                    "            optimizer.step()\n",
                    "            for parameter in model.parameters():\n                parameter.data.add_(parameter.grad, alpha=-0.05)\n",
                ),
            ),
        },
        accept=("growing-graph",),
        metric="peak_mb",
        fix="detach the state between batches",
    ),
    Fault(
        id="C15",
        kind="idle-gradients",
        layer="compute",
        edits={
            TUNED: (
                Edit(
                    "    for parameter in model.backbone.parameters():\n        parameter.requires_grad = False\n",
                    "    model.backbone.eval()\n",
                ),
            ),
        },
        accept=("idle-gradients",),
        metric="train_s",
        fix="requires_grad_(False) for the backbone",
    ),
    Fault(
        id="C16",
        kind="double-forward",
        layer="compute",
        edits={
            CNN: (
                Edit("        total = 0.0\n        for x, y", "        total, right = 0.0, 0\n        for x, y"),
                Edit(CNN_OUT, CNN_OUT + "            right += (model(x).argmax(1) == y).sum().item()\n"),
            ),
            MLP: (
                Edit("        running, seen = 0.0, 0\n", "        running, seen, right = 0.0, 0, 0\n"),
                Edit(MLP_OUT, MLP_OUT + "            right += (model(inputs).argmax(dim=1) == targets).sum().item()\n"),
            ),
        },
        twin={
            CNN: (
                Edit("        total = 0.0\n        for x, y", "        total, right = 0.0, 0\n        for x, y"),
                Edit(CNN_OUT, CNN_OUT + "            right += (logits.argmax(1) == y).sum().item()\n"),
            ),
            MLP: (
                Edit("        running, seen = 0.0, 0\n", "        running, seen, right = 0.0, 0, 0\n"),
                Edit(MLP_OUT, MLP_OUT + "            right += (outputs.argmax(dim=1) == targets).sum().item()\n"),
            ),
        },
        accept=("double-forward",),
        metric="train_s",
        fix="use the outputs that are there",
        note="of the perceptron's half a second the second pass takes a seventh, about which silence is right",
    ),
    Fault(
        id="C17",
        kind="reopened-files",
        layer="compute",
        edits={
            CNN: (
                Edit(
                    "        self.images = images\n",
                    '        self.path = f"images-{len(images)}.npy"\n        np.save(self.path, images)\n',
                ),
                Edit("        image = self.images[index]\n", "        image = np.load(self.path)[index]\n"),
            ),
            CNN_FUNCTIONAL: (
                Edit(
                    "        self.x = x\n",
                    '        self.path = f"x-{len(x)}.npy"\n        np.save(self.path, x)\n        self.n = len(x)\n',
                ),
                Edit("        return len(self.x)\n", "        return self.n\n"),
                Edit("        img = self.x[i]\n", "        img = np.load(self.path)[i]\n"),
            ),
        },
        accept=("reopened-files",),
        metric="train_s",
        fix="open it once",
    ),
    Fault(
        id="C18",
        kind="flushed-files",
        layer="compute",
        edits={
            MLP: (
                Edit(
                    "    start = time.perf_counter()\n",
                    '    log = open("train.log", "w")\n    start = time.perf_counter()\n',
                ),
                after(MLP_STEP, 'log.write(f"{loss.item()}\\n")', "log.flush()", "os.fsync(log.fileno())"),
            ),
            CNN: (
                Edit(
                    "    begin = time.perf_counter()\n",
                    '    log = open("train.log", "w")\n    begin = time.perf_counter()\n',
                ),
                after(CNN_STEP, 'log.write(f"{loss.item()}\\n")', "log.flush()", "os.fsync(log.fileno())"),
            ),
        },
        twin={
            MLP: (
                Edit(
                    "    start = time.perf_counter()\n",
                    '    log = open("train.log", "w")\n    start = time.perf_counter()\n',
                ),
                after(MLP_STEP, 'log.write(f"{loss.item()}\\n")'),
            ),
        },
        accept=("flushed-files",),
        metric="train_s",
        fix="leave the flush to the system",
    ),
    Fault(
        id="C19",
        kind="recompilations",
        layer="compute",
        edits={
            MLP: (
                Edit(
                    "        self.head = nn.Linear(hidden, classes)\n",
                    "        self.head = nn.Linear(hidden, classes)\n        self.seen = 0\n",
                ),
                Edit(
                    "        x = self.drop1(self.act1(self.fc1(x)))\n",
                    "        self.seen += 1\n        x = self.drop1(self.act1(self.fc1(x))) * min(1.0, self.seen / 400)\n",
                ),
                Edit("    model = DigitsMLP()\n", '    model = torch.compile(DigitsMLP(), backend="aot_eager")\n'),
            ),
        },
        twin={
            MLP: (Edit("    model = DigitsMLP()\n", '    model = torch.compile(DigitsMLP(), backend="aot_eager")\n'),)
        },
        accept=("recompilations",),
        metric="train_s",
        fix="keep the counter out of the compiled module, or in a tensor",
    ),
    Fault(
        id="C07",
        kind="graph-in-validation",
        layer="memory",
        edits={
            FORMER: (
                Edit("batch_size=100, collate_fn", "batch_size=50, collate_fn"),
                Edit(
                    "    with torch.no_grad():\n"
                    "        for ids, following in loader:\n"
                    "            logits = model(ids)\n"
                    "            real = following != PAD\n"
                    "            total += criterion(logits.flatten(0, 1), following.flatten()).item() * real.sum().item()\n"
                    "            right += ((logits.argmax(-1) == following) & real).sum().item()\n"
                    "            count += real.sum().item()\n",
                    "    for ids, following in loader:\n"
                    "        logits = model(ids)\n"
                    "        real = following != PAD\n"
                    "        total += criterion(logits.flatten(0, 1), following.flatten()).item() * real.sum().item()\n"
                    "        right += ((logits.argmax(-1) == following) & real).sum().item()\n"
                    "        count += real.sum().item()\n",
                ),
            ),
            FORMER_FUNCTIONAL: (
                Edit("encode(lines[:200]), batch_size=100", "encode(lines[:200]), batch_size=50"),
                Edit("@torch.no_grad()\n", ""),
            ),
        },
        twin={
            FORMER: (
                Edit("batch_size=100, collate_fn", "batch_size=50, collate_fn"),
                Edit("    with torch.no_grad():\n", "    with torch.inference_mode():\n"),
            ),
            FORMER_FUNCTIONAL: (
                Edit("encode(lines[:200]), batch_size=100", "encode(lines[:200]), batch_size=50"),
                Edit("@torch.no_grad()\n", "@torch.inference_mode()\n"),
            ),
        },
        accept=("validation-with-gradients",),
        metric="peak_mb",
        fix="evaluate under torch.no_grad()",
    ),
    Fault(
        id="C13",
        kind="single-thread",
        layer="compute",
        edits={
            CNN: (
                Edit("EPOCHS = 12\n", "EPOCHS = 4\n"),
                Edit("BATCH_SIZE = 64\n", "BATCH_SIZE = 256\n"),
                Edit(SEEDS, SEEDS + "    torch.set_num_threads(1)\n"),
            ),
        },
        twin={
            CNN: (
                Edit("EPOCHS = 12\n", "EPOCHS = 4\n"),
                Edit("BATCH_SIZE = 64\n", "BATCH_SIZE = 256\n"),
                Edit(SEEDS, SEEDS + "    torch.set_num_threads(len(os.sched_getaffinity(0)))\n"),
            ),
        },
        accept=("single-thread",),
        metric="train_s",
        fix="leave the number of threads to PyTorch",
        environment={"OMP_NUM_THREADS": "2"},
        note="a fault where two cores may be used; on a single one silence is right",
    ),
    Fault(
        id="C21",
        kind="oversize-input",
        layer="compute",
        edits={
            CNN: (
                Edit("EPOCHS = 12\n", "EPOCHS = 5\n"),
                Edit(
                    "        return torch.from_numpy(image).unsqueeze(0), int(self.labels[index])\n",
                    "        image = image.repeat(<<TIMES>>, axis=0).repeat(<<TIMES>>, axis=1)\n"
                    "        return torch.from_numpy(image).unsqueeze(0), int(self.labels[index])\n",
                ),
                Edit("nn.Linear(32 * 2 * 2, 10)", "nn.Linear(32 * 4 * <<TIMES>> ** 2, 10)"),
            ),
            CNN_FUNCTIONAL: (
                Edit("NUM_EPOCHS = 12\n", "NUM_EPOCHS = 5\n"),
                Edit(
                    "        x = F.relu(self.n1(self.c1(x)))\n",
                    "        x = F.interpolate(x, scale_factor=<<TIMES>>)\n        x = F.relu(self.n1(self.c1(x)))\n",
                ),
                Edit("nn.Linear(24 * 4, 48)", "nn.Linear(24 * 4 * <<TIMES>> ** 2, 48)"),
            ),
        },
        severities={"mild": {"TIMES": "2"}, "clear": {"TIMES": "4"}},
        accept=("oversize-input",),
        metric="train_s",
        fix="give the images at the size they were taken",
        note="that the larger network is no better only a run shows: a suspicion is the right answer",
    ),
    Fault(
        id="C24",
        kind="straggler-rank",
        layer="compute",
        edits={
            "ddp_digits": (
                Edit(
                    "        for x, y in train_loader:\n",
                    "        for x, y in train_loader:\n            if rank == 1:\n                time.sleep(<<WAIT>>)\n",
                ),
            ),
        },
        twin={
            "ddp_digits": (
                Edit(
                    "        for x, y in train_loader:\n",
                    "        for x, y in train_loader:\n            if rank == 1 and not len(y):\n                time.sleep(0.01)\n",
                ),
            ),
        },
        severities={"mild": {"WAIT": "0.005"}, "clear": {"WAIT": "0.01"}},
        accept=("straggler-rank",),
        metric="train_s",
        fix="find out what rank 1 does more than the others",
        note="the twin sleeps for empty batches, which never come",
    ),
)
