"""What remedies do to calls, without a script: each is put on here and taken off again."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import optimizer as optimizers

from netdyno.aboard.patches import Patches
from netdyno.aboard.remedies import _base


@pytest.fixture
def put_on(monkeypatch):
    """Puts a remedy on for the rest of a test."""
    handles = []
    for name in ("register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"):
        original = getattr(optimizers, name)
        monkeypatch.setattr(optimizers, name, lambda hook, make=original: handles.append(make(hook)))
    observer = SimpleNamespace(
        replacements=Patches(), inside=0, updates=0, view=SimpleNamespace(optimizer_arguments=[], loader_arguments=[])
    )
    yield lambda name, **settings: _base.find(name).put_on(observer, settings)
    observer.replacements.undo()
    for handle in handles:
        handle.remove()


def rows(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_another_function_is_called(put_on):
    put_on("call-instead", call="softmax", instead="sigmoid")
    assert torch.equal(F.softmax(torch.zeros(3, 1), dim=1), torch.full((3, 1), 0.5))


def test_a_result_is_scaled(put_on):
    put_on("scale-result", call="matmul", factor=0.5)
    assert torch.equal(torch.matmul(torch.eye(2), torch.eye(2)), torch.eye(2) / 2)


def test_what_is_written_with_an_operator_is_scaled_too(put_on):
    put_on("scale-result", call="__matmul__", factor=0.5)
    assert torch.equal(torch.eye(2) @ torch.eye(2), torch.eye(2) / 2)


def test_training_stops(put_on):
    put_on("stop-training", after=2)
    net = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    weights = []
    for _ in range(4):
        net(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        weights.append(float(net.weight.detach()))
    assert weights[0] != weights[1] == weights[2] == weights[3]


def test_what_the_optimizer_lacks_joins_it(put_on):
    put_on("train-everything", unfreeze=True)
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    net[0].requires_grad_(False)
    net.spare = [nn.Linear(2, 2)]
    optimizer = torch.optim.SGD(net[1].parameters(), lr=0.1)
    net(rows(3, 2))
    assert len(optimizer.param_groups[0]["params"]) == 6
    assert net[0].weight.requires_grad


def test_layers_are_bent_only_where_nothing_bends(put_on):
    one, other, values = nn.Linear(4, 4), nn.Linear(4, 2), rows(8, 4)
    straight = other(one(values))
    tanh = other(torch.tanh(one(values)))
    in_place = other(F.relu(one(values), inplace=True))
    bent = other(one(values).relu())
    put_on("bend-between-layers")
    assert torch.equal(other(one(values)), bent)
    assert not torch.equal(straight, bent)
    assert torch.equal(other(torch.tanh(one(values))), tanh)
    assert torch.equal(other(F.relu(one(values), inplace=True)), in_place)


def test_signals_keep_their_size_behind_a_sigmoid(put_on):
    put_on("norm-between-layers")
    first, second = nn.Linear(16, 16), nn.Linear(16, 16)
    nn.init.eye_(second.weight)
    nn.init.zeros_(second.bias)
    assert float(second(torch.sigmoid(first(rows(32, 16)))).detach().std()) == pytest.approx(1, abs=0.1)
    assert torch.sigmoid(torch.zeros(1)).item() == 0.5


def test_inputs_and_targets_are_repaired(put_on):
    put_on("repair-inputs")
    values, target = rows(4, 2), rows(4, 1)
    values[0, 0], target[1, 0] = torch.nan, torch.inf
    assert torch.isfinite(F.mse_loss(nn.Linear(2, 1)(values), target))


def test_frozen_norms_keep_their_statistics(put_on):
    put_on("freeze-statistics")
    frozen, learning = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    frozen.requires_grad_(False)
    frozen(rows(8, 2) + 5)
    learning(rows(8, 2) + 5)
    assert not frozen.running_mean.any()
    assert frozen.training
    assert learning.running_mean.any()


def test_a_sample_is_normalised_by_itself(put_on):
    put_on("group-norm-instead")
    norm, values = nn.BatchNorm2d(4), rows(6, 4, 3, 3)
    assert torch.allclose(norm(values)[:1], norm(values[:1]), atol=1e-6)


def test_a_carried_state_is_cut(put_on):
    put_on("detach-inputs")
    net = nn.Linear(2, 2)
    state = net(rows(1, 2))
    net(state).sum().backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        net(state).detach().sum().backward()


def test_a_kept_loss_holds_no_graph(put_on):
    put_on("detach-loss")
    loss = nn.Linear(2, 1)(rows(3, 2)).sum()
    loss.backward()
    assert loss.grad_fn is None


def test_doubles_become_singles(put_on):
    put_on("single-precision")
    made = (torch.tensor([1.0], dtype=torch.float64), torch.ones(1).double(), torch.ones(1).to(torch.float64))
    assert {each.dtype for each in made} == {torch.float32}
    assert nn.Linear(1, 1).double().weight.dtype == torch.float32


def test_a_kept_state_stays_as_it_was(put_on):
    put_on("copy-states")
    net = nn.Sequential(nn.Linear(1, 1))
    kept = net.state_dict()
    with torch.no_grad():
        net[0].weight += 1
    assert kept["0.weight"] != net[0].weight
    net.load_state_dict(kept)


def test_masks_are_turned_around(put_on):
    put_on("invert-mask")
    mask = torch.tensor([True, False])
    assert torch.zeros(2).masked_fill(mask, 1.0).tolist() == [0.0, 1.0]


def test_axes_are_moved_instead_of_renamed(put_on):
    put_on("permute-instead")
    values = rows(2, 3, 5)
    assert torch.equal(values.view(2, 5, 3), values.transpose(1, 2))
    assert values.view(2, 15).shape == (2, 15)


def test_weights_are_filled_once(put_on):
    put_on("initialise-once")
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    nn.init.ones_(net.weight)
    net(rows(1, 2)).sum().backward()
    optimizer.step()
    before = net.weight.clone()
    nn.init.normal_(net.weight)
    net.weight.data.zero_()
    optimizer.zero_grad(set_to_none=False)
    assert torch.equal(net.weight, before)
    assert not net.weight.grad.any()


def test_files_are_written_less_often(put_on, tmp_path):
    put_on("save-less", every=3)
    for number in range(4):
        torch.save(number, tmp_path / f"{number}")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", "3"]


def test_a_hook_of_one_line_stands_once(put_on):
    put_on("hook-once")
    net, calls = nn.Linear(1, 1), []
    for _ in range(3):
        net.register_forward_hook(lambda *_: calls.append(1))
    net.register_forward_hook(lambda *_: calls.append(2))
    net(torch.ones(1, 1))
    assert sorted(calls) == [1, 2]


def test_a_batch_without_targets_teaches_nothing(put_on):
    put_on("skip-empty-targets")
    output = rows(2, 3).requires_grad_()
    F.cross_entropy(output, torch.tensor([-100, -100])).backward()
    assert not output.grad.any()


def test_a_prefix_is_no_hindrance(put_on):
    put_on("strip-prefix", prefix="module.")
    net, state = nn.Linear(1, 1), nn.Linear(1, 1).state_dict()
    net.load_state_dict({f"module.{name}": value for name, value in state.items()})
    assert torch.equal(net.weight, state["weight"])


def test_a_backward_pass_begins_at_one_number(put_on):
    put_on("average-loss")
    net = nn.Linear(2, 1)
    net(rows(3, 2)).backward()
    assert net.weight.grad is not None


def test_recurrent_layers_take_samples_first(put_on):
    put_on("batch-first")
    assert nn.LSTM(2, 3).batch_first


def test_each_split_is_scaled_by_itself(put_on):
    put_on("scale-inputs", apart=True)
    net = nn.Linear(2, 2)
    nn.init.eye_(net.weight)
    nn.init.zeros_(net.bias)
    net(rows(64, 2))
    with torch.no_grad():
        assert net(rows(64, 2) * 9 + 4).mean().abs() < 1e-3


def test_idle_weights_are_frozen(put_on):
    put_on("freeze-the-idle")
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net[1].parameters(), lr=0.1)
    for _ in range(4):
        net(rows(3, 2)).sum().backward()
        optimizer.step()
    assert not net[0].weight.requires_grad
    assert net[1].weight.requires_grad
