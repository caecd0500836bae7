"""One line behind the one that makes the model; the same for compiling it."""

import pytest

from edits.specimens import FASTAI, FUNCTIONS, KWARGS, PLAIN, TRAINER, at, edited, refused
from netdyno.records.trial import Change

ORDER = Change(id="channels-last")
COMPILE = Change(id="compile-model")


def test_it_stands_behind_the_line_that_makes_the_model():
    assert edited(ORDER, FUNCTIONS) == ([], ["    model = model.to(memory_format=torch.channels_last)"])
    assert edited(ORDER, TRAINER)[1] == ["\t\tself.model = self.model.to(memory_format=torch.channels_last)"]


def test_a_model_of_another_file_is_known_by_where_it_was_made():
    refused(ORDER, KWARGS)
    assert edited(ORDER, KWARGS, at(KWARGS, "models", "model = Net()"))[1]


def test_a_model_returned_by_a_function_is_left_alone():
    source = "import torch\ndef make():\n    return Net()\nmodel = make()\n"
    assert "line 3" in refused(ORDER, source, at(source, "models", "return")).why


def test_what_only_holds_the_model_is_not_the_model():
    assert refused(COMPILE, FASTAI, at(FASTAI, "models", "learn =")).where


def test_two_models_of_which_none_was_seen_are_left_alone():
    source = "import torch\na = torch.nn.Sequential()\nb = torch.nn.Sequential()\n"
    refused(ORDER, source)


def test_a_model_that_is_reordered_already_stays():
    source = (
        "import torch\nmodel = torch.nn.Sequential()\n# images\nmodel = model.to(memory_format=torch.channels_last)\n"
    )
    assert edited(ORDER, source) == ([], [])


def test_compiling_leaves_the_model_the_same_object():
    assert edited(COMPILE, PLAIN)[1] == ["model.compile()"]
    changed = Change(id="compile-model", settings={"mode": "reduce-overhead", "dynamic": False})
    assert edited(changed, PLAIN)[1] == ['model.compile(mode="reduce-overhead", dynamic=False)']


def test_compiling_keeps_the_names_of_a_checkpoint():
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    names = list(model.state_dict())
    model.compile()
    assert list(model.state_dict()) == names


@pytest.mark.parametrize("line", ["model = torch.compile(model)", "model.compile(dynamic=True)", "m = DDP(model)"])
def test_a_script_that_compiles_or_splits_its_model_is_left_alone(line):
    refused(COMPILE, f"import torch\nmodel = torch.nn.Sequential()\n{line}\n")


def test_weights_alone_bring_the_order_to_the_images():
    import torch

    layer = torch.nn.Conv2d(8, 8, 3).to(memory_format=torch.channels_last)
    assert layer(torch.randn(2, 8, 9, 9)).is_contiguous(memory_format=torch.channels_last)
