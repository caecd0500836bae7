"""One flag in the optimizer's call."""

import pytest

from edits.specimens import FUNCTIONS, HUGGING, KWARGS, LIGHTNING, LOOP, PLAIN, SKORCH, at, edited, line_of, refused
from netdyno.edits._base import Site, Sites
from netdyno.records.trial import Change

FUSED = Change(id="fused-optimizer")


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("import torch", "torch.optim.AdamW(p)"),
        ("import torch.optim as O", "O.AdamW(p)"),
        ("from torch import optim", "optim.AdamW(p)"),
        ("from torch.optim import AdamW", "AdamW(p)"),
        ("from torch.optim import AdamW as A", "A(p)"),
        ("from torch.optim.adamw import AdamW", "AdamW(p)"),
    ],
)
def test_it_is_found_under_any_import(imports, call):
    _, added = edited(FUSED, f"{imports}\noptimizer = {call}\n")
    assert added == [f"optimizer = {call[:-1]}, fused=True)"]


def test_a_flag_that_excludes_it_goes():
    removed, added = edited(FUSED, FUNCTIONS)
    assert removed == ["    optimizer = O.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)"]
    assert added == ["    optimizer = O.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)"]


def test_a_flag_that_says_no_says_yes_where_it_stands():
    _, added = edited(FUSED, "from torch import optim\no = optim.Adam(p, fused=False, lr=1)\n")
    assert added == ["o = optim.Adam(p, fused=True, lr=1)"]


def test_arguments_on_lines_of_their_own_get_one_more_line():
    source = "from torch import optim\no = optim.Adam(\n    p,  # all\n    lr=1,  # high\n)\n"
    assert edited(FUSED, source) == ([], ["    fused=True,"])


def test_a_remark_behind_the_last_argument_stays_behind_it():
    source = "from torch import optim\no = optim.Adam(\n    p,\n    lr=1  # high\n)\n"
    removed, added = edited(FUSED, source)
    assert removed == ["    lr=1  # high"]
    assert added == ["    lr=1,  # high", "    fused=True"]


def test_it_is_found_where_lightning_asks_for_it():
    _, added = edited(FUSED, LIGHTNING)
    assert added == ["        return torch.optim.AdamW(self.parameters(), lr=0.1, fused=True)"]


def test_transformers_and_skorch_are_told_in_their_own_words():
    assert edited(FUSED, HUGGING)[1] == ['        optim="adamw_torch_fused",']
    assert edited(FUSED, SKORCH)[1][0].endswith("optimizer=torch.optim.Adam, lr=0.01, optimizer__fused=True)")


def test_transformers_with_another_optimizer_keeps_it():
    assert "adafactor" in refused(FUSED, HUGGING.replace("max_steps=100", 'optim="adafactor"')).why


def test_of_two_optimizers_the_one_that_was_seen_is_changed():
    source = "import torch\na = torch.optim.Adam(x)\nb = torch.optim.Adam(y)\n"
    assert refused(FUSED, source).where is None
    assert edited(FUSED, source, at(source, "optimizers", "b ="))[1] == ["b = torch.optim.Adam(y, fused=True)"]


def test_two_that_were_seen_are_both_changed():
    source = "import torch\na = torch.optim.Adam(x)\nb = torch.optim.Adam(y)\n"
    assert len(edited(FUSED, source, at(source, "optimizers", "a =", "b ="))[1]) == 2


def test_a_class_picked_at_run_time_is_left_alone_with_its_line():
    answer = refused(FUSED, LOOP, at(LOOP, "optimizers", "getattr"))
    assert answer.where == Site("train.py", line_of(LOOP, "getattr"))
    assert "getattr" in answer.why


def test_arguments_out_of_a_dictionary_are_left_alone():
    source = "import torch\nextra = {}\no = torch.optim.AdamW(p, **extra)\n"
    assert "`**extra` (filled at line 2)" in refused(FUSED, source).why


@pytest.mark.parametrize("call", ["RMSprop(p)", "Adam(p, capturable=True)", "LBFGS(p)"])
def test_what_has_no_fused_form_is_left_alone(call):
    refused(FUSED, f"import torch\no = torch.optim.{call}\n")


def test_a_class_of_the_scripts_own_with_a_known_name_is_left_alone():
    refused(FUSED, "import torch\nclass AdamW: ...\no = AdamW(p)\n")


def test_a_name_that_may_be_either_of_two_is_left_alone():
    source = "try:\n    from torch.optim import AdamW\nexcept ImportError:\n    from other import AdamW\no = AdamW(p)\n"
    refused(FUSED, source)


def test_what_was_made_in_another_file_is_not_looked_for_here():
    sites = Sites(optimizers=(Site("optimizers.py", 3),), main="train.py")
    assert "`optimizers.py`, line 3" in refused(FUSED, PLAIN, sites).why


def test_adadelta_has_no_fused_form_but_can_go_list_by_list():
    refused(FUSED, KWARGS)
    assert edited(Change(id="foreach-optimizer"), KWARGS)[1][0].endswith("lr=args.lr, foreach=True)")


def test_list_by_list_is_not_written_beside_fused():
    source = "import torch\no = torch.optim.Adam(p, fused=True)\n"
    assert "fused" in refused(Change(id="foreach-optimizer"), source).why
