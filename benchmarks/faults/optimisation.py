"""Faults of optimisation: rates, order, initialisation, what the optimizer holds, and what reaches the weights."""

from benchmarks.faults._base import Edit, Fault

MLP, FUNCTIONAL, TRAINER = "digits_mlp", "digits_mlp_functional", "digits_mlp_trainer"
CNN, GRU, FINE = "digits_cnn", "sequences_gru", "finetune_digits"
TABLE, PRICES, CHARS, RECOMMENDER = (
    "tabular_regression",
    "tabular_regression_trainer",
    "chars_transformer",
    "recommender",
)

MLP_ADAM = "    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)\n"
CNN_ADAM = "    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n"
GRU_ADAM = "    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)\n"
FUNCTIONAL_SGD = "    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)\n"
CHARS_ADAM = "    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)\n"
MLP_LOOP = """            optimizer.zero_grad()
            outputs = model(inputs)
            loss = criterion(outputs, targets)
            loss.backward()
            optimizer.step()
"""
CNN_LOOP = """            optimizer.zero_grad()
            logits = model(x)
            loss = loss_fn(logits, y)
            loss.backward()
            optimizer.step()
"""
FUNCTIONAL_LOOP = """            opt.zero_grad()
            loss.backward()
            opt.step()
"""
GRU_CLIP = "            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n"
HEAD = "        self.head = nn.Linear(hidden, classes)\n\n    def forward"
OUT = "        self.out = nn.Linear(64, 10)\n"


def _sgd(rate: str, **more: str) -> str:
    rest = "".join(f", {name}={value}" for name, value in more.items())
    return f"    optimizer = torch.optim.SGD(model.parameters(), lr={rate}{rest})\n"


