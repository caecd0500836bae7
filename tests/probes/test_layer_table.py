"""The probe asks for no more repeats than its steps allow."""

import torch
from torch import nn

from netdyno.probes import layer_table as probe
from netdyno.records.environment import Ceilings
from netdyno.targets.workload import Workload

CEILINGS = Ceilings(environment="", threads=1, matmul={"float32": 1e11}, bandwidth=1e10)


def subject():
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return Workload(model=lambda: nn.Linear(4, 2), train=lambda: (data, (data.sum(1) > 0).long()), name="w").fresh(0)


def test_every_layer_has_its_share_of_the_ceiling():
    (layer,) = probe.collect(subject(), ceilings=CEILINGS, steps=4).layers
    assert layer.kind == "Linear"
    assert layer.share_of_ceiling > 0


def test_repeats_follow_the_steps(monkeypatch):
    asked = []
    real = probe.layer_table
    monkeypatch.setattr(
        probe, "layer_table", lambda *args, **given: asked.append(given["repeats"]) or real(*args, **given)
    )
    for steps in (2, 10, 1000):
        probe.collect(subject(), steps=steps)
    assert asked == [2, 5, probe.REPEATS]
