"""Work per layer against values worked out by hand."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from netdyno.measure.step import one_batch
from netdyno.measure.stopwatch import Reading
from netdyno.measure.work import Counting, layer_table, layers, under
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import Layer
from netdyno.targets.workload import Workload

CEILINGS = Ceilings(environment="", threads=1, matmul={"float32": 1e11, "bfloat16": 4e11}, bandwidth=1e10)


def intensity(layer, *shape):
    given = torch.randn(shape)
    (found,) = layers(layer, lambda: layer(given), repeats=1)
    return found.intensity


def convolution(inputs, outputs, side, groups=1):
    return nn.Conv2d(inputs, outputs, side, padding=side // 2, groups=groups, bias=False)


@pytest.mark.parametrize(
    ("layer", "shape", "by_hand"),
    [
        (convolution(16, 64, 1), (1, 16, 56, 56), 6.37),
        (convolution(64, 64, 3), (1, 64, 28, 28), 105.3),
        (convolution(64, 64, 3, groups=16), (1, 64, 28, 28), 8.80),
        (convolution(64, 64, 3, groups=64), (1, 64, 112, 112), 2.25),
    ],
    ids=["1x1", "3x3", "grouped", "depthwise"],
)
def test_intensity_of_convolutions_is_as_worked_out_by_hand(layer, shape, by_hand):
    assert intensity(layer, *shape) == pytest.approx(by_hand, abs=0.005 * max(1, by_hand / 10))


def test_intensity_of_a_dense_convolution_never_falls_with_the_batch():
    layer = convolution(32, 32, 3)
    found = [intensity(layer, batch, 32, 14, 14) for batch in (1, 2, 8, 32)]
    assert found == sorted(found)


def test_half_precision_doubles_the_intensity_because_bytes_halve():
    full, half = convolution(16, 16, 3), convolution(16, 16, 3).bfloat16()
    given = torch.randn(2, 16, 14, 14)
    (low,) = layers(half, lambda: half(given.bfloat16()), repeats=1)
    assert low.intensity == pytest.approx(2 * intensity(full, 2, 16, 14, 14))


def counted(work):
    with Counting() as found:
        work()
    return found.flops


def test_attention_on_the_cpu_is_counted_forward_and_backward():
    query = torch.randn(2, 4, 8, 16, requires_grad=True)
    key, value = torch.randn(2, 4, 10, 16), torch.randn(2, 4, 10, 16)
    product = 2 * 2 * 4 * 8 * 10 * 16  # one product of the two sequences, over batch and heads
    output = []
    assert counted(lambda: output.append(F.scaled_dot_product_attention(query, key, value))) == 2 * product
    assert counted(lambda: output[0].sum().backward()) == 5 * product


def test_a_recurrent_layer_is_counted_forward_and_backward():
    layer = nn.LSTM(8, 16, num_layers=2, batch_first=True)
    given = torch.randn(4, 5, 8)
    by_hand = 2 * 4 * 5 * (4 * 16 * (8 + 16) + 4 * 16 * (16 + 16))
    output = []
    assert counted(lambda: output.append(layer(given)[0])) == by_hand
    assert counted(lambda: output[0].sum().backward()) == 2 * by_hand


def test_a_matrix_product_moves_two_inputs_and_one_output():
    left, right = torch.randn(8, 16), torch.randn(16, 4)
    with Counting() as found:
        left @ right
    assert found.bytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert found.flops == 2 * 8 * 16 * 4


def test_views_move_nothing_and_an_addition_in_place_moves_three():
    given, other = torch.randn(64), torch.randn(64)
    with Counting() as found:
        given.view(8, 8).t().unsqueeze(0).expand(3, 8, 8)
    assert found.bytes == 0
    with Counting() as found:
        given.add_(other)
    assert found.bytes == 3 * 64 * 4


def test_an_expanded_tensor_moves_only_what_is_behind_it():
    with Counting() as found:
        torch.ones(1, 64).expand(100, 64).sum(0)
    assert found.bytes <= 2 * 64 * 4 + 64 * 4


def test_an_embedding_moves_the_rows_it_reads_and_not_its_table():
    table = nn.Embedding(10_000, 8)
    given = torch.randint(0, 10_000, (32,))
    (found,) = layers(table, lambda: table(given), repeats=1)
    assert found.bytes == 32 * 8 + 2 * 32 * 8 * 4
    assert (found.flops, found.intensity) == (0.0, 0.0)


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, given):
        query, key, value = self.into(given).view(*given.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(1, 2).reshape(given.shape))


def test_what_a_module_does_between_its_children_is_its_own_row():
    model = nn.Sequential(Attending(), nn.ReLU())
    given = torch.randn(2, 10, 16)
    found = {layer.module: layer for layer in layers(model, lambda: model(given), repeats=1)}
    assert set(found) == {"0", "0.into", "0.out", "1"}
    assert found["0"].flops == 2 * 2 * (2 * 2 * 10 * 10 * 8)
    assert found["0.into"].flops == 2 * 20 * 16 * 48
    assert found["1"].flops == 0.0


def test_rows_add_up_to_the_whole_forward_pass():
    model = nn.Sequential(Attending(), nn.Flatten(), nn.Linear(160, 4))
    given = torch.randn(2, 10, 16)
    rows = layers(model, lambda: model(given), repeats=1)
    assert sum(row.flops for row in rows) == counted(lambda: model(given))


def test_a_module_that_is_called_twice_is_one_row_with_twice_the_work():
    shared = nn.Linear(8, 8)
    model = nn.Sequential(shared, nn.Tanh(), shared)
    given = torch.randn(4, 8)
    rows = {row.module: row for row in layers(model, lambda: model(given), repeats=1)}
    assert rows["0"].flops == 2 * (2 * 4 * 8 * 8)


class Passing:
    """A clock that only the layers move: each reading finds what they wrote."""

    def __init__(self):
        self.ms = 0.0

    def __call__(self):
        return Reading(round(self.ms * 1e6), round(self.ms * 1e6), 0)


def test_seconds_of_a_layer_leave_out_those_of_the_layers_inside():
    clock = Passing()

    class Slow(nn.Linear):
        def forward(self, given):
            clock.ms += 5
            return super().forward(given)

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = Slow(4, 4)

        def forward(self, given):
            clock.ms += 2
            return self.inside(given) @ torch.ones(4, 4)

    model = Around()
    rows = {row.module: row for row in layers(model, lambda: model(torch.ones(2, 4)), clock=clock, repeats=3)}
    assert rows["inside"].seconds == pytest.approx(0.005)
    assert rows["(model)"].seconds == pytest.approx(0.002)


def layer(flops, moved, seconds):
    return Layer(module="x", kind="X", flops=flops, bytes=moved, seconds=seconds, intensity=flops / moved)


def test_the_share_of_the_ceiling_is_the_limiting_time_over_the_measured_one():
    assert under(layer(1e9, 1e6, 0.02), CEILINGS, "float32").share_of_ceiling == pytest.approx(0.5)
    assert under(layer(1e6, 1e7, 0.004), CEILINGS, "float32").share_of_ceiling == pytest.approx(0.25)
    assert under(layer(1e9, 1e6, 0.02), CEILINGS, "bfloat16").share_of_ceiling == pytest.approx(0.125)


def test_without_ceilings_there_is_no_share():
    assert under(layer(1e9, 1e6, 0.02), None, "float32").share_of_ceiling is None


def small():
    data = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    return Workload(
        model=lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)),
        train=lambda: (data, (data.sum(1) > 0).long()),
        batch_size=8,
        name="small",
    ).fresh(0)


def test_a_step_does_the_forward_work_about_three_times():
    subject = small()
    table = layer_table(subject, one_batch(subject), ceilings=CEILINGS, repeats=1)
    first, second = 2 * 8 * 16 * 32, 2 * 8 * 32 * 2
    assert table.forward_flops == first + second
    # The first layer needs no gradient for its input: two products instead of three.
    assert table.step_flops == 2 * first + 3 * second
    assert (table.dtype, table.ridge) == ("float32", 10.0)
    assert table.intensity == table.step_flops / table.step_bytes


def test_under_autocast_the_work_is_in_the_lower_precision():
    subject = small().with_forward(lambda: torch.autocast("cpu", torch.bfloat16))
    table = layer_table(subject, one_batch(subject), ceilings=CEILINGS, repeats=1)
    assert (table.dtype, table.ridge) == ("bfloat16", 40.0)


def test_hooks_are_gone_afterwards_also_when_the_model_raises():
    def refuses(_, __):
        raise ValueError

    subject = replace(small(), forward=refuses)
    with pytest.raises(ValueError):
        layers(subject.model, lambda: subject.forward(subject.model, None), repeats=1)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in subject.model.modules())
