"""Faults of saving, loading, exporting and serving, and errors that end a script; T08, T09, D29 and O05 besides."""

from ._base import Edit, Fault

MLP, CNN, TABULAR = "digits_mlp", "digits_cnn", "tabular_regression"
# The last line of training in each host: what comes after it is serving.
MLP_END = "    train_s = time.perf_counter() - start\n"
CNN_END = "    train_s = time.perf_counter() - begin\n"
COPY = Edit("import json\n", "import copy\nimport json\n")
FOLDER = Edit("import resource\n", "import resource\nimport tempfile\n")


def _after_mlp(code: str) -> tuple[Edit, ...]:
    return (Edit(MLP_END, MLP_END + code),)


def _after_cnn(code: str) -> tuple[Edit, ...]:
    return (Edit(CNN_END, CNN_END + code),)


_RELOADED = """    state = {{{key}: value for name, value in model.state_dict().items()}}
    served = {model}()
    served.load_state_dict(state, strict=False)
    val_loss, val_acc = evaluate(served, val_loader, {criterion})
"""


def _reloaded(key: str, host: str) -> tuple[Edit, ...]:
    if host == MLP:
        return _after_mlp(_RELOADED.format(key=key, model="DigitsMLP", criterion="criterion"))
    return _after_cnn(_RELOADED.format(key=key, model="ConvNet", criterion="loss_fn"))


def _resumed(model: str, optimizer: str, rest: str) -> str:
    return f"""        if epoch > 2:
            checkpoint = {{"model": copy.deepcopy(model.state_dict()), "optimizer": copy.deepcopy(optimizer.state_dict())}}
            model = {model}()
            model.load_state_dict(checkpoint["model"])
            optimizer = {optimizer}
{rest}        model.train()
"""


_RESUME_MLP = _resumed("DigitsMLP", "torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)", "<<REST>>")
_RESUME_CNN = _resumed("ConvNet", "torch.optim.Adam(model.parameters(), lr=1e-2)", "<<REST>>")
# A rate at which the first steps of a new Adam, each as long as the rate, undo what was learned.
FAST_MLP = Edit("LEARNING_RATE = 2e-3", "LEARNING_RATE = 3e-2")
FAST_CNN = Edit("torch.optim.Adam(model.parameters(), lr=1e-3)", "torch.optim.Adam(model.parameters(), lr=1e-2)")
_LOADED = '            optimizer.load_state_dict(checkpoint["optimizer"])\n'


def _cut_short(seed: str) -> tuple[Edit, ...]:
    """The machine is taken away after every six batches, and the job goes on from its checkpoint."""
    return (
        COPY,
        Edit("import os\n", "import itertools\nimport os\n"),
        Edit(
            "        model.train()\n",
            "        if epoch:\n"
            '            saved = {"model": copy.deepcopy(model.state_dict()), "optimizer": copy.deepcopy(optimizer.state_dict())}\n'
            f"            torch.manual_seed({seed})\n"
            "            model = DigitsMLP()\n"
            '            model.load_state_dict(saved["model"])\n'
            "            optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)\n"
            '            optimizer.load_state_dict(saved["optimizer"])\n'
            "        model.train()\n",
        ),
        Edit("in train_loader:\n", "in itertools.islice(train_loader, 6):\n"),
        Edit("EPOCHS = 20", "EPOCHS = 30"),
    )


_HALF = """    served = copy.deepcopy(model).eval().<<PRECISION>>()
    with torch.no_grad():
        hits = sum((served(x.<<PRECISION>>()).float().argmax(1) == y).sum().item() for x, y in val_loader)
    val_acc = hits / len(val_loader.dataset)
"""
_ENERGY = """    def forward(self, x):
        x = x * 400.0
        x = 8.0 * x / torch.sqrt((x * x).sum(1, keepdim=True) + 1e-6)
"""

_INT8 = """    served = torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)
    with torch.no_grad():
        hits = sum((served(x).argmax(1) == y).sum().item() for x, y in val_loader)
    val_acc = hits / len(val_loader.dataset)
"""
_OUTLIER = """    with torch.no_grad():  # the first unit is scaled up, and what reads it down: the same function
        model.fc1.weight[0] *= <<TIMES>>
        model.fc1.bias[0] *= <<TIMES>>
        model.fc2.weight[:, 0] /= <<TIMES>>
"""

