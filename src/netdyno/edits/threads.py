"""Write `torch.set_num_threads(N)` behind the imports of the script.

Certain:    everywhere; where the script calls it once already, the number is changed there.
Left alone: a script that sets it more than once.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._switches import switched
from netdyno.edits._tree import Code
from netdyno.records.trial import Scalar

KINDS = ()
STAGE = 50


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    return switched(code, "set_num_threads", str(settings.get("threads", 1)))
