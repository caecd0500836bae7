"""Faults that show in the curves of training and held-out losses: too much, too little, too long, too short."""

from benchmarks.faults._base import Edit, Fault

MLP, FUNCTIONAL, TRAINER, CNN = "digits_mlp", "digits_mlp_functional", "digits_mlp_trainer", "digits_cnn"

FAULTS = (
    Fault(
        id="G01",
        kind="over-fitting",
        layer="generalisation",
        edits={
            MLP: (
                Edit("hidden=96", "hidden=512"),
                Edit("nn.Dropout(0.2)", "nn.Dropout(0.0)"),
                Edit("nn.Dropout(0.1)", "nn.Dropout(0.0)"),
                Edit(
                    "    mean = x_train.mean()\n",
                    "    x_train, y_train = x_train[:<<SAMPLES>>], y_train[:<<SAMPLES>>]\n    mean = x_train.mean()\n",
                ),
                Edit("EPOCHS = 20\n", "EPOCHS = 150\n"),
                Edit("lr=LEARNING_RATE", "lr=5e-3"),
            ),
            FUNCTIONAL: (
                Edit("width=128, p=0.2", "width=1024, p=0.0"),
                Edit(
                    "    X_tr = torch.tensor(",
                    "    X_tr, y_tr = X_tr[:<<SAMPLES>>], y_tr[:<<SAMPLES>>]\n    X_tr = torch.tensor(",
                ),
                Edit("epochs = 20\n", "epochs = 150\n"),
                Edit(
                    "torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)",
                    "torch.optim.Adam(net.parameters(), lr=1e-2)",
                ),
            ),
        },
        severities={"mild": {"SAMPLES": "120"}, "clear": {"SAMPLES": "60"}, "fatal": {"SAMPLES": "30"}},
        accept=("overfitting",),
        fix="regularise, or train on more data",
    ),
    Fault(
        id="G02",
        kind="under-fitting",
        layer="optimisation",
        edits={
            FUNCTIONAL: (Edit("width=128, p=0.2", "width=<<WIDTH>>, p=0.0"),),
            TRAINER: (Edit('"hidden": 128', '"hidden": <<WIDTH>>'),),
        },
        severities={"mild": {"WIDTH": "2"}, "clear": {"WIDTH": "1"}},
        accept=("narrow-bottleneck",),
        fix="a wider layer",
    ),
    Fault(
        id="G03",
        kind="too-few-epochs",
        layer="generalisation",
        edits={
            MLP: (Edit("EPOCHS = 20\n", "EPOCHS = 2\n"),),
            FUNCTIONAL: (Edit("epochs = 20\n", "epochs = 2\n"), Edit("lr = 0.03\n", "lr = 0.01\n")),
        },
        accept=("unfinished-training",),
        fix="train longer",
    ),
    Fault(
        id="G04",
        kind="last-weights-kept",
        layer="generalisation",
        edits={
            FUNCTIONAL: (
                Edit("width=128, p=0.2", "width=256, p=0.0"),
                Edit(
                    "    X_tr = torch.tensor(",
                    "    X_tr, y_tr = X_tr[:150], y_tr[:150]\n    flip = np.random.rand(150) < 0.15\n"
                    "    y_tr = np.where(flip, np.random.randint(0, 10, 150), y_tr)\n    X_tr = torch.tensor(",
                ),
                Edit("epochs = 20\n", "epochs = 120\n"),
            ),
        },
        accept=("overfitting", "noisy-labels"),
        fix="keep the weights of the best round",
    ),
    Fault(
        id="G06",
        kind="over-regularised",
        layer="generalisation",
        edits={
            MLP: (Edit("nn.Dropout(0.2)", "nn.Dropout(<<P>>)"), Edit("nn.Dropout(0.1)", "nn.Dropout(<<P>>)")),
            TRAINER: (Edit("nn.Dropout(0.25)", "nn.Dropout(<<P>>)"),),
        },
        twin={TRAINER: (Edit("nn.Dropout(0.25)", "nn.Dropout(0.5)"),)},
        severities={"mild": {"P": "0.85"}, "clear": {"P": "0.95"}, "fatal": {"P": "0.99"}},
        accept=("overwhelming-dropout",),
        fix="lower the dropout",
    ),
)
