"""On which lines modules were constructed and weights initialised."""

import gc
from types import SimpleNamespace

import torch
from torch import nn

from netdyno.aboard.made import MOST, Made, patch
from netdyno.aboard.patches import Patches

HERE = __file__
WATCHER = SimpleNamespace(is_compiling=lambda: False, guarded=lambda where, call, *args: call(*args))


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)  # constructed here
        self.other = nn.Linear(2, 2)
        nn.init.constant_(self.other.weight, 0.5)  # initialised here


def line_of(words):
    with open(HERE, encoding="utf-8") as opened:
        return next(number for number, text in enumerate(opened, 1) if text.rstrip().endswith(words))


def watched(make):
    made, patches = Made(), Patches()
    before = nn.Module.__init__, nn.init.constant_
    patch(patches, WATCHER, made)
    try:
        model = make()
    finally:
        patches.undo()
    assert before == (nn.Module.__init__, nn.init.constant_)
    assert not patches.missing
    return made, model


def test_a_module_stands_where_it_was_constructed_and_not_in_its_own_constructor():
    made, model = watched(lambda: Inner())  # noqa: PLW0108  # the model is made here
    assert made.line(model).line == line_of("# the model is made here")
    assert made.line(model.fc).line == line_of("# constructed here")


def test_a_weight_stands_where_it_last_got_its_numbers():
    made, model = watched(Inner)
    modules, weights = made.summary([model])
    assert ("fc", HERE, line_of("# constructed here")) in modules
    assert ("fc.weight", HERE, line_of("# constructed here")) in weights
    assert ("other.weight", HERE, line_of("# initialised here")) in weights


def test_nothing_lives_longer_and_the_book_is_bounded():
    made, model = watched(lambda: nn.Sequential(*[nn.ReLU() for _ in range(MOST + 50)]))
    assert len(made._lines) <= MOST
    del model
    gc.collect()
    assert made.line(torch.nn.ReLU()).line == 0
