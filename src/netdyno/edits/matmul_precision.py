"""Write `torch.set_float32_matmul_precision("medium")` behind the imports, and the switch of convolutions beside it.

Certain:    everywhere; where the script sets the precision once already, the value is changed there.
Left alone: a script that sets it more than once, or through `torch.backends`, which PyTorch does not let one mix.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._switches import switched
from netdyno.edits._tree import Code, uncertain
from netdyno.records.trial import Scalar

KINDS = ()
STAGE = 50
CONVOLUTIONS = 'torch.backends.mkldnn.conv.fp32_precision = "bf16"'


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    for node in code.nodes:
        if isinstance(node, cst.Assign) and _own(code.text(node)):
            uncertain("the script sets the precision of float32 itself", code.line(node))
    extra = (CONVOLUTIONS,) if settings.get("convolutions", True) else ()
    return switched(code, "set_float32_matmul_precision", '"medium"', extra)


def _own(line: str) -> bool:
    setting = line.partition("=")[0].strip()
    if line.endswith(CONVOLUTIONS.removeprefix("torch")):
        return False  # ours
    return setting.endswith((".fp32_precision", ".allow_tf32"))
