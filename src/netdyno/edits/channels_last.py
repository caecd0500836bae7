"""Write `model = model.to(memory_format=torch.channels_last)` behind the line that makes the model.

The weights are enough: a convolution whose weights are channels-last reads and gives images in that order, whatever
order they come in. The first one reorders a batch that comes otherwise, as a line of the script's own would.

Certain:    `model = Net(...)`, also with `.to(device)` behind, seen at its line or the only one of the file.
Left alone: a model made in passing or returned by a function.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._tree import Code, block_of, followed_by, models, uncertain
from netdyno.records.trial import Scalar

KINDS = ("models",)
STAGE = 10


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    made = models(code, here.lines("models"), elsewhere=here.elsewhere("models"))
    torch = code.torch()
    if torch is None:
        uncertain("the module `torch` is not imported under a name of its own here", code.line(made[0].statement))
    order = f"memory_format={torch}.channels_last"
    made = [each for each in made if not _done(code, each.name, order)]
    for each in made:
        block_of(code, each.statement)
    return code.replaced({each.statement: followed_by(f"{each.name} = {each.name}.to({order})") for each in made})


def _done(code: Code, name: str, order: str) -> bool:
    """Whether the script reorders this model already, in a statement of its own or where it is made."""
    return any(
        order in code.text(node).replace(" ", "") and code.text(node).startswith((f"{name} = ", f"{name}.to("))
        for node in code.nodes
        if isinstance(node, cst.SimpleStatementLine)
    )
