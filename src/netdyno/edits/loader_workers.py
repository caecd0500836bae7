"""Write `num_workers=N` into the training loader's call.

Certain:    `DataLoader(...)` under any import, seen at its line or the only one of the file;
            `TrainingArguments(dataloader_num_workers=...)` of transformers, `NeuralNet(iterator_train__num_workers=...)`
            of skorch, `.dataloaders(..., num_workers=...)` of fastai.
Left alone: arguments from `**kwargs`, a class of loaders of one's own.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._loaders import Maker, places, with_setting
from netdyno.edits._tree import Code, argument, uncertain, without_arg
from netdyno.records.trial import Scalar

KINDS = ("loaders",)
STAGE = 4
NEED_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    workers = settings.get("workers", 2)
    calls = places(code, here, "num_workers")
    return code.replaced({call: _with(code, call, str(workers)) for call in calls})


def _with(code: Code, call: cst.Call, workers: str) -> Maker:
    change = with_setting(code, call, "num_workers", workers)
    needing = [name for name in NEED_WORKERS if workers == "0" and argument(call, name) is not None]
    if workers == "0" and argument(call, "dataloader_prefetch_factor") is not None:
        uncertain("`dataloader_prefetch_factor` needs workers", code.line(call))
    return lambda updated: _without(change(updated), needing)


def _without(call: cst.Call, names: list[str]) -> cst.Call:
    for name in names:
        call = without_arg(call, name)
    return call
