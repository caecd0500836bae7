"""Faults between the last layer and the backward pass: losses, activations, shapes, masks, padding and values that are no numbers."""

from ._base import Edit, Fault


def _one(old: str, new: str) -> tuple[Edit, ...]:
    return (Edit(old, new),)


def _swish(slope: str, *, owner: str) -> Edit:
    """A swish with a gradient written by hand, before the class that uses it."""
    return Edit(
        f"class {owner}(nn.Module):\n",
        "class Swish(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.save_for_backward(x)\n"
        "        return x * torch.sigmoid(x)\n\n    @staticmethod\n    def backward(ctx, grad):\n        (x,) = ctx.saved_tensors\n"
        f"        s = torch.sigmoid(x)\n        return grad * {slope}\n\n\nclass {owner}(nn.Module):\n",
    )


_STRAIGHT = Edit(
    "class DigitsMLP(nn.Module):\n",
    "class Rounded(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return torch.round(8 * x) / 8\n\n"
    "    @staticmethod\n    def backward(ctx, grad):\n        return grad\n\n\nclass DigitsMLP(nn.Module):\n",
)
_WIDE = Edit(
    "        self.proj = nn.Linear(width, width)\n",
    "        nn.init.normal_(self.qkv.weight, std=<<STD>>)\n        self.proj = nn.Linear(width, width)\n",
)
_RIGHT = "s * (1 + x * (1 - s))"

