"""What the looks at saved, exported and served models say of small ones."""

import copy

import torch
from torch import nn

from netdyno.aboard.frames import Line
from netdyno.aboard.vitals import _exports_answers, saves
from netdyno.aboard.vitals._exports_records import Records, skews
from netdyno.aboard.vitals.exports import _shares


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def met(*pairs):
    """Records of one model on several lines."""
    net = model()
    known = []
    for number, rows in enumerate(pairs):
        seen = Records("Net", Line("serve.py", 10 + number, "main"))
        with torch.no_grad():
            seen.take(rows, net(rows), 5)
        known.append(((1, seen.line), seen))
    return skews(known)


def test_the_same_numbers_have_the_same_mark_wherever_they_lie():
    net = model()
    state = copy.deepcopy(net.state_dict())
    assert saves.mark(list(state.values())) == saves.mark(list(net.state_dict().values()))
    state["0.weight"][0, 0] += 1
    assert saves.mark(list(state.values())) != saves.mark(list(net.state_dict().values()))


def test_a_prefix_that_explains_all_missing_names_is_found():
    assert saves._prefix(["a", "b"], ["module.a", "module.b"]) == "module."
    assert saves._prefix(["a", "b"], ["c", "d"]) == ""


def test_tensors_are_found_in_nested_states():
    found = list(saves._tensors({"model": model().state_dict(), "more": [torch.ones(2), {"deep": (torch.ones(3),)}]}))
    assert len(found) == 6


def test_the_same_records_in_another_scale_are_known_again():
    rows = torch.rand(20, 8, generator=torch.Generator().manual_seed(1))
    (skew,) = met(rows, 255 * rows)
    assert skew["rows"] == 20
    assert abs(skew["scale"] - 255) < 1
    assert not skew["permuted"]


def test_the_same_records_in_another_order_of_columns_are_known_again():
    rows = torch.rand(20, 8, generator=torch.Generator().manual_seed(1))
    (skew,) = met(rows, rows.flip(1))
    assert skew["permuted"]


def test_other_records_are_no_skew():
    chance = torch.Generator().manual_seed(1)
    assert met(torch.rand(20, 8, generator=chance), 255 * torch.rand(20, 8, generator=chance)) == []


def test_other_records_of_ones_and_zeros_are_no_exchange_of_columns():
    chance = torch.Generator().manual_seed(1)
    assert (
        met(
            (torch.rand(60, 40, generator=chance) > 0.7).float()[:, :8],
            (torch.rand(60, 8, generator=chance) > 0.7).float(),
        )
        == []
    )


def test_answers_of_older_weights_are_forgotten():
    seen = Records("Net", Line("serve.py", 1, "main"))
    seen.take(torch.rand(4, 8), torch.rand(4, 2), 1)
    seen.take(torch.rand(3, 8), torch.rand(3, 2), 2)
    assert seen.count == 3


def test_shares_are_known_by_what_they_guarantee():
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    assert _shares(logits.softmax(1)) == "softmax"
    assert _shares(logits.sigmoid()) == "sigmoid"
    assert _shares(logits) is None


def test_a_model_s_own_answers_lie_at_no_distance():
    net, rows = model(), torch.rand(10, 8)
    told = _exports_answers.answers(net, [(rows, net(rows).detach())], "trace", None)
    assert told["error"] == 0
    assert told["agreement"] == 1


def test_the_first_operation_that_half_precision_cannot_hold_is_named():
    class Squares(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.full((1,), 1000.0))

        def forward(self, x):
            return (x * self.weight) ** 2

    told = _exports_answers.inner_peak(Squares().half(), [(torch.ones(2, 1), torch.ones(2, 1))])
    assert told["peak"] > 65504
    assert told["peak_op"] == "pow"


def test_looking_changes_neither_modes_nor_chance():
    net = nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.5))
    before = torch.get_rng_state()
    with _exports_answers.quietly(net):
        torch.rand(3)
        assert not net[1].training
    assert net[1].training
    assert torch.equal(before, torch.get_rng_state())
