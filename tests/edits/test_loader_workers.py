"""One argument in the training loader's call."""

import pytest

from edits.specimens import FASTAI, FUNCTIONS, HUGGING, KWARGS, PLAIN, SKORCH, TRAINER, at, edited, line_of, refused
from netdyno.edits._base import Site, Sites
from netdyno.records.trial import Change

FOUR = Change(id="loader-workers", settings={"workers": 4})
NONE = Change(id="loader-workers", settings={"workers": 0})
STAY = Change(id="persistent-workers")
DEEP = Change(id="prefetch-factor", settings={"factor": 8})
PIN = Change(id="pin-memory")


def test_it_is_written_behind_the_other_arguments():
    assert edited(FOUR, PLAIN)[1] == ["loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=4)"]


def test_it_is_replaced_where_it_stands():
    source = FUNCTIONS
    removed, added = edited(FOUR, source, at(source, "loaders", "loader = D.DataLoader("))
    assert removed == ["        num_workers=args.workers,  # as many as there are cores"]
    assert added == ["        num_workers=4,  # as many as there are cores"]


def test_it_is_replaced_where_it_is_given_by_position():
    source = "from torch.utils.data import DataLoader\nl = DataLoader(d, 8, True, None, None, 1)\n"
    assert edited(FOUR, source)[1] == ["l = DataLoader(d, 8, True, None, None, 4)"]


def test_a_line_inside_the_call_is_a_line_of_the_call():
    assert edited(FOUR, FUNCTIONS, at(FUNCTIONS, "loaders", "batch_size=64,\n".strip()))[1]


def test_the_loader_of_evaluation_is_left_alone():
    _, added = edited(FOUR, FUNCTIONS, at(FUNCTIONS, "loaders", "loader = D.DataLoader("))
    assert len(added) == 1


def test_arguments_out_of_a_dictionary_are_left_alone_and_the_place_is_named():
    answer = refused(FOUR, KWARGS)
    assert answer.where == Site("train.py", line_of(KWARGS, "**train_kwargs"))
    first, second = line_of(KWARGS, "train_kwargs = {"), line_of(KWARGS, "train_kwargs.update(")
    assert f"filled at line {first}, {second}" in answer.why


def test_an_argument_beside_a_dictionary_can_be_replaced():
    source = "from torch.utils.data import DataLoader\nl = DataLoader(d, num_workers=1, **more)\n"
    assert edited(FOUR, source)[1] == ["l = DataLoader(d, num_workers=4, **more)"]


def test_without_workers_goes_what_needs_them():
    source = (
        "from torch.utils.data import DataLoader\nl = DataLoader(d, num_workers=2, prefetch_factor=2, shuffle=True)\n"
    )
    assert edited(NONE, source)[1] == ["l = DataLoader(d, num_workers=0, shuffle=True)"]


def test_frameworks_are_told_in_their_own_words():
    assert edited(FOUR, HUGGING)[1] == ["        dataloader_num_workers=4,"]
    assert edited(FOUR, SKORCH)[1][0].endswith(", iterator_train__num_workers=4)")
    assert edited(FOUR, FASTAI)[1] == ['dls = ImageDataLoaders.from_folder("images", valid_pct=0.2, num_workers=4)']


def test_a_framework_is_told_also_when_its_own_file_was_seen_to_make_the_loader():
    sites = Sites(loaders=(Site("/lib/transformers/trainer.py", 900),), main="train.py")
    assert edited(FOUR, HUGGING, sites)[1] == ["        dataloader_num_workers=4,"]


def test_a_loader_made_by_a_class_of_ones_own_is_left_alone():
    source = "class Loader: ...\nl = Loader(d)\n"
    assert refused(FOUR, source, at(source, "loaders", "l =")).where == Site("train.py", 2)


def test_workers_stay_where_there_are_some():
    assert edited(STAY, TRAINER)[1] == [
        "\t\tself.loader = DataLoader(dataset, 16, True, num_workers=2, persistent_workers=True)"
    ]
    assert "no workers" in refused(STAY, PLAIN).why


def test_a_number_of_workers_that_may_be_none_is_asked_at_run_time():
    sites = at(FUNCTIONS, "loaders", "loader = D.DataLoader(")
    assert "persistent_workers=args.workers > 0," in "".join(edited(STAY, FUNCTIONS, sites)[1])
    assert "prefetch_factor=8 if args.workers else None," in "".join(edited(DEEP, FUNCTIONS, sites)[1])


@pytest.mark.parametrize(
    ("workers", "written"),
    [("int(n)", "int(n) > 0"), ("a or b", "(a or b) > 0"), ("conf['n']", "conf['n'] > 0")],
)
def test_a_number_that_is_computed_is_asked_as_a_whole(workers, written):
    source = f"from torch.utils.data import DataLoader\nl = DataLoader(d, num_workers={workers})\n"
    assert edited(STAY, source)[1] == [f"l = DataLoader(d, num_workers={workers}, persistent_workers={written})"]


def test_pinning_comes_with_copies_that_do_not_wait():
    source = (
        "import torch\nloader = torch.utils.data.DataLoader(d, 8)\n"
        "for step, (x, y) in enumerate(loader):\n    x, y = x.to(device), y.cuda()\n    z.to(device)\n"
    )
    removed, added = edited(PIN, source)
    assert len(removed) == 2
    assert added == [
        "loader = torch.utils.data.DataLoader(d, 8, pin_memory=True)",
        "    x, y = x.to(device, non_blocking=True), y.cuda(non_blocking=True)",
    ]


def test_pinning_without_a_copy_is_left_alone():
    assert "pinning alone gains nothing" in refused(PIN, PLAIN).why