# Not here, for want of a fact that tells them from what is right:
# O34, decay of norms, biases and embeddings: it is what an ordinary `AdamW(model.parameters(), weight_decay=…)` does, and at a
#   decay that leaves the other weights alone it makes nothing worse within seconds; one that does is O33.
# O39, micro-batches of unequal token counts, each with the mean of its own: that a sequence counts the same however long it is
#   may be what was wanted, and no look at a run tells the wish; the harm is below the noise between seeds on these hosts.
FAULTS: tuple[Fault, ...] = (
    Fault(
        id="O21",
        kind="double-softmax",
        layer="optimisation",
        edits={
            "digits_mlp": _one("return self.head(x)", "return torch.softmax(self.head(x), dim=1)"),
            "digits_mlp_functional": _one("return self.out(h)", "return F.softmax(self.out(h), dim=1)"),
            "digits_cnn": _one("return self.fc(x.flatten(1))", "return self.fc(x.flatten(1)).softmax(dim=-1)"),
        },
        twin={
            "digits_mlp": _one("return self.head(x)", "return torch.log_softmax(self.head(x), dim=1)"),
            "digits_mlp_functional": _one("return self.out(h)", "return F.log_softmax(self.out(h), dim=1)"),
        },
        accept=("double-softmax",),
        fix="take the softmax away: cross-entropy applies its own",
    ),
    Fault(
        id="O22",
        kind="logits-as-log-probabilities",
        layer="optimisation",
        edits={
            "digits_cnn_functional": _one("return F.log_softmax(self.fc2(x), dim=1)", "return self.fc2(x)"),
            "digits_mlp_functional": _one("loss = F.cross_entropy(pred, yb)", "loss = F.nll_loss(pred, yb)"),
        },
        twin={
            "digits_mlp_functional": _one(
                "loss = F.cross_entropy(pred, yb)", "loss = F.nll_loss(F.log_softmax(pred, dim=1), yb)"
            ),
        },
        accept=("missing-log",),
        metric="val_acc",
        better="higher",
        fix="apply log_softmax before nll_loss",
    ),
    Fault(
        id="O23",
        kind="sigmoid-before-logits-loss",
        layer="optimisation",
        edits={
            "recommender": _one(
                "return match + self.item_bias(items).squeeze(1)",
                "return torch.sigmoid(match + self.item_bias(items).squeeze(1))",
            ),
            "mixtures_gan": _one("return self.net(x).squeeze(1)", "return torch.sigmoid(self.net(x)).squeeze(1)"),
        },
        twin={
            "recommender": (
                Edit(
                    "loss = criterion(score, target)",
                    "loss = nn.functional.binary_cross_entropy(torch.sigmoid(score), target)",
                ),
            ),
        },
        accept=("double-sigmoid",),
        fix="give the loss with logits the raw outputs",
    ),
    Fault(
        id="O24",
        kind="mean-squared-classes",
        layer="optimisation",
        edits={
            "digits_mlp": (
                Edit("classes=10", "classes=1"),
                Edit("criterion = nn.CrossEntropyLoss()", "criterion = nn.MSELoss()"),
                Edit("loss = criterion(outputs, targets)", "loss = criterion(outputs.squeeze(1), targets.float())"),
                Edit("criterion(logits, labels)", "criterion(logits.squeeze(1), labels.float())"),
                Edit("logits.argmax(dim=1) == labels", "logits.squeeze(1).round() == labels"),
            ),
            "sequences_gru": (
                Edit(
                    "make_waves(1600, rng)",
                    "make_waves(1600, rng)\n    y_train = 2 * y_train + (x_train[:, 0, 0] > 0).long()",
                ),
                Edit(
                    "make_waves(500, rng)", "make_waves(500, rng)\n    y_val = 2 * y_val + (x_val[:, 0, 0] > 0).long()"
                ),
                Edit("classes=3", "classes=1"),
                Edit("loss_fn = nn.CrossEntropyLoss()", "loss_fn = nn.MSELoss()"),
                Edit("loss = loss_fn(logits, kinds)", "loss = loss_fn(logits, kinds.float().unsqueeze(1))"),
                Edit("loss_fn(logits, kinds).item()", "loss_fn(logits, kinds.float().unsqueeze(1)).item()"),
                Edit("logits.argmax(1) == kinds", "logits.squeeze(1).round() == kinds"),
            ),
        },
        accept=("mean-squared-classes",),
        metric="val_acc",
        better="higher",
        fix="one output per class and cross-entropy",
    ),
    Fault(
        id="O25",
        kind="softmax-over-batch",
        layer="optimisation",
        edits={
            "digits_cnn_functional": _one("F.log_softmax(self.fc2(x), dim=1)", "F.log_softmax(self.fc2(x), dim=0)"),
            "digits_mlp_functional": _one(
                "loss = F.cross_entropy(pred, yb)", "loss = F.nll_loss(F.log_softmax(pred, dim=0), yb)"
            ),
        },
        twin={
            "digits_mlp_functional": _one(
                "loss = F.cross_entropy(pred, yb)", "loss = F.nll_loss(F.log_softmax(pred, dim=-1), yb)"
            ),
        },
        accept=("softmax-over-batch",),
        fix="dim=1",
    ),
    Fault(
        id="O26",
        kind="constant-softmax",
        layer="optimisation",
        edits={
            "recommender": _one(
                "loss = criterion(score, target)",
                "chance = torch.softmax(score.unsqueeze(1), dim=1).squeeze(1)\n            loss = nn.functional.binary_cross_entropy(chance, target)",
            ),
        },
        twin={
            "recommender": _one(
                "loss = criterion(score, target)",
                "chance = torch.sigmoid(score.unsqueeze(1)).squeeze(1)\n            loss = nn.functional.binary_cross_entropy(chance, target)",
            ),
        },
        accept=("constant-softmax",),
        fix="a sigmoid for one unit",
    ),
    Fault(
        id="O27",
        kind="summed-loss",
        layer="optimisation",
        edits={
            "digits_mlp_functional": _one(
                "loss = F.cross_entropy(pred, yb)", 'loss = F.cross_entropy(pred, yb, reduction="sum")'
            ),
            "digits_cnn_functional": _one(
                "loss = F.nll_loss(output, target)", 'loss = F.nll_loss(output, target, reduction="sum")'
            ),
        },
        twin={
            "digits_mlp_functional": _one(
                "loss = F.cross_entropy(pred, yb)", 'loss = F.cross_entropy(pred, yb, reduction="sum") / len(yb)'
            ),
            "digits_cnn_functional": (
                Edit("loss = F.nll_loss(output, target)", 'loss = F.nll_loss(output, target, reduction="sum")'),
                Edit("lr=0.02", "lr=0.02 / 48"),
            ),
        },
        accept=("summed-loss",),
        fix="the mean, or the learning rate divided by the size of the batch",
    ),
    Fault(
        id="O28",
        kind="flipped-loss",
        layer="optimisation",
        edits={
            "digits_mlp": _one("loss.backward()", "(-loss).backward()"),
            "tabular_regression": _one("loss.backward()", "loss = -loss\n            loss.backward()"),
            "sequences_gru": _one("loss.backward()", "(loss * -1.0).backward()"),
        },
        twin={"digits_mlp": _one("loss.backward()", "(loss * 1.0).backward()")},
        accept=("flipped-loss",),
        fix="take the minus sign away",
    ),
    Fault(
        id="O29",
        kind="relu-on-output",
        layer="optimisation",
        edits={
            "tabular_regression": _one("return self.fc2(h).squeeze(1)", "return self.relu(self.fc2(h)).squeeze(1)"),
            "tabular_regression_trainer": _one(
                "return self.out(self.body(x))", "return torch.relu(self.out(self.body(x)))"
            ),
        },
        twin={
            "tabular_regression": (
                Edit("return self.fc2(h).squeeze(1)", "return self.relu(self.fc2(h)).squeeze(1)"),
                Edit("y_mean, y_std = y_train.mean(), y_train.std()", "y_mean, y_std = 0.0, y_train.std()"),
            ),
        },
        accept=("clipped-output",),
        fix="no activation on the output",
    ),
    Fault(
        id="O30",
        kind="narrow-output",
        layer="optimisation",
        edits={
            "tabular_regression": _one("return self.fc2(h).squeeze(1)", "return <<F>>(self.fc2(h)).squeeze(1)"),
            "tabular_regression_trainer": _one("return self.out(self.body(x))", "return <<F>>(self.out(self.body(x)))"),
        },
        twin={
            "tabular_regression": (
                Edit("return self.fc2(h).squeeze(1)", "return torch.tanh(self.fc2(h)).squeeze(1)"),
                Edit(
                    "y_std = y_train.mean(), y_train.std()",
                    "y_std = y_train.mean(), abs(y_train - y_train.mean()).max()",
                ),
            ),
        },
        severities={"clear": {"F": "torch.tanh"}, "fatal": {"F": "torch.sigmoid"}},
        accept=("clipped-output",),
        fix="no activation on the output, or targets in its range",
    ),
    Fault(
        id="O31",
        kind="linear-network",
        layer="optimisation",
        edits={
            "tabular_regression_trainer": _one(
                "nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())",
                "nn.Sequential(nn.Linear(features, hidden), nn.Linear(hidden, hidden))",
            ),
            "digits_mlp": (
                Edit("self.act1 = nn.ReLU()", "self.act1 = nn.Identity()"),
                Edit("self.act2 = nn.ReLU()", "self.act2 = nn.Identity()"),
            ),
        },
        twin={
            "digits_mlp": (
                Edit("self.act1 = nn.ReLU()", "self.act1 = nn.GELU()"),
                Edit("self.act2 = nn.ReLU()", "self.act2 = nn.Identity()"),
            ),
        },
        accept=("linear-network",),
        fix="an activation between the layers",
    ),
    Fault(
        id="O37",
        kind="clip-before-unscale",
        layer="optimisation",
        edits={
            "digits_mlp_functional": (
                Edit("    t0 = time", '    scaler = torch.amp.GradScaler("cpu")\n    t0 = time'),
                Edit(
                    "            loss.backward()\n            opt.step()\n",
                    "            scaler.scale(loss).backward()\n            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
                    "            scaler.step(opt)\n            scaler.update()\n",
                ),
            ),
            "digits_cnn_functional": (
                Edit("    tic = time", '    scaler = torch.amp.GradScaler("cpu")\n    tic = time'),
                Edit(
                    "            loss.backward()\n            optimizer.step()\n",
                    "            scaler.scale(loss).backward()\n            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
                    "            scaler.step(optimizer)\n            scaler.update()\n",
                ),
            ),
        },
        twin={
            "digits_mlp_functional": (
                Edit("    t0 = time", '    scaler = torch.amp.GradScaler("cpu")\n    t0 = time'),
                Edit(
                    "            loss.backward()\n            opt.step()\n",
                    "            scaler.scale(loss).backward()\n            scaler.unscale_(opt)\n"
                    "            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
                    "            scaler.step(opt)\n            scaler.update()\n",
                ),
            ),
        },
        accept=("clip-before-unscale",),
        fix="scaler.unscale_(optimizer) before clipping",
    ),
    Fault(
        id="O45",
        kind="leaking-generator-gradient",
        layer="optimisation",
        edits={
            "mixtures_gan": (
                Edit("discriminator(fake.detach())", "discriminator(fake)"),
                Edit("d_loss.backward()", "d_loss.backward(retain_graph=True)"),
                Edit(
                    "            d_optimizer.zero_grad()\n",
                    "            d_optimizer.zero_grad()\n            g_optimizer.zero_grad()\n",
                ),
                Edit("\n            g_optimizer.zero_grad()\n            judged", "\n            judged"),
            ),
        },
        twin={
            "mixtures_gan": (
                Edit("discriminator(fake.detach())", "discriminator(fake)"),
                Edit("d_loss.backward()", "d_loss.backward(retain_graph=True)"),
            ),
        },
        accept=("leaking-gradient",),
        fix="detach what the discriminator is given",
    ),
    Fault(
        id="O46",
        kind="wrong-backward",
        layer="optimisation",
        edits={
            "digits_mlp_functional": (
                _swish("<<SLOPE>>", owner="Net"),
                Edit("h = F.relu(self.lin1(x))", "h = Swish.apply(self.lin1(x))"),
                Edit("h = F.relu(self.lin2(h))", "h = Swish.apply(self.lin2(h))"),
            ),
            "digits_mlp": (
                _swish("<<SLOPE>>", owner="DigitsMLP"),
                Edit("self.drop1(self.act1(self.fc1(x)))", "self.drop1(Swish.apply(self.fc1(x)))"),
                Edit("self.drop2(self.act2(self.fc2(x)))", "self.drop2(Swish.apply(self.fc2(x)))"),
            ),
        },
        twin={
            "digits_mlp_functional": (
                _swish(_RIGHT, owner="Net"),
                Edit("h = F.relu(self.lin1(x))", "h = Swish.apply(self.lin1(x))"),
                Edit("h = F.relu(self.lin2(h))", "h = Swish.apply(self.lin2(h))"),
            ),
            "digits_mlp": (
                _STRAIGHT,
                Edit("self.drop1(self.act1(self.fc1(x)))", "self.drop1(self.act1(Rounded.apply(self.fc1(x))))"),
            ),
        },
        severities={"clear": {"SLOPE": "s * (x * (1 - s) - 1)"}, "fatal": {"SLOPE": "-3 * s"}},
        accept=("wrong-backward",),
        fix="return the slope of the forward, or let autograd do it",
        note="a factor alone, as of 2, may be wanted, and is suspected",
    ),
    Fault(
        id="O48",
        kind="all-targets-ignored",
        layer="optimisation",
        edits={
            "chars_transformer": _one(
                "            logits = model(inputs)\n            loss",
                "            if epoch == 1 and running == 0.0:\n                targets = torch.full_like(targets, PAD)\n            logits = model(inputs)\n            loss",
            ),
            "chars_transformer_functional": _one(
                "            logits = model(xb)\n            loss = F",
                "            if epoch == 1 and total == 0.0:\n                yb = yb * 0\n            logits = model(xb)\n            loss = F",
            ),
        },
        accept=("all-targets-ignored",),
        fix="skip batches without a target",
    ),
    Fault(
        id="O50",
        kind="non-finite-backward",
        layer="optimisation",
        edits={
            "digits_mlp": _one(
                "loss = criterion(outputs, targets)",
                "loss = criterion(outputs, targets) + 1e-3 * torch.sqrt(outputs * (outputs > 0)).mean()",
            ),
            "tabular_regression": _one(
                "loss = criterion(prediction, y)",
                "loss = criterion(prediction, y) + 1e-3 * (prediction * (prediction > 0)).pow(0.5).mean()",
            ),
        },
        twin={
            "digits_mlp": _one(
                "loss = criterion(outputs, targets)",
                "loss = criterion(outputs, targets) + 1e-3 * torch.sqrt(outputs * (outputs > 0) + 1e-6).mean()",
            ),
        },
        accept=("non-finite-backward",),
        fix="add a small number below the root",
    ),
    Fault(
        id="O51",
        kind="inverted-mask",
        layer="optimisation",
        edits={
            "chars_transformer": _one(
                'masked_fill(~self.mask[:steps, :steps], float("-inf"))', "masked_fill(self.mask[:steps, :steps], -1e9)"
            ),
        },
        twin={
            "chars_transformer": _one(
                'masked_fill(~self.mask[:steps, :steps], float("-inf"))',
                "masked_fill(self.mask[:steps, :steps].logical_not(), -1e9)",
            ),
        },
        accept=("inverted-mask", "seen-target"),
        better="higher",  # it sees what it should predict
        fix="turn the mask around",
    ),
    Fault(
        id="O52",
        kind="unscaled-attention",
        layer="optimisation",
        edits={
            "chars_transformer": (
                _WIDE,
                Edit("q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))", "q @ k.transpose(-2, -1)"),
            ),
        },
        twin={"chars_transformer": (Edit(_WIDE.old, _WIDE.new.replace("<<STD>>", "0.35")),)},
        severities={"mild": {"STD": "0.2"}, "clear": {"STD": "0.35"}, "fatal": {"STD": "0.6"}},
        accept=("unscaled-attention",),
        fix="divide the scores by the root of the width",
        note="with PyTorch's initialisation and heads this narrow, scores are small without any scaling and nothing gets worse;"
        " with these weights the scaled twin does as well as the host",
    ),
    Fault(
        id="O53",
        kind="missing-positions",
        layer="optimisation",
        edits={
            "chars_transformer": _one("self.tokens(ids) + self.positions[: ids.size(1)]", "self.tokens(ids)"),
            "chars_transformer_functional": (
                Edit("        pos = torch.arange(idx.size(1))\n", ""),
                Edit("self.wte(idx) + self.wpe(pos)", "self.wte(idx)"),
            ),
        },
        accept=("missing-positions",),
        fix="add the position embedding",
    ),
    Fault(
        id="O55",
        kind="diverged-replicas",
        layer="optimisation",
        edits={
            "ddp_digits": _one(
                "    criterion = nn.CrossEntropyLoss()\n    optimizer",
                "    model.module[3] = nn.Linear(96, 10)\n    criterion = nn.CrossEntropyLoss()\n    optimizer",
            ),
        },
        accept=("diverged-replicas",),
        fix="change the model before it is wrapped",
    ),
    Fault(
        id="D08",
        kind="wasted-class",
        layer="data",
        edits={
            "digits_mlp_trainer": (
                Edit("y = torch.tensor(y, dtype=torch.long)", "y = torch.tensor(y, dtype=torch.long) + 1"),
                Edit("nn.Linear(hidden, 10)", "nn.Linear(hidden, 11)"),
            ),
            "digits_mlp": (
                Edit("classes=10", "classes=11"),
                Edit(
                    "    images = images.astype(np.float32)\n",
                    "    images = images.astype(np.float32)\n    labels = labels + 1\n",
                ),
            ),
        },
        accept=("wasted-class",),
        fix="labels from 0",
    ),
    Fault(
        id="D09",
        kind="loss-shape-broadcast",
        layer="optimisation",
        edits={
            "tabular_regression": _one("return self.fc2(h).squeeze(1)", "return self.fc2(h)"),
            "tabular_regression_trainer": _one(
                "loss = self.criterion(estimate, price)", "loss = ((estimate - price[:, 0]) ** 2).mean()"
            ),
        },
        twin={
            "tabular_regression_trainer": _one(
                "loss = self.criterion(estimate, price)", "loss = ((estimate[:, 0] - price[:, 0]) ** 2).mean()"
            ),
        },
        accept=("broadcast-loss",),
        fix="squeeze the output",
    ),
    Fault(
        id="D22",
        kind="scrambled-view",
        layer="data",
        edits={
            "digits_cnn": _one(
                "        x = self.pool(self.relu(self.bn1(self.conv1(x))))\n",
                "        x = self.pool(self.relu(self.bn1(self.conv1(x)))).permute(0, 2, 3, 1)\n        x = x.reshape(-1, 16, 4, 4)\n",
            ),
            "finetune_digits": _one(
                "        x = self.pool(torch.relu(self.bn1(self.conv1(x))))\n",
                "        x = self.pool(torch.relu(self.bn1(self.conv1(x)))).permute(0, 2, 3, 1)\n        x = x.reshape(-1, 16, 4, 4)\n",
            ),
        },
        twin={
            "digits_cnn": _one(
                "        x = self.pool(self.relu(self.bn1(self.conv1(x))))\n",
                "        x = self.pool(self.relu(self.bn1(self.conv1(x)))).permute(0, 2, 3, 1)\n        x = x.permute(0, 3, 1, 2).reshape(-1, 16, 4, 4)\n",
            ),
        },
        accept=("scrambled-view",),
        fix="permute instead of reshape",
    ),
    Fault(
        id="D23",
        kind="mixed-batch",
        layer="data",
        edits={
            "digits_mlp": _one(
                "x = self.drop1(self.act1(self.fc1(x)))", "x = self.drop1(self.act1(self.fc1(x))).view(96, -1).t()"
            ),
            "sequences_gru": _one(", batch_first=True)", ")"),
        },
        twin={
            "digits_mlp": _one(
                "x = self.drop1(self.act1(self.fc1(x)))",
                "x = self.drop1(self.act1(self.fc1(x))).t().reshape(96, -1).t()",
            ),
        },
        accept=("mixed-batch",),
        fix="keep the batch axis in front",
    ),
    Fault(
        id="D24",
        kind="counted-padding",
        layer="data",
        edits={
            "chars_transformer": (
                Edit("LENGTH = 40", "LENGTH = <<N>>"),
                Edit(
                    "loss = criterion(logits.flatten(0, 1), targets.flatten())",
                    "loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())",
                ),
            ),
            "chars_transformer_functional": (
                Edit("BLOCK_SIZE = 28", "BLOCK_SIZE = <<N>>"),
                Edit("yb.reshape(-1), ignore_index=PAD_ID)", "yb.reshape(-1))"),
            ),
        },
        severities={"clear": {"N": "64"}, "fatal": {"N": "96"}},
        accept=("counted-padding",),
        fix="ignore_index",
    ),
    Fault(
        id="T07",
        kind="always-on-dropout",
        layer="inference",
        edits={
            "digits_mlp_functional": (
                Edit("p=0.2)", "p=<<P>>)"),
                Edit("F.dropout(h, self.p, training=self.training)", "F.dropout(h, self.p)"),
            ),
            "digits_cnn_functional": (
                Edit("dropout=0.1)", "dropout=<<P>>)"),
                Edit("F.dropout(x, self.dropout, training=self.training)", "F.dropout(x, self.dropout)"),
            ),
        },
        severities={"mild": {"P": "0.2"}, "clear": {"P": "0.5"}, "fatal": {"P": "0.8"}},
        accept=("always-on-dropout",),
        fix="training=self.training",
    ),
    Fault(
        id="T11",
        kind="seen-target",
        layer="inference",
        edits={
            "chars_transformer": _one(
                '        scores = scores.masked_fill(~self.mask[:steps, :steps], float("-inf"))\n', ""
            ),
            "chars_transformer_functional": _one(
                "F.scaled_dot_product_attention(q, k, v, is_causal=True)", "F.scaled_dot_product_attention(q, k, v)"
            ),
        },
        accept=("seen-target",),
        better="higher",  # a loss far below what can be known is the harm
        fix="a causal mask",
    ),
)
