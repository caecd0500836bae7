import pytest
import torch

from monitor.gauges.rides import network, ridden
from netdyno.monitor.gauges._base import spread_out


def test_the_ratio_of_a_step_to_the_weights_is_told():
    model = network()
    before = []
    told = ridden(
        "update-ratio", model, torch.optim.SGD(model.parameters(), lr=0.1), updates=1,
        each=lambda: before.extend((p.clone(), p.grad.clone()) for p in model[0].parameters()),
    )  # fmt: skip
    way = sum((0.1 * grad).square().sum() for _, grad in before).sqrt()
    size = sum(weight.square().sum() for weight, _ in before).sqrt()
    assert told.points["update_ratio/0"] == pytest.approx([(way / size).item()], rel=1e-4)


def test_weights_that_do_not_move_have_a_ratio_of_zero():
    model = network()
    told = ridden("update-ratio", model, torch.optim.SGD(model.parameters(), lr=0.0), updates=3)
    assert told.points["update_ratio"] == [0, 0, 0]


def test_a_part_of_a_large_weight_comes_from_all_of_its_rows_and_columns():
    weight = torch.arange(512 * 512.0).reshape(512, 512)
    part = spread_out(weight, 4096)
    assert len(part) <= 4096
    assert len((part % 512).unique()) > 250
    assert len((part // 512).unique()) == 512
    assert part.data_ptr() == weight.data_ptr()
