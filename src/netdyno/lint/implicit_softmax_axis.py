"""A softmax does not say over which axis.

Looks for:  `F.softmax(x)`, `F.log_softmax(x)`, `nn.Softmax()` or `nn.LogSoftmax()` without `dim`.
Wrong:      `F.softmax(x)`: with three axes PyTorch takes the first, the batch.
Right:      `F.softmax(x, dim=-1)`
Not this:   a call with `dim`; a softmax of another package.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, argument, splat

FUNCTIONS = ("torch.nn.functional.softmax", "torch.nn.functional.log_softmax", "torch.nn.functional.softmin")
CLASSES = ("torch.nn.Softmax", "torch.nn.LogSoftmax", "torch.nn.Softmin")


@lint(
    fix="say the axis: `dim=-1` for scores in the last one",
    layer="optimisation",
    stage="loss",
    confidence=REMARK,  # with two axes PyTorch takes the right one
)
def implicit_softmax_axis(source: Python) -> Iterator[Hit]:
    for position, names in ((1, FUNCTIONS), (0, CLASSES)):
        for call in source.calls(*names):
            if argument(call, "dim", position) is None and not splat(call):
                name = ast.unparse(call.func)
                yield Hit(call, f"`{name}` is given no axis, and takes the batch where its input has one or three")


BAD = (
    "import torch.nn.functional as F\nprobs = F.softmax(scores)\n",
    "from torch import nn\nlayer = nn.LogSoftmax()\n",
)
GOOD = (
    "import torch.nn.functional as F\nprobs = F.softmax(scores, dim=-1)\nmore = F.softmax(scores, 1)\n",
    "from scipy.special import softmax\nprobs = softmax(scores)\n",
    "from torch import nn\nlayer = nn.Softmax(dim=1)\nother = nn.Softmax(**options)\n",
)
