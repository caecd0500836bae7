"""Write `prefetch_factor=N` into the training loader's call.

Certain:    where the call has workers by its own words; where their number is a variable, for as long as it is not 0.
            `TrainingArguments(dataloader_prefetch_factor=...)`, `NeuralNet(iterator_train__prefetch_factor=...)`.
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
    name, factor = "prefetch_factor", str(settings.get("factor", 4))
    calls = places(code, here, name)
    return code.replaced(
        {call: with_setting(code, call, name, only_with_workers(code, call, factor, "None")) for call in calls}
    )
