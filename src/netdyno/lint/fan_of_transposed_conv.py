"""A transposed convolution is initialised by the wrong fan.

Looks for:  `kaiming_normal_` or `kaiming_uniform_` without `mode="fan_out"` under `isinstance(m, nn.ConvTranspose2d)`.
Wrong:      `kaiming_normal_(m.weight)`: the axes of its weight are exchanged, so "fan in" counts the outputs.
Right:      `kaiming_normal_(m.weight, mode="fan_out")`, corrected for the stride
Not this:   ordinary convolutions; another initialisation.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument, constant

NAMES = ("torch.nn.init.kaiming_normal_", "torch.nn.init.kaiming_uniform_")


@lint(
    fix='pass `mode="fan_out"`, and correct for the stride',
    layer="optimisation",
    stage="settings",
    ledger=("C-052",),
    confidence=0.5,  # normalisation behind it mostly makes up for it
)
def fan_of_transposed_conv(source: Python) -> Iterator[Hit]:
    for call in source.calls(*NAMES):
        test = source.inside(call, ast.If)
        only = (
            test is not None
            and "ConvTranspose" in ast.unparse(test.test)
            and "Conv2d" not in ast.unparse(test.test).replace("ConvTranspose2d", "")
        )
        if (
            only
            and test is not None
            and call in source.under(ast.Module(test.body, []), ast.Call)
            and constant(argument(call, "mode", 2)) != "fan_out"
        ):
            yield Hit(
                call, "the weight of a transposed convolution has its axes exchanged, so the fan is that of the outputs"
            )


BAD = (
    """\
from torch import nn
for m in model.modules():
    if isinstance(m, nn.ConvTranspose2d):
        nn.init.kaiming_normal_(m.weight, mode="fan_in")
""",
)
GOOD = (
    """\
from torch import nn
for m in model.modules():
    if isinstance(m, nn.ConvTranspose2d):
        nn.init.kaiming_normal_(m.weight, mode="fan_out")
    elif isinstance(m, nn.Conv2d):
        nn.init.kaiming_normal_(m.weight)
""",
)