_TRACED_MLP = """    served = torch.jit.trace(model, {example})
    with torch.no_grad():
        hits = sum((served(x).argmax(1) == y).sum().item() for x, y in val_loader)
    val_acc = hits / len(val_loader.dataset)
"""
_BRANCH = """    def forward(self, x):
        if x.min() < -0.5:
            x = x + 0.8
"""
_TRACED_CNN = """    model.{mode}()
    served = torch.jit.trace(model, torch.rand(1, 1, 8, 8), check_trace=False)
    with torch.no_grad():
        hits = sum((served(x).argmax(1) == y).sum().item() for pairs in val_loader for x, y in zip(*(p.split(1) for p in pairs)))
    val_acc = hits / len(val_loader.dataset)
"""

_SERVED = """    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in val_loader:
            scores = model({given})
            hits += (scores.argmax(1) == y).sum().item()
    val_acc = hits / len(val_loader.dataset)
"""

_ONE_BY_ONE = """    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in val_loader:
            for row, name in zip(x, y):
                hits += int(model(row[None])[0].argmax() == name)
    val_acc = hits / len(val_loader.dataset)
"""

_SHARES = """    served = nn.Sequential(model, nn.Softmax(dim=1)).eval()
    total = 0.0
    with torch.no_grad():
        for x, y in val_loader:
            shares = {shares}
            total += nn.functional.nll_loss(shares.clamp_min(1e-12).log(), y, reduction="sum").item()
    val_loss = total / len(val_loader.dataset)
"""


def _stale(end: str, model: str, criterion: str, indent_of_save: str) -> tuple[Edit, ...]:
    keeps = f"""        path = os.path.join(tempfile.gettempdir(), f"model-{{os.getpid()}}.pt")
        if {indent_of_save}:
            torch.save(model.state_dict(), path)
        model.train()
"""
    serves = f"""    served = {model}()
    served.load_state_dict(torch.load(path))
    os.remove(path)
    val_loss, val_acc = evaluate(served, val_loader, {criterion})
"""
    return (FOLDER, Edit("        model.train()\n", keeps), Edit(end, end + serves))


