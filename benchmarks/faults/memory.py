"""Faults that take memory, more with every update."""

from benchmarks.faults._base import Edit, Fault
from benchmarks.faults.compute import CNN, CNN_STEP, FORMER, FORMER_STEP, GRU, MLP, MLP_LOADER, MLP_OUT, MLP_STEP, after

GRU_STEP = "            optimizer.step()\n            epoch_loss += loss.item()\n"
START = "    start = time.perf_counter()\n"
# A model whose answers are large: an output for each of many words.
BIG_VOCABULARY = (
    Edit("EPOCHS = 8\n", "EPOCHS = 1\nVOCABULARY = 4096\n"),
    Edit("self.head = nn.Linear(width, len(ALPHABET))", "self.head = nn.Linear(width, VOCABULARY)"),
    Edit("batch_size=32, shuffle", "batch_size=8, shuffle"),
    Edit("batch_size=100, collate_fn", "batch_size=6, collate_fn"),
)
# What a step may take beyond what the process holds before training.
LIMITED = Edit(
    START,
    "    used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
    "    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.RLIM_INFINITY))\n" + START,
)
WIDE = (Edit("hidden=96", "hidden=1500"), Edit("EPOCHS = 20\n", "EPOCHS = 6\n"))

FAULTS = (
    Fault(
        id="M01",
        kind="loss-accumulation-keeps-graph",
        layer="memory",
        edits={
            GRU: (
                Edit(START, "    history = []\n" + START),
                after(GRU_STEP, "history.append(loss)"),
            ),
            FORMER: (
                Edit(START, "    overall = 0.0\n" + START),
                after(FORMER_STEP, "overall += loss"),
            ),
        },
        twin={
            GRU: (
                Edit(START, "    history = []\n" + START),
                after(GRU_STEP, "history.append(loss.detach())"),
            ),
        },
        accept=("growing-graph",),
        metric="peak_mb",
        fix="keep `loss.item()`",
    ),
    Fault(
        id="M03",
        kind="accumulating-hooks",
        layer="memory",
        edits={
            CNN: (
                Edit("    begin = time.perf_counter()\n", "    features = []\n    begin = time.perf_counter()\n"),
                Edit(
                    "        model.train()\n",
                    "        model.train()\n        model.fc.register_forward_hook(lambda layer, given, out: features.append(given[0].detach().clone()))\n",
                ),
            ),
            MLP: (
                Edit(START, "    features = []\n" + START),
                Edit(
                    "        model.train()\n",
                    "        model.train()\n        model.head.register_forward_hook(lambda layer, given, out: features.append(given[0].detach().clone()))\n",
                ),
            ),
        },
        accept=("accumulating-hooks",),
        metric="peak_mb",
        fix="register it once, and remove it after its use",
    ),
    Fault(
        id="M08",
        kind="cache-holds-tensors",
        layer="memory",
        edits={
            MLP: (
                Edit("import json\n", "import functools\nimport json\n"),
                Edit(
                    "class DigitsMLP",
                    "@functools.lru_cache(maxsize=None)\ndef products(x):\n    return torch.einsum('bi,bj->bij', x, x)\n\n\nclass DigitsMLP",
                ),
                Edit(MLP_OUT, MLP_OUT + "            spread = products(inputs).mean()\n"),
            ),
            CNN: (
                Edit(
                    "class ConvNet",
                    "seen = {}\n\n\ndef products(x):\n    if id(x) not in seen or seen[id(x)][0] is not x:\n        rows = x.flatten(1)\n        seen[id(x)] = (x, torch.einsum('bi,bj->bij', rows, rows))\n    return seen[id(x)][1]\n\n\nclass ConvNet",
                ),
                Edit(
                    "            logits = model(x)\n            loss = loss_fn",
                    "            spread = products(x).mean()\n            logits = model(x)\n            loss = loss_fn",
                ),
            ),
        },
        accept=("memory-leak",),
        metric="peak_mb",
        fix="do not cache by tensors, or bound the cache",
    ),
    Fault(
        id="M09",
        kind="leaked-workers",
        layer="memory",
        edits={
            MLP: (
                Edit("EPOCHS = 20\n", "EPOCHS = 6\n"),
                Edit(START, "    train_set, loaders = train_loader.dataset, []\n" + START),
                Edit(
                    "        model.train()\n        running",
                    "        model.train()\n        loaders.append(DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True, num_workers=2, persistent_workers=True))\n        running",
                ),
                Edit("        for inputs, targets in train_loader:\n", "        for inputs, targets in loaders[-1]:\n"),
            ),
        },
        accept=("leaked-workers",),
        metric="train_s",
        fix="construct the loader once",
        note="the memory is that of other processes, which the result does not count",
    ),
    Fault(
        id="M10",
        kind="copied-model",
        layer="memory",
        edits={
            MLP: (
                Edit("import json\n", "import copy\nimport json\n"),
                Edit(START, "    average = copy.deepcopy(model)\n" + START),
                after(
                    MLP_STEP,
                    "latest = copy.deepcopy(model)",
                    "for mean, new in zip(average.parameters(), latest.parameters()):",
                    "    mean.data.mul_(0.99).add_(new.data, alpha=0.01)",
                ),
            ),
            CNN: (
                Edit("import json\n", "import copy\nimport json\n"),
                Edit(
                    "    begin = time.perf_counter()\n",
                    "    average = copy.deepcopy(model)\n    begin = time.perf_counter()\n",
                ),
                after(
                    CNN_STEP,
                    "latest = copy.deepcopy(model)",
                    "for mean, new in zip(average.parameters(), latest.parameters()):",
                    "    mean.data.mul_(0.99).add_(new.data, alpha=0.01)",
                ),
            ),
        },
        twin={
            MLP: (
                Edit("import json\n", "import copy\nimport json\n"),
                Edit(START, "    average = copy.deepcopy(model)\n" + START),
                after(
                    MLP_STEP,
                    "for mean, new in zip(average.parameters(), model.parameters()):",
                    "    mean.data.mul_(0.99).add_(new.data, alpha=0.01)",
                ),
            ),
        },
        accept=("copied-model",),
        metric="train_s",
        fix="move one copy in place",
    ),
    Fault(
        id="M11",
        kind="retained-graph",
        layer="memory",
        edits={
            FORMER: (Edit("            loss.backward()\n", "            loss.backward(retain_graph=True)\n"),),
            CNN: (Edit("            loss.backward()\n", "            loss.backward(retain_graph=True)\n"),),
        },
        accept=("retained-graph",),
        metric="peak_mb",
        fix="leave `retain_graph` out",
    ),
    Fault(
        id="M02",
        kind="running-state-keeps-graph",
        layer="memory",
        edits={
            GRU: (
                Edit(
                    "        self.dropout = nn.Dropout(0.1)\n",
                    "        self.dropout = nn.Dropout(0.1)\n        self.usual = torch.zeros(hidden)\n",
                ),
                Edit(
                    "        last = states[:, -1]\n",
                    "        last = states[:, -1]\n        if self.training:\n            self.usual = 0.99 * self.usual + 0.01 * last.mean(dim=0)\n",
                ),
            ),
            FORMER: (
                Edit(
                    "        self.norm = nn.LayerNorm(width)\n        self.head",
                    "        self.norm = nn.LayerNorm(width)\n        self.usual = torch.zeros(width)\n        self.head",
                ),
                Edit(
                    "        return self.head(self.norm(x))\n",
                    "        if self.training:\n            self.usual = 0.99 * self.usual + 0.01 * x.mean(dim=(0, 1))\n        return self.head(self.norm(x))\n",
                ),
            ),
        },
        twin={
            GRU: (
                Edit(
                    "        self.dropout = nn.Dropout(0.1)\n",
                    "        self.dropout = nn.Dropout(0.1)\n        self.usual = torch.zeros(hidden)\n",
                ),
                Edit(
                    "        last = states[:, -1]\n",
                    "        last = states[:, -1]\n        if self.training:\n            self.usual = 0.99 * self.usual + 0.01 * last.detach().mean(dim=0)\n",
                ),
            ),
        },
        accept=("growing-graph",),
        metric="peak_mb",
        fix="detach what goes into the running state",
    ),
    Fault(
        id="M04",
        kind="objects-in-workers",
        layer="data",
        edits={
            MLP: (
                Edit("EPOCHS = 20\n", "EPOCHS = 3\n"),
                Edit("import DataLoader, TensorDataset\n", "import DataLoader, Dataset, TensorDataset\n"),
                Edit(
                    "def load_data():\n",
                    "class Records(Dataset):\n    def __init__(self, images, labels):\n"
                    "        self.records = [\n            {'pixels': [float(v) for v in image], 'label': int(label)}\n"
                    "            for image, label in zip(images, labels)\n            for _ in range(8)\n        ]\n\n"
                    "    def __len__(self):\n        return len(self.records)\n\n"
                    "    def __getitem__(self, index):\n        record = self.records[index]\n"
                    "        return torch.tensor(record['pixels']), record['label']\n\n\ndef load_data():\n",
                ),
                Edit(
                    "    train_set = TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train))\n",
                    "    train_set = Records(x_train, y_train)\n",
                ),
                Edit(
                    MLP_LOADER,
                    "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True, num_workers=2, persistent_workers=True)\n",
                ),
            ),
        },
        twin={
            MLP: (
                Edit("EPOCHS = 20\n", "EPOCHS = 3\n"),
                Edit(
                    "    train_set = TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train))\n",
                    "    train_set = TensorDataset(torch.from_numpy(x_train.repeat(8, axis=0)), torch.from_numpy(y_train.repeat(8)))\n",
                ),
                Edit(
                    MLP_LOADER,
                    "    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, shuffle=True, num_workers=2, persistent_workers=True)\n",
                ),
            ),
        },
        accept=("worker-memory",),
        metric="train_s",
        fix="keep the records in arrays",
        note="the memory is that of other processes, which the result does not count",
    ),
    Fault(
        id="M05",
        kind="collected-outputs",
        layer="memory",
        edits={
            FORMER: (
                *BIG_VOCABULARY,
                Edit(
                    "            logits = model(ids)\n            real = following != PAD\n"
                    "            total += criterion(logits.flatten(0, 1), following.flatten()).item() * real.sum().item()\n"
                    "            right += ((logits.argmax(-1) == following) & real).sum().item()\n"
                    "            count += real.sum().item()\n    return total / count, right / count\n",
                    "            outputs.append(model(ids))\n            targets.append(following)\n"
                    "    logits, following = torch.cat(outputs), torch.cat(targets)\n    real = following != PAD\n"
                    "    total = criterion(logits.flatten(0, 1), following.flatten()).item()\n"
                    "    right = ((logits.argmax(-1) == following) & real).sum().item()\n"
                    "    return total, right / real.sum().item()\n",
                ),
                Edit("    total, right, count = 0.0, 0, 0\n", "    outputs, targets = [], []\n"),
            ),
        },
        twin={FORMER: BIG_VOCABULARY},
        accept=("collected-outputs",),
        metric="peak_mb",
        fix="score batch by batch",
        note="the twin has the same large vocabulary and adds up batch by batch",
    ),
    Fault(
        id="M06",
        kind="state-of-frozen-weights",
        layer="memory",
        edits={
            MLP: (
                *WIDE,
                Edit(
                    "        running, seen = 0.0, 0\n",
                    "        if epoch == 3:\n            for layer in (model.fc1, model.fc2):\n                layer.requires_grad_(False)\n"
                    "        running, seen = 0.0, 0\n",
                ),
            ),
        },
        twin={
            MLP: (
                *WIDE,
                Edit(
                    "        running, seen = 0.0, 0\n",
                    "        if epoch == 3:\n            for layer in (model.fc1, model.fc2):\n                layer.requires_grad_(False)\n"
                    "            optimizer = torch.optim.Adam(model.head.parameters(), lr=LEARNING_RATE)\n"
                    "        running, seen = 0.0, 0\n",
                ),
            ),
        },
        accept=("oversized-optimizer-state",),
        metric="peak_mb",
        fix="make a new optimizer after freezing",
        note="the twin has the same wide layers and makes a new optimizer",
    ),
    Fault(
        id="M07",
        kind="memory-pressure",
        layer="memory",
        edits={
            FORMER: (
                LIMITED,
                Edit("batch_size=32, shuffle", "batch_size=400, shuffle"),
            ),
        },
        twin={FORMER: (Edit("EPOCHS = 8\n", "EPOCHS = 3\n"), LIMITED)},
        accept=("memory-pressure",),
        metric="peak_mb",
        fix="a smaller batch, or several of them for an update",
        note="so near the limit that whoever watches from within may take what is left: then the script ends for want of memory",
        located=False,
    ),
)
