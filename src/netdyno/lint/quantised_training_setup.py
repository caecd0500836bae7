"""Quantisation-aware training is set up in a way that trains nothing of the sort.

Looks for:  `prepare_qat(model)` right behind `model.eval()`; and a `QConfig` whose activation is a plain observer, in a
            file that prepares quantisation-aware training.
Wrong:      `model.eval(); prepare_qat(model)`: it raises; `QConfig(activation=HistogramObserver, ...)`: it observes and
            rounds nothing.
Right:      fuse, `model.train()`, `prepare_qat`, train, convert; `FakeQuantize.with_args(observer=...)`.
Not this:   quantisation after training, where observers are right and evaluation mode too.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument, method

PREPARES = ("torch.quantization.prepare_qat", "torch.ao.quantization.prepare_qat", "torchao.quantization.prepare_qat")


@lint(
    fix="fuse, call `model.train()`, prepare with a `FakeQuantize` configuration, train, convert",
    layer="deployment",
    stage="use",
    ledger=("C-077", "C-090"),
    confidence=0.85,
)
def quantised_training_setup(source: Python) -> Iterator[Hit]:
    prepares = source.calls(*PREPARES)
    for call in prepares:
        model = ast.unparse(call.args[0]) if call.args else ""
        scope = source.function(call)
        modes = [
            each
            for each in source.methods("eval", "train")
            if method(each)[0] == model and source.function(each) is scope and each.lineno < call.lineno
        ]
        if modes and method(modes[-1])[1] == "eval" and not modes[-1].args:
            yield Hit(call, f"`{model}` is in evaluation mode, where `prepare_qat` refuses it")
    for config in (
        source.calls("torch.*quantization.QConfig", "torch.*quantization.qconfig.QConfig") if prepares else ()
    ):
        activation = argument(config, "activation", 0)
        name = ast.unparse(activation).partition("(")[0].partition(".with_args")[0] if activation is not None else ""
        if name.endswith("Observer") and "FakeQuant" not in ast.unparse(config.args[0] if config.args else config):
            yield Hit(config, f"`{name}` only observes, so training meets no rounding of activations")


BAD = (
    "import torch\nmodel.eval()\ntorch.ao.quantization.prepare_qat(model, inplace=True)\n",
    """\
import torch
from torch.ao.quantization import HistogramObserver, QConfig, default_weight_fake_quant, prepare_qat
model.train()
model.qconfig = QConfig(activation=HistogramObserver, weight=default_weight_fake_quant)
prepare_qat(model)
""",
)
GOOD = (
    "import torch\nmodel.eval()\nfuse(model)\nmodel.train()\ntorch.ao.quantization.prepare_qat(model, inplace=True)\n",
    """\
from torch.ao.quantization import HistogramObserver, QConfig, default_weight_observer, prepare
model.eval()
model.qconfig = QConfig(activation=HistogramObserver, weight=default_weight_observer)
prepare(model)
""",
)
