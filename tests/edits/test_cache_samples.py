"""A small class in the source, and the data set inside it."""

import pytest

from edits.specimens import ALONE, FUNCTIONS, NOTEBOOK, PLAIN, TRAINER, at, edited, refused
from netdyno.edits._base import patched
from netdyno.records.trial import Change

CACHE = Change(id="cache-samples")
SLICE = Change(id="tensor-slicing")
HEAD = "from torch.utils.data import DataLoader\n"


def test_the_class_is_written_once_and_wrapped_around_the_data_set():
    removed, added = edited(CACHE, PLAIN)
    assert removed == ["loader = DataLoader(data, batch_size=32, shuffle=True)"]
    assert added[-1] == "loader = DataLoader(KeptSamples(data), batch_size=32, shuffle=True)"
    assert sum(line.startswith("class ") for line in added) == 1


def test_a_loader_of_evaluation_is_not_touched():
    _, added = edited(CACHE, FUNCTIONS, at(FUNCTIONS, "loaders", "loader = D.DataLoader("))
    assert [line for line in added if "KeptSamples(" in line] == ["        KeptSamples(make_data(train=True)),"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (HEAD + "l = DataLoader(d, collate_fn=f)\n", "collate_fn"),
        (HEAD + "l = DataLoader(d, **more)\n", "collate_fn"),
        (HEAD + "more = {'collate_fn': f}\nl = DataLoader(d, **more)\n", "collate_fn"),
        (HEAD + "def make(d):\n    return DataLoader(d)\na, b = make(x), make(y)\n", "several loaders"),
        (HEAD + "l = DataLoader(d)\nprint(l.dataset.classes)\n", "more than samples"),
    ],
)
def test_where_it_could_change_more_it_is_left_alone(source, why):
    assert why in refused(CACHE, source).why


def ran(source):
    """What a script printed, and the weights it ended with."""
    import torch

    said = []
    space = {"print": lambda *words: said.append(words), "__name__": "__main__"}
    exec(compile(source, "train.py", "exec"), space)
    return said, torch.cat([p.detach().flatten() for p in space["model"].parameters()])


@pytest.mark.parametrize("change", [CACHE, SLICE, Change(id="set-to-none"), Change(id="inference-mode")])
def test_the_edited_script_trains_to_the_same_bits(change):
    said, weights = ran(PLAIN)
    said_after, weights_after = ran(patched(change, PLAIN, ALONE, file="train.py"))
    assert said_after == said
    assert (weights_after == weights).all()


def test_batches_are_cut_from_tensors_only_where_the_source_says_that_they_are_tensors():
    assert edited(SLICE, NOTEBOOK)[1][-1].endswith("batch_size=4,shuffle=True,collate_fn=list)")
    assert "TensorDataset" in refused(SLICE, TRAINER).why


def test_arguments_that_the_file_itself_fills_without_a_collate_fn_stand_in_nobodys_way():
    source = HEAD + "more = {'batch_size': 4}\nmore.update({'shuffle': True})\nl = DataLoader(d, **more)\n"
    assert "DataLoader(KeptSamples(d), **more)" in edited(CACHE, source)[1][-1]