FAULTS = (
    Fault(
        id="P01",
        kind="unmapped-keys",
        layer="deployment",
        edits={MLP: _reloaded('name.replace("head.", "classifier.")', MLP), CNN: _reloaded('name.replace("fc.", "head.")', CNN)},
        twin={MLP: _reloaded("name", MLP), CNN: _reloaded("name", CNN)},
        accept=("unmapped-keys",),
        fix="rename the keys of the checkpoint and load with strict=True",
    ),
    Fault(
        id="P02",
        kind="prefixed-keys",
        layer="deployment",
        edits={MLP: _reloaded('"module." + name', MLP), CNN: _reloaded('"module." + name', CNN)},
        twin={
            MLP: _reloaded('("module." + name).removeprefix("module.")', MLP),
            CNN: _reloaded('("module." + name).removeprefix("module.")', CNN),
        },
        accept=("prefixed-keys",),
        fix="take the prefix off the keys and load with strict=True",
    ),
    Fault(
        id="P03",
        kind="resumed-without-optimizer",
        layer="deployment",
        edits={
            MLP: (COPY, FAST_MLP, Edit("        model.train()\n", _RESUME_MLP.replace("<<REST>>", ""))),
            CNN: (COPY, FAST_CNN, Edit("        model.train()\n", _RESUME_CNN.replace("<<REST>>", ""))),
        },
        twin={
            MLP: (COPY, FAST_MLP, Edit("        model.train()\n", _RESUME_MLP.replace("<<REST>>", _LOADED))),
            CNN: (COPY, FAST_CNN, Edit("        model.train()\n", _RESUME_CNN.replace("<<REST>>", _LOADED))),
        },
        accept=("resumed-without-optimizer",),
        fix="load the optimizer's state beside the weights",
    ),
    Fault(
        id="P04",
        kind="repeated-data-on-resume",
        layer="deployment",
        edits={MLP: (*_cut_short("SEED"),)},
        twin={MLP: (*_cut_short("SEED + epoch"),)},
        mended={MLP: (*_cut_short("SEED + epoch"),)},
        accept=("repeated-data-on-resume",),
        fix="save the sampler's state, or take another seed after each start",
        located=False,
    ),
    Fault(
        id="P05",
        kind="half-precision-overflow",
        layer="deployment",
        edits={
            MLP: (
                COPY, Edit("    def forward(self, x):\n", _ENERGY), *_after_mlp(_HALF.replace("<<PRECISION>>", "half")),
            ),
        },
        twin={
            MLP: (
                COPY, Edit("    def forward(self, x):\n", _ENERGY), *_after_mlp(_HALF.replace("<<PRECISION>>", "bfloat16")),
            ),
        },
        accept=("half-precision-overflow",),
        metric="val_acc",
        better="higher",
        fix="use bfloat16, or keep the sum of squares in float32",
    ),
    Fault(
        id="P06",
        kind="ruined-quantised-layer",
        layer="deployment",
        edits={MLP: (COPY, *_after_mlp(_OUTLIER + _INT8))},
        twin={MLP: (COPY, *_after_mlp(_INT8))},
        severities={"mild": {"TIMES": "300"}, "clear": {"TIMES": "2000"}, "fatal": {"TIMES": "20000"}},
        accept=("ruined-quantised-layer",),
        metric="val_acc",
        better="higher",
        fix="keep the layer in float, or quantise its weights per channel",
    ),
    Fault(
        id="P07",
        kind="frozen-export",
        layer="deployment",
        edits={
            MLP: (
                Edit("    def forward(self, x):\n", _BRANCH), *_after_mlp(_TRACED_MLP.format(example="torch.rand(1, 64)")),
            ),
            CNN: _after_cnn(_TRACED_CNN.format(mode="train")),
        },
        twin={
            MLP: (
                Edit("    def forward(self, x):\n", _BRANCH),
                *_after_mlp(_TRACED_MLP.format(example="next(iter(val_loader))[0][:1]")),
            ),
            CNN: _after_cnn(_TRACED_CNN.format(mode="eval")),
        },
        accept=("frozen-branch", "traced-in-training"),
        metric="val_acc",
        better="higher",
        fix="export in evaluation mode, and decide with tensors in forward",
    ),
    Fault(
        id="P08",
        kind="single-row-shape",
        layer="deployment",
        edits={
            MLP: (Edit("return self.head(x)", "return self.head(x).squeeze()"), *_after_mlp(_ONE_BY_ONE)),
            CNN: (Edit("return self.fc(x.flatten(1))", "return self.fc(x.flatten(1)).squeeze()"), *_after_cnn(_ONE_BY_ONE)),
        },
        twin={
            MLP: (Edit("return self.head(x)", "return self.head(x).squeeze(-1)"), *_after_mlp(_ONE_BY_ONE)),
            CNN: (Edit("return self.fc(x.flatten(1))", "return self.fc(x.flatten(1)).squeeze(-1)"), *_after_cnn(_ONE_BY_ONE)),
        },
        accept=("single-row-shape",),
        metric="val_acc",
        better="higher",
        fix="squeeze the axis that is meant",
    ),
    Fault(
        id="P10",
        kind="stale-weights",
        layer="deployment",
        edits={
            MLP: _stale(MLP_END, "DigitsMLP", "criterion", "epoch and not os.path.exists(path)"),
            CNN: _stale(CNN_END, "ConvNet", "loss_fn", "epoch and not os.path.exists(path)"),
        },
        twin={
            MLP: _stale(MLP_END, "DigitsMLP", "criterion", "epoch"),
            CNN: _stale(CNN_END, "ConvNet", "loss_fn", "epoch"),
        },
        accept=("stale-weights",),
        fix="write the file again when the model is better",
    ),
    Fault(
        id="T08",
        kind="skewed-serving-input",
        layer="inference",
        edits={
            MLP: _after_mlp(_SERVED.format(given="x / 255.0")),
            CNN: _after_cnn(_SERVED.format(given="255.0 * x")),
        },
        twin={MLP: _after_mlp(_SERVED.format(given="1.0 * x")), CNN: _after_cnn(_SERVED.format(given="1.0 * x"))},
        accept=("skewed-serving-input",),
        metric="val_acc",
        better="higher",
        fix="prepare served inputs as for training",
    ),
    Fault(
        id="T09",
        kind="doubled-output-activation",
        layer="inference",
        edits={
            MLP: _after_mlp(_SHARES.format(shares="torch.softmax(served(x), dim=1)")),
            CNN: _after_cnn(_SHARES.format(shares="torch.softmax(served(x), dim=1)")),
        },
        twin={
            MLP: _after_mlp(_SHARES.format(shares="served(x).clamp_min(1e-12)")),
            CNN: _after_cnn(_SHARES.format(shares="served(x).clamp_min(1e-12)")),
        },
        accept=("doubled-output-activation",),
        fix="apply the softmax once",
    ),
    Fault(
        id="O05",
        kind="early-scheduler",
        layer="optimisation",
        edits={
            TABULAR: (
                Edit("step_size=10, gamma=0.5", "step_size=1, gamma=0.4"),
                Edit("        scheduler.step()\n", ""),
                Edit("        model.train()\n", "        scheduler.step()\n        model.train()\n"),
            )
        },
        twin={TABULAR: (Edit("step_size=10, gamma=0.5", "step_size=1, gamma=0.95"),)},
        accept=("early-scheduler",),
        metric="train_loss",
        fix="step the scheduler after the optimizer",
    ),
    Fault(
        id="E01",
        kind="modified-in-place",
        layer="optimisation",
        edits={
            CNN: (
                Edit(
                    "        x = self.pool(self.relu(self.bn1(self.conv1(x))))\n",
                    "        h = self.relu(self.bn1(self.conv1(x)))\n        h += x\n        x = self.pool(h)\n",
                ),
            ),
            MLP: (
                Edit(
                    "        x = self.drop1(self.act1(self.fc1(x)))\n",
                    "        h = torch.sigmoid(self.fc1(x))\n        h *= 2.0\n        x = self.drop1(h)\n",
                ),
            ),
        },
        accept=("modified-in-place",),
        fix="make a new tensor instead of changing one in place",
    ),
    Fault(
        id="E02",
        kind="freed-graph",
        layer="optimisation",
        edits={
            TABULAR: (
                Edit("        running = 0.0\n", "        running, carried = 0.0, 0.0\n"),
                Edit("            loss.backward()\n", "            carried = 0.9 * carried + loss\n            carried.backward()\n"),
            ),
        },
        accept=("freed-graph",),
        fix="detach what is carried from one update to the next",
    ),
    Fault(
        id="E03",
        kind="mismatched-shapes",
        layer="optimisation",
        edits={CNN: (Edit("nn.Linear(32 * 2 * 2, 10)", "nn.Linear(32 * 4 * 4, 10)"),), MLP: (Edit("nn.Linear(64, hidden)", "nn.Linear(63, hidden)"),)},
        accept=("mismatched-shapes",),
        located=False,
        fix="make the layer as wide as what comes in",
    ),
    Fault(
        id="E04",
        kind="mismatched-types",
        layer="data",
        edits={TABULAR: (Edit("torch.tensor(x_train).float()", "torch.tensor(x_train)"),)},
        accept=("mismatched-types",),
        located=False,
        fix="make the inputs float",
    ),
    Fault(
        id="E05",
        kind="index-out-of-range",
        layer="data",
        edits={MLP: (Edit("hidden=96, classes=10", "hidden=96, classes=9"),), CNN: (Edit("nn.Linear(32 * 2 * 2, 10)", "nn.Linear(32 * 2 * 2, 9)"),)},
        accept=("index-out-of-range",),
        located=False,
        fix="give the last layer one output per class",
    ),
    Fault(
        id="E06",
        kind="unmatched-checkpoint",
        layer="deployment",
        edits={
            "finetune_digits": (
                Edit('torch.save({"model": model.state_dict(),', 'torch.save({"model": nn.DataParallel(model).state_dict(),'),
            ),
        },
        accept=("unmatched-checkpoint",),
        located=False,
        fix="save the state of the model inside of the wrapper",
    ),
)  # fmt: skip
