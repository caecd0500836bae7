"""Several processes are started by a launcher that is on its way out.

Looks for:  `python -m torch.distributed.launch` in a script, a workflow or a command that Python starts.
Wrong:      `python -m torch.distributed.launch --nproc_per_node=4 train.py`
Right:      `torchrun --nproc_per_node=4 train.py`, and `LOCAL_RANK` from the environment
Not this:   `torch.distributed.run`, which is `torchrun`.
"""

from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._text import Text


@lint(
    fix="start with `torchrun`, and read `LOCAL_RANK` from the environment",
    layer="reproducibility",
    stage="note",
    ledger=("C-027",),
    confidence=REMARK,
)
def deprecated_launcher(source: Text) -> Iterator[Hit]:
    for command in source.commands:
        if "torch.distributed.launch" in command.words and "-m" in command.words:
            yield Hit(command.line, "`torch.distributed.launch` is deprecated")


BAD = ("python -m torch.distributed.launch --nproc_per_node=4 train.py\n",)
GOOD = ("torchrun --nproc_per_node=4 train.py\n", "# python -m torch.distributed.launch train.py\n")