FAULTS = (
    Fault(
        id="O01",
        kind="learning-rate-too-high-diverges",
        layer="optimisation",
        edits={
            FUNCTIONAL: (Edit("lr = 0.03\n", "lr = <<RATE>>\n"),),
            MLP: (Edit(MLP_ADAM, _sgd("<<RATE>>", momentum="0.9")),),
        },
        twin={FUNCTIONAL: (Edit("lr = 0.03\n", "lr = 0.04\n"),), MLP: (Edit(MLP_ADAM, _sgd("0.03", momentum="0.9")),)},
        severities={"mild": {"RATE": "1.5"}, "clear": {"RATE": "3.0"}, "fatal": {"RATE": "10.0"}},
        accept=("exploding-learning-rate",),
        fix="lower the learning rate a hundredfold",
    ),
    Fault(
        id="O02",
        kind="learning-rate-too-high-stuck",
        layer="optimisation",
        edits={
            MLP: (Edit("LEARNING_RATE = 2e-3\n", "LEARNING_RATE = <<RATE>>\n"),),
            GRU: (Edit(GRU_ADAM, GRU_ADAM.replace("5e-3", "<<RATE>>")),),
        },
        twin={MLP: (Edit("LEARNING_RATE = 2e-3\n", "LEARNING_RATE = 4e-3\n"),)},
        severities={"mild": {"RATE": "0.3"}, "clear": {"RATE": "1.0"}, "fatal": {"RATE": "5.0"}},
        accept=("exploding-learning-rate", "dead-units"),
        fix="lower the learning rate",
    ),
    Fault(
        id="O03",
        kind="learning-rate-too-low",
        layer="optimisation",
        edits={
            MLP: (Edit("LEARNING_RATE = 2e-3\n", "LEARNING_RATE = <<RATE>>\n"),),
            CNN: (Edit(CNN_ADAM, CNN_ADAM.replace("1e-3", "<<RATE>>")),),
            FUNCTIONAL: (Edit("lr = 0.03\n", "lr = <<RATE>>\n"),),
            PRICES: (Edit("lr=3e-3", "lr=<<RATE>>"),),
        },
        twin={MLP: (Edit("LEARNING_RATE = 2e-3\n", "LEARNING_RATE = 1e-3\n"),)},
        severities={"mild": {"RATE": "1e-5"}, "clear": {"RATE": "2e-6"}, "fatal": {"RATE": "1e-7"}},
        accept=("learning-rate-too-low",),
        fix="raise the learning rate",
    ),
    Fault(
        id="O04",
        kind="schedule-stepped-per-batch",
        layer="optimisation",
        edits={
            TABLE: (
                Edit("            optimizer.step()\n", "            optimizer.step()\n            scheduler.step()\n"),
                Edit("        scheduler.step()\n        train_loss", "        train_loss"),
            ),
            PRICES: (
                Edit(
                    "            self.optimizer.step()\n",
                    "            self.optimizer.step()\n            self.scheduler.step()\n",
                ),
                Edit("        self.scheduler.step()\n        return", "        return"),
                Edit("gamma=0.9)", "gamma=<<GAMMA>>)"),
            ),
            MLP: (
                Edit(
                    MLP_ADAM,
                    MLP_ADAM + "    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=<<GAMMA>>)\n",
                ),
                Edit(
                    "            optimizer.step()\n",
                    "            optimizer.step()\n            scheduler.step()\n",
                ),
            ),
        },
        twin={
            MLP: (
                Edit(
                    MLP_ADAM,
                    MLP_ADAM + "    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)\n",
                ),
                Edit("            optimizer.step()\n", "            optimizer.step()\n            scheduler.step()\n"),
            ),
        },
        severities={"mild": {"GAMMA": "0.85"}, "clear": {"GAMMA": "0.7"}, "fatal": {"GAMMA": "0.3"}},
        accept=("early-decay",),
        fix="step the schedule once per epoch",
    ),
    Fault(
        id="O06",
        kind="missing-warm-up",
        layer="optimisation",
        edits={CHARS: (Edit(CHARS_ADAM, CHARS_ADAM.replace("4e-3", "<<RATE>>")),)},
        severities={"clear": {"RATE": "0.3"}, "fatal": {"RATE": "2.0"}},
        accept=("exploding-learning-rate",),
        fix="warm the learning rate up, or lower it",
    ),
    Fault(
        id="O07",
        kind="zero-grad-missing",
        layer="optimisation",
        edits={
            MLP: (Edit(MLP_LOOP, MLP_LOOP.replace("            optimizer.zero_grad()\n", "")),),
            FUNCTIONAL: (Edit(FUNCTIONAL_LOOP, FUNCTIONAL_LOOP.replace("            opt.zero_grad()\n", "")),),
            CNN: (Edit(CNN_LOOP, CNN_LOOP.replace("            optimizer.zero_grad()\n", "")),),
        },
        twin={
            MLP: (
                Edit(
                    MLP_LOOP,
                    MLP_LOOP.replace("            optimizer.zero_grad()\n", "")
                    + "            for parameter in model.parameters():\n                parameter.grad = None\n",
                ),
            ),
            FUNCTIONAL: (
                Edit(
                    FUNCTIONAL_LOOP,
                    "            loss.backward()\n            opt.step()\n            opt.zero_grad()\n",
                ),
            ),
        },
        accept=("uncleared-gradients",),
        fix="call optimizer.zero_grad() before the backward pass",
    ),
    Fault(
        id="O08",
        kind="zero-grad-before-step",
        layer="optimisation",
        edits={
            MLP: (
                Edit(
                    MLP_LOOP,
                    MLP_LOOP.replace("            optimizer.zero_grad()\n", "").replace(
                        "            optimizer.step()\n",
                        "            optimizer.zero_grad()\n            optimizer.step()\n",
                    ),
                ),
            ),
            FUNCTIONAL: (
                Edit(
                    FUNCTIONAL_LOOP,
                    "            loss.backward()\n            opt.zero_grad(set_to_none=False)\n            opt.step()\n",
                ),
            ),
            TRAINER: (
                Edit("            self.optimizer.zero_grad(set_to_none=True)\n", ""),
                Edit(
                    "            self.optimizer.step()\n",
                    "            self.model.zero_grad()\n            self.optimizer.step()\n",
                ),
            ),
        },
        twin={
            FUNCTIONAL: (
                Edit(
                    FUNCTIONAL_LOOP,
                    "            loss.backward()\n            opt.step()\n            opt.zero_grad(set_to_none=False)\n",
                ),
            ),
        },
        accept=("cleared-before-step",),
        fix="clear gradients before the backward pass",
    ),
    Fault(
        id="O09",
        kind="optimizer-holds-stale-parameters",
        layer="optimisation",
        edits={
            MLP: (Edit(MLP_ADAM, MLP_ADAM + "    model = DigitsMLP()\n"),),
            FUNCTIONAL: (Edit(FUNCTIONAL_SGD, FUNCTIONAL_SGD + "    net.out = nn.Linear(64, 10)\n"),),
            CNN: (
                Edit(CNN_ADAM, CNN_ADAM + "    model = copy.deepcopy(model)\n"),
                Edit("import json\n", "import copy\nimport json\n"),
            ),
        },
        twin={
            MLP: (Edit(MLP_ADAM, "    model = DigitsMLP()\n" + MLP_ADAM),),
            FUNCTIONAL: (Edit(FUNCTIONAL_SGD, "    net.out = nn.Linear(64, 10)\n" + FUNCTIONAL_SGD),),
        },
        accept=("stale-optimizer",),
        fix="build the optimizer after the model",
    ),
    Fault(
        id="O10",
        kind="submodules-in-plain-list",
        layer="optimisation",
        edits={
            MLP: (
                Edit(
                    HEAD,
                    "        self.blocks = [nn.Linear(hidden, hidden) for _ in range(<<DEPTH>>)]\n" + HEAD,
                ),
                Edit(
                    "        x = self.drop2(self.act2(self.fc2(x)))\n",
                    "        x = self.drop2(self.act2(self.fc2(x)))\n        for block in self.blocks:\n"
                    "            x = torch.relu(block(x))\n",
                ),
            ),
            FUNCTIONAL: (
                Edit(OUT, OUT + "        self.extra = {'one': nn.Linear(64, 12), 'two': nn.Linear(12, 64)}\n"),
                Edit(
                    "        return self.out(h)\n",
                    "        h = F.relu(self.extra['two'](F.relu(self.extra['one'](h))))\n        return self.out(h)\n",
                ),
            ),
        },
        twin={
            MLP: (
                Edit(
                    HEAD,
                    "        self.blocks = nn.ModuleList([nn.Linear(hidden, hidden)])\n" + HEAD,
                ),
                Edit(
                    "        x = self.drop2(self.act2(self.fc2(x)))\n",
                    "        x = self.drop2(self.act2(self.fc2(x)))\n        for block in self.blocks:\n"
                    "            x = torch.relu(block(x))\n",
                ),
            ),
        },
        severities={"mild": {"DEPTH": "2"}, "clear": {"DEPTH": "3"}, "fatal": {"DEPTH": "5"}},
        accept=("hidden-parameters",),
        fix="use nn.ModuleList or nn.ModuleDict",
    ),
    Fault(
        id="O11",
        kind="cut-graph",
        layer="optimisation",
        edits={
            MLP: (
                Edit(
                    "        x = self.drop2(self.act2(self.fc2(x)))\n",
                    "        x = self.drop2(self.act2(self.fc2(x))).detach()\n",
                ),
            ),
            FUNCTIONAL: (Edit("        h = F.relu(self.lin2(h))\n", "        h = F.relu(self.lin2(h)).data\n"),),
            GRU: (Edit("        last = states[:, -1]\n", "        last = states[:, -1].detach()\n"),),
        },
        accept=("unreached-parameters", "detached-loss"),
        fix="take the detach away",
    ),
    Fault(
        id="O12",
        kind="everything-frozen-but-norms",
        layer="optimisation",
        edits={
            CNN: (
                Edit(
                    CNN_ADAM,
                    "    for name, parameter in model.named_parameters():\n"
                    '        parameter.requires_grad = "bn1" in name\n'
                    + CNN_ADAM.replace("model.parameters()", "[p for p in model.parameters() if p.requires_grad]"),
                ),
            ),
            CHARS: (
                Edit(
                    CHARS_ADAM,
                    "    for name, parameter in model.named_parameters():\n"
                    '        parameter.requires_grad = "norm" in name\n'
                    + CHARS_ADAM.replace("model.parameters()", "[p for p in model.parameters() if p.requires_grad]"),
                ),
            ),
        },
        accept=("frozen-model",),
        fix="unfreeze the head",
    ),
    Fault(
        id="O13",
        kind="freeze-not-applied",
        layer="optimisation",
        edits={
            FINE: (
                Edit(
                    "    for parameter in model.backbone.parameters():\n        parameter.requires_grad = False\n",
                    "    model.backbone.requires_grad = False\n",
                ),
                Edit(
                    "    optimizer = torch.optim.Adam(model.head.parameters(), lr=5e-3)\n",
                    "    optimizer = torch.optim.Adam(model.parameters(), lr=<<RATE>>)\n",
                ),
            ),
        },
        severities={"mild": {"RATE": "5e-2"}, "clear": {"RATE": "0.2"}, "fatal": {"RATE": "1.0"}},
        accept=("ineffective-freeze",),
        fix="call model.backbone.requires_grad_(False)",
    ),
    Fault(
        id="O14",
        kind="constant-initialisation",
        layer="optimisation",
        edits={
            MLP: (
                Edit(
                    HEAD,
                    HEAD.replace(
                        "\n\n    def forward",
                        "\n        for layer in (self.fc1, self.fc2, self.head):\n"
                        "            nn.init.constant_(layer.weight, <<VALUE>>)\n"
                        "            nn.init.zeros_(layer.bias)\n\n    def forward",
                    ),
                ),
            ),
            FUNCTIONAL: (
                Edit(
                    OUT,
                    OUT + "        for layer in (self.lin1, self.lin2, self.out):\n"
                    "            nn.init.constant_(layer.weight, <<VALUE>>)\n",
                ),
            ),
        },
        twin={
            MLP: (
                Edit(
                    HEAD,
                    HEAD.replace(
                        "\n\n    def forward", "\n        nn.init.zeros_(self.head.weight)\n\n    def forward"
                    ),
                ),
            )
        },
        severities={"mild": {"VALUE": "0.01"}, "clear": {"VALUE": "0.05"}, "fatal": {"VALUE": "0.0"}},
        accept=("constant-initialisation",),
        fix="leave the default initialisation",
    ),
    Fault(
        id="O15",
        kind="initialisation-too-large",
        layer="optimisation",
        edits={
            MLP: (
                Edit(
                    HEAD,
                    HEAD.replace(
                        "\n\n    def forward",
                        "\n        for layer in (self.fc1, self.fc2, self.head):\n"
                        "            nn.init.normal_(layer.weight, std=<<STD>>)\n\n    def forward",
                    ),
                ),
            ),
            FUNCTIONAL: (
                Edit(
                    OUT,
                    OUT + "        for layer in (self.lin1, self.lin2, self.out):\n"
                    "            nn.init.normal_(layer.weight, 0.0, <<STD>>)\n",
                ),
            ),
        },
        twin={
            MLP: (
                Edit(
                    HEAD,
                    HEAD.replace(
                        "\n\n    def forward",
                        "\n        for layer in (self.fc1, self.fc2, self.head):\n"
                        "            nn.init.normal_(layer.weight, std=0.12)\n\n    def forward",
                    ),
                ),
            ),
        },
        severities={"mild": {"STD": "0.6"}, "clear": {"STD": "1.0"}, "fatal": {"STD": "4.0"}},
        accept=("inflated-initialisation",),
        fix="use Kaiming initialisation",
    ),
    Fault(
        id="O16",
        kind="initialisation-too-small",
        layer="optimisation",
        edits={
            FUNCTIONAL: (
                Edit(
                    OUT,
                    OUT + "        for layer in (self.lin1, self.lin2, self.out):\n"
                    "            nn.init.normal_(layer.weight, 0.0, <<STD>>)\n            nn.init.zeros_(layer.bias)\n",
                ),
            ),
            PRICES: (
                Edit(
                    "        self.out = nn.Linear(hidden, 1)\n",
                    "        self.out = nn.Linear(hidden, 1)\n        for layer in (self.body[0], self.body[2], self.out):\n"
                    "            nn.init.normal_(layer.weight, std=<<STD>>)\n            nn.init.zeros_(layer.bias)\n",
                ),
                Edit("torch.optim.Adam(model.parameters(), lr=3e-3)", "torch.optim.SGD(model.parameters(), lr=0.05)"),
            ),
        },
        twin={
            PRICES: (
                Edit("torch.optim.Adam(model.parameters(), lr=3e-3)", "torch.optim.SGD(model.parameters(), lr=0.05)"),
            ),
        },
        severities={"mild": {"STD": "1e-3"}, "clear": {"STD": "1e-4"}, "fatal": {"STD": "1e-6"}},
        accept=("shrunken-initialisation",),
        fix="use Kaiming initialisation",
    ),
    Fault(
        id="O17",
        kind="vanishing-gradient-deep-sigmoid",
        layer="optimisation",
        edits={
            MLP: (
                Edit(
                    HEAD,
                    "        self.deep = nn.Sequential(*[m for _ in range(<<DEPTH>>) for m in (nn.Linear(hidden, hidden), nn.Sigmoid())])\n"
                    + HEAD,
                ),
                Edit("        return self.head(x)\n", "        return self.head(self.deep(x))\n"),
            ),
            FUNCTIONAL: (
                Edit(OUT, OUT + "        self.deep = nn.ModuleList([nn.Linear(64, 64) for _ in range(<<DEPTH>>)])\n"),
                Edit(
                    "        return self.out(h)\n",
                    "        for layer in self.deep:\n            h = torch.sigmoid(layer(h))\n        return self.out(h)\n",
                ),
            ),
        },
        twin={
            FUNCTIONAL: (
                Edit(OUT, OUT + "        self.deep = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])\n"),
                Edit(
                    "        return self.out(h)\n",
                    "        for layer in self.deep:\n            h = h + torch.relu(layer(h))\n        return self.out(h)\n",
                ),
            ),
        },
        severities={"mild": {"DEPTH": "6"}, "clear": {"DEPTH": "10"}, "fatal": {"DEPTH": "16"}},
        accept=("vanishing-gradient",),
        fix="use ReLU, residual connections or norm layers",
    ),
    Fault(
        id="O19",
        kind="dead-relu",
        layer="optimisation",
        edits={
            MLP: (
                Edit(
                    HEAD,
                    HEAD.replace(
                        "\n\n    def forward", "\n        nn.init.constant_(self.fc2.bias, <<BIAS>>)\n\n    def forward"
                    ),
                ),
            ),
            FUNCTIONAL: (Edit(OUT, OUT + "        nn.init.constant_(self.lin2.bias, <<BIAS>>)\n"),),
        },
        twin={FUNCTIONAL: (Edit(OUT, OUT + "        nn.init.constant_(self.lin2.bias, -0.1)\n"),)},
        severities={"mild": {"BIAS": "-5.0"}, "clear": {"BIAS": "-20.0"}, "fatal": {"BIAS": "-100.0"}},
        accept=("dead-units",),
        fix="initialise the bias at zero",
    ),
    Fault(
        id="O32",
        kind="adam-epsilon-too-large",
        layer="optimisation",
        edits={
            MLP: (Edit(MLP_ADAM, MLP_ADAM.replace("LEARNING_RATE)", "LEARNING_RATE, eps=<<EPS>>)")),),
            CNN: (Edit(CNN_ADAM, CNN_ADAM.replace("1e-3)", "1e-3, eps=<<EPS>>)")),),
        },
        twin={MLP: (Edit(MLP_ADAM, MLP_ADAM.replace("LEARNING_RATE)", "LEARNING_RATE, eps=1e-6)")),)},
        severities={"mild": {"EPS": "0.3"}, "clear": {"EPS": "1.0"}, "fatal": {"EPS": "100.0"}},
        accept=("overwhelming-epsilon",),
        fix="leave eps at 1e-8",
    ),
    Fault(
        id="O33",
        kind="weight-decay-too-strong",
        layer="optimisation",
        edits={
            MLP: (Edit(MLP_ADAM, MLP_ADAM.replace("LEARNING_RATE)", "LEARNING_RATE, weight_decay=<<DECAY>>)")),),
            FUNCTIONAL: (Edit("weight_decay=1e-4", "weight_decay=<<DECAY>>"),),
            TABLE: (Edit("weight_decay=1e-3", "weight_decay=<<DECAY>>"),),
        },
        twin={MLP: (Edit(MLP_ADAM, MLP_ADAM.replace("LEARNING_RATE)", "LEARNING_RATE, weight_decay=1e-4)")),)},
        severities={"mild": {"DECAY": "0.3"}, "clear": {"DECAY": "0.7"}, "fatal": {"DECAY": "3.0"}},
        accept=("overwhelming-weight-decay",),
        fix="lower the weight decay",
    ),
    Fault(
        id="O35",
        kind="momentum-too-high",
        layer="optimisation",
        edits={
            FUNCTIONAL: (Edit("momentum=0.9", "momentum=<<MOMENTUM>>"),),
            MLP: (Edit(MLP_ADAM, _sgd("0.05", momentum="<<MOMENTUM>>")),),
        },
        twin={MLP: (Edit(MLP_ADAM, _sgd("0.05", momentum="0.9")),)},
        severities={"mild": {"MOMENTUM": "0.995"}, "clear": {"MOMENTUM": "0.999"}, "fatal": {"MOMENTUM": "0.9999"}},
        accept=("overlong-momentum",),
        fix="momentum 0.9",
    ),
    Fault(
        id="O36",
        kind="clip-threshold-tiny",
        layer="optimisation",
        edits={
            FUNCTIONAL: (
                Edit(
                    "            opt.step()\n",
                    "            torch.nn.utils.clip_grad_norm_(net.parameters(), <<LIMIT>>)\n            opt.step()\n",
                ),
            ),
            GRU: (
                Edit(GRU_CLIP, GRU_CLIP.replace("max_norm=1.0", "max_norm=<<LIMIT>>")),
                Edit(GRU_ADAM, _sgd("0.05", momentum="0.9")),
            ),
        },
        twin={
            FUNCTIONAL: (
                Edit(
                    "            opt.step()\n",
                    "            torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)\n            opt.step()\n",
                ),
            ),
        },
        severities={"mild": {"LIMIT": "3e-3"}, "clear": {"LIMIT": "1e-3"}, "fatal": {"LIMIT": "1e-5"}},
        accept=("tiny-clip",),
        fix="clip near the 90th percentile of the norms",
    ),
    Fault(
        id="O38",
        kind="accumulation-not-divided",
        layer="optimisation",
        edits={
            FUNCTIONAL: (
                Edit("lr = 0.03\n", "lr = 0.3\nmicro_batches = <<K>>\n"),
                Edit("momentum=0.9, ", ""),
                Edit("batch_size = 32\n", "batch_size = 8\n"),
                Edit(
                    "        for xb, yb in train_dl:\n",
                    "        opt.zero_grad()\n        for i, (xb, yb) in enumerate(train_dl):\n",
                ),
                Edit(
                    FUNCTIONAL_LOOP,
                    "            loss.backward()\n            if (i + 1) % micro_batches == 0:\n                opt.step()\n"
                    "                opt.zero_grad()\n",
                ),
            ),
        },
        twin={
            FUNCTIONAL: (
                Edit("lr = 0.03\n", "lr = 0.3\nmicro_batches = 16\n"),
                Edit("momentum=0.9, ", ""),
                Edit("batch_size = 32\n", "batch_size = 8\n"),
                Edit(
                    "        for xb, yb in train_dl:\n",
                    "        opt.zero_grad()\n        for i, (xb, yb) in enumerate(train_dl):\n",
                ),
                Edit(
                    FUNCTIONAL_LOOP,
                    "            (loss / micro_batches).backward()\n            if (i + 1) % micro_batches == 0:\n                opt.step()\n"
                    "                opt.zero_grad()\n",
                ),
            ),
        },
        severities={"mild": {"K": "12"}, "clear": {"K": "24"}, "fatal": {"K": "48"}},
        accept=("undivided-accumulation",),
        fix="divide the loss by the number of micro-batches",
    ),
    Fault(
        id="O40",
        kind="low-precision-underflow",
        layer="optimisation",
        edits={
            FUNCTIONAL: (
                Edit(
                    FUNCTIONAL_LOOP,
                    "            opt.zero_grad()\n            (loss * <<SCALE>>).backward()\n            for p in net.parameters():\n"
                    "                p.grad = p.grad.half().float() / <<SCALE>>\n            opt.step()\n",
                ),
            ),
        },
        severities={"clear": {"SCALE": "1e-6"}, "fatal": {"SCALE": "1e-8"}},
        accept=("flushed-gradients",),
        fix="scale the loss up, or keep gradients in bfloat16",
    ),
    Fault(
        id="O42",
        kind="batch-too-small-for-rate",
        layer="optimisation",
        edits={
            FUNCTIONAL: (
                Edit("batch_size = 32\n", "batch_size = 1\n"),
                Edit("lr = 0.03\n", "lr = 0.5\n"),
                Edit("epochs = 20\n", "epochs = 3\n"),
            ),
        },
        accept=("exploding-learning-rate",),
        fix="a larger batch or a lower rate",
    ),
    Fault(
        id="O43",
        kind="weights-overwritten-in-forward",
        layer="optimisation",
        edits={
            MLP: (
                Edit(
                    "    def forward(self, x):\n",
                    "    def forward(self, x):\n        nn.init.xavier_uniform_(self.fc2.weight)\n",
                ),
            ),
            FUNCTIONAL: (
                Edit(
                    "    def forward(self, x):\n",
                    "    def forward(self, x):\n        self.lin2.weight.data.normal_(0, 0.1)\n",
                ),
            ),
        },
        twin={
            FUNCTIONAL: (
                Edit(
                    "            opt.step()\n",
                    "            opt.step()\n            with torch.no_grad():\n                net.lin2.weight.clamp_(-0.5, 0.5)\n",
                ),
            ),
        },
        accept=("overwritten-weights",),
        fix="initialise once, in __init__",
    ),
    Fault(
        id="O44",
        kind="model-rebuilt-each-epoch",
        layer="optimisation",
        edits={
            MLP: (
                Edit(
                    "        model.train()\n",
                    "        model = DigitsMLP()\n"
                    + MLP_ADAM.replace("    ", "        ", 1)
                    + "        model.train()\n",
                ),
            ),
            CNN: (
                Edit(
                    "        model.train()\n",
                    "        model = ConvNet()\n" + CNN_ADAM.replace("    ", "        ", 1) + "        model.train()\n",
                ),
            ),
        },
        accept=("rebuilt-model",),
        fix="build the model before the loop",
    ),
    Fault(
        id="O47",
        kind="group-learning-rate-zero",
        layer="optimisation",
        edits={
            MLP: (
                Edit(
                    MLP_ADAM,
                    "    head = list(model.head.parameters())\n    body = [*model.fc1.parameters(), *model.fc2.parameters()]\n"
                    '    groups = [{"params": body, "lr": 0.0}, {"params": head}]\n'
                    "    optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE)\n",
                ),
            ),
            GRU: (
                Edit(
                    GRU_ADAM,
                    '    groups = [{"params": model.gru.parameters(), "lr": 0.0}, {"params": model.head.parameters()}]\n'
                    "    optimizer = torch.optim.Adam(groups, lr=5e-3)\n",
                ),
            ),
        },
        twin={
            MLP: (
                Edit(
                    MLP_ADAM,
                    "    head = list(model.head.parameters())\n    body = [*model.fc1.parameters(), *model.fc2.parameters()]\n"
                    '    groups = [{"params": body, "lr": 1e-3}, {"params": head}]\n'
                    "    optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE)\n",
                ),
            ),
        },
        accept=("zero-learning-rate",),
        fix="give the group a learning rate",
    ),
    Fault(
        id="O49",
        kind="hidden-nan",
        layer="optimisation",
        edits={
            FUNCTIONAL: (
                Edit("lr = 0.03\n", "lr = 30.0\n"),
                Edit(
                    "            loss = F.cross_entropy(pred, yb)\n",
                    "            loss = torch.nan_to_num(F.cross_entropy(pred, yb), 0.0, 0.0, 0.0)\n",
                ),
            ),
        },
        metric="val_acc",
        better="higher",
        accept=("hidden-nan", "exploding-learning-rate"),
        fix="take nan_to_num away and lower the learning rate",
    ),
    Fault(
        id="O54",
        kind="embedding-tied-by-copy",
        layer="optimisation",
        edits={
            CHARS: (
                Edit(
                    "        self.head = nn.Linear(width, len(ALPHABET))\n",
                    "        self.head = nn.Linear(width, len(ALPHABET))\n"
                    "        self.head.weight = nn.Parameter(self.tokens.weight.detach().clone())\n",
                ),
            ),
        },
        twin={
            CHARS: (
                Edit(
                    "        self.head = nn.Linear(width, len(ALPHABET))\n",
                    "        self.head = nn.Linear(width, len(ALPHABET))\n        self.head.weight = self.tokens.weight\n",
                ),
            ),
        },
        accept=("untied-weights",),
        fix="share the parameter itself",
    ),
    Fault(
        id="O18",
        kind="exploding-gradient",
        layer="optimisation",
        edits={
            GRU: (
                Edit("STEPS = 24\n", "STEPS = 40\n"),
                Edit(
                    "        self.gru = nn.GRU(input_size=1, hidden_size=hidden, batch_first=True)\n",
                    "        self.gru = nn.RNN(input_size=1, hidden_size=hidden, batch_first=True, nonlinearity='relu')\n"
                    "        nn.init.eye_(self.gru.weight_hh_l0)\n",
                ),
                Edit(GRU_CLIP, ""),
                Edit(GRU_ADAM, "    optimizer = torch.optim.SGD(model.parameters(), lr=0.004)\n"),
            ),
        },
        twin={
            GRU: (
                Edit("STEPS = 24\n", "STEPS = 40\n"),
                Edit(
                    "        self.gru = nn.GRU(input_size=1, hidden_size=hidden, batch_first=True)\n",
                    "        self.gru = nn.RNN(input_size=1, hidden_size=hidden, batch_first=True, nonlinearity='relu')\n"
                    "        nn.init.eye_(self.gru.weight_hh_l0)\n",
                ),
                Edit(GRU_ADAM, "    optimizer = torch.optim.SGD(model.parameters(), lr=0.004)\n"),
            ),
        },
        accept=("exploding-gradient",),
        fix="clip the norm of the gradients",
    ),
    Fault(
        id="O20",
        kind="saturated-units",
        layer="optimisation",
        edits={
            MLP: (
                Edit("        self.act1 = nn.ReLU()\n", "        self.act1 = nn.<<UNIT>>()\n"),
                Edit("        self.act2 = nn.ReLU()\n", "        self.act2 = nn.<<UNIT>>()\n"),
                Edit("    x_train = (x_train - mean) / std\n", "    x_train = (x_train - mean) / std * 50\n"),
                Edit("    x_val = (x_val - mean) / std\n", "    x_val = (x_val - mean) / std * 50\n"),
            ),
            FUNCTIONAL: (
                Edit("        h = F.relu(self.lin1(x))\n", "        h = torch.tanh(50 * self.lin1(x))\n"),
                Edit("        h = F.relu(self.lin2(h))\n", "        h = torch.tanh(self.lin2(h))\n"),
            ),
        },
        twin={
            MLP: (
                Edit("        self.act1 = nn.ReLU()\n", "        self.act1 = nn.Tanh()\n"),
                Edit("        self.act2 = nn.ReLU()\n", "        self.act2 = nn.Tanh()\n"),
            ),
        },
        severities={"clear": {"UNIT": "Tanh"}, "fatal": {"UNIT": "Sigmoid"}},
        accept=("saturated-units", "unscaled-features"),
        fix="leave the inputs at a standard deviation of 1",
    ),
)
