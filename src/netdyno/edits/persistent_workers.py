"""Write `persistent_workers=True` into the training loader's call.

Certain:    where the call has workers by its own words; where their number is a variable, for as long as it is not 0.
            `TrainingArguments(dataloader_persistent_workers=...)`, `NeuralNet(iterator_train__persistent_workers=...)`.
Left alone: a loader without workers, for which PyTorch refuses it; arguments from `**kwargs`.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._loaders import only_with_workers, places, with_setting
from netdyno.edits._tree import Code
from netdyno.records.trial import Scalar

KINDS = ("loaders",)
STAGE = 5


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    name = "persistent_workers"
    calls = places(code, here, name)
    return code.replaced(
        {call: with_setting(code, call, name, only_with_workers(code, call, "True", "False")) for call in calls}
    )
