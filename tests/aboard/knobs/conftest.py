"""Knobs look at the whole process, so what tests before these left in it is put out of sight."""

import gc
import sys

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left_of_others():
    gc.collect()
    compiler = sys.modules.get("torch._dynamo.utils")
    if compiler is not None:
        compiler.counters.clear()
    with pytest.MonkeyPatch.context() as patch:
        for each in gc.get_objects():
            if issubclass(type(each), torch.amp.GradScaler):
                patch.setattr(each, "_enabled", False)
        yield
