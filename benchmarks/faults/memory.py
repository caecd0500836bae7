"""Faults that take memory, more with every update."""

from benchmarks.faults._base import Edit, Fault
from benchmarks.faults.compute import CNN, CNN_STEP, FORMER, FORMER_STEP, GRU, MLP, MLP_OUT, MLP_STEP, after

GRU_STEP = "            optimizer.step()\n            epoch_loss += loss.item()\n"
START = "    start = time.perf_counter()\n"

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
)
