from types import SimpleNamespace

import numpy as np
import torch

from monitor.gauges.rides import aboard, network, one, train
from netdyno.monitor.gauges import _base


class Copy:
    """A tensor's copy that is on its way from a device until it is let arrive."""

    def __init__(self, values):
        self.values, self.here = values, False

    def query(self):
        return self.here


def test_what_a_device_computes_is_told_when_it_is_here_and_not_waited_for():
    heard = []
    with aboard(one("output")) as told:
        train(network(), torch.optim.SGD(network().parameters(), lr=0.1), updates=1)
        gauge = told.observer.vitals.vitals[0]
        first = Copy(torch.tensor([1.0]))
        gauge._on_its_way.append((3, first.values, first, lambda values, at: heard.append((values.tolist(), at))))
        gauge.arrived()
        assert heard == []
        first.here = True
        gauge.arrived()
    assert heard == [([1.0], 3)]


def test_half_precision_numbers_become_ones_that_numpy_knows():
    assert _base._numbers(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32


def test_sparse_and_whole_numbers_are_not_read():
    assert _base.readable(torch.eye(2).to_sparse()) is None
    assert _base.readable(torch.ones(2, dtype=torch.int64)) is None
    assert _base.readable(None) is None
    assert _base.readable(torch.empty(2, device="meta")) is None


def test_of_a_sharded_tensor_only_the_local_part_is_read():
    whole = SimpleNamespace(
        is_sparse=False, layout=torch.strided, is_floating_point=lambda: True, _local_tensor=torch.ones(2)
    )
    assert _base.readable(whole).tolist() == [1.0, 1.0]


def test_norms_of_mixed_precision_come_as_one_row():
    found = _base.norms(
        [torch.full((4,), 300.0, dtype=torch.float16), torch.ones(4), torch.ones(9, dtype=torch.float64)]
    )
    assert found.tolist() == [600.0, 2.0, 3.0]


def test_several_models_are_told_apart_by_their_names():
    models = {"generator": network(), "judge": network()}
    optimizer = torch.optim.SGD([p for model in models.values() for p in model.parameters()], lr=0.1)
    names = [name for name, _ in _base._named(models, optimizer)]
    assert names == ["generator.0"] * 2 + ["generator.2"] * 2 + ["judge.0"] * 2 + ["judge.2"] * 2
