"""Bfloat16: products are lowered, the loss is not, and it is proposed only where hardware and model can gain."""

import pytest
import torch
from torch.nn import functional as F

from interventions.specimens import IMAGES, WORDS, facts, stepped, timeline
from netdyno.interventions import bf16_autocast as module
from netdyno.interventions.bf16_autocast import Bf16Autocast
from netdyno.measure.step import forward_loss, one_batch
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import Op, OpTable
from netdyno.targets.workload import Workload


@pytest.fixture(autouse=True)
def hardware(monkeypatch):
    monkeypatch.setattr(module, "instructions", lambda device: "avx512_bf16" if device == "cpu" else None)


def ceilings(**matmul):
    return Ceilings(environment="here", threads=2, matmul=matmul, bandwidth=1e10)


def operators(**seconds):
    ops = tuple(Op(name=f"aten::{name}", calls=1.0, seconds=spent) for name, spent in seconds.items())
    return OpTable(ops=ops, dispatches=10.0, operator_s=sum(seconds.values()), python_s=0.0)


def binary(probabilities, target):
    return F.binary_cross_entropy(probabilities, target)


def test_products_run_in_bfloat16_and_parameters_stay_float32():
    subject = WORDS.fresh(0)
    seen = []
    subject.model.head.register_forward_hook(lambda _, __, output: seen.append(output.dtype))
    with Bf16Autocast().applied(subject) as inside:
        loss = forward_loss(inside, one_batch(inside))
    assert seen == [torch.bfloat16]
    assert loss.dtype == torch.float32
    assert {parameter.dtype for parameter in subject.model.parameters()} == {torch.float32}


def test_the_loss_is_computed_in_float32_outside_of_autocast():
    seen = []

    def loss(output, target):
        seen.append((output.dtype, torch.is_autocast_enabled("cpu"), (output @ output.T).dtype))
        return F.cross_entropy(output, target)

    workload = Workload(name="own", model=WORDS.model, train=WORDS.train, loss=loss, batch_size=4)
    with Bf16Autocast().applied(workload.fresh(0)) as inside:
        stepped(inside, 1)
    assert seen == [(torch.float32, False, torch.float32)]


def test_a_loss_that_autocast_forbids_on_gpus_is_safe_since_it_never_sees_autocast():
    workload = Workload(
        name="own",
        model=lambda: torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Sigmoid(), torch.nn.Flatten(0)),
        train=lambda: (torch.randn(16, 4), torch.rand(16)),
        loss=binary,
        batch_size=4,
    )
    with Bf16Autocast().applied(workload.fresh(0)) as inside:
        assert all(loss > 0 for loss in stepped(inside, 2).losses)


def test_several_outputs_reach_the_loss_in_their_own_form():
    seen = []

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x):
            return {"logits": self.head(x), "count": torch.tensor(3)}

    def loss(output, target):
        seen.append((output["logits"].dtype, output["count"].dtype))
        return F.cross_entropy(output["logits"], target)

    workload = Workload(
        name="two", model=Two, train=lambda: (torch.randn(8, 4), torch.arange(8) % 2), loss=loss, batch_size=4
    )
    with Bf16Autocast().applied(workload.fresh(0)) as inside:
        stepped(inside, 1)
    assert seen == [(torch.float32, torch.int64)]


def test_it_refuses_machines_and_models_that_cannot_gain(monkeypatch):
    refuses = Bf16Autocast().refuses
    assert refuses(IMAGES.fresh(0)) is None
    low = WORDS.fresh(0)
    low.model.bfloat16()
    assert "parameters are bfloat16" in refuses(low)
    wide = WORDS.fresh(0)
    wide.model.double()
    assert "float64" in refuses(wide)
    with Bf16Autocast().applied(WORDS.fresh(0)) as inside:
        assert "under autocast already" in refuses(inside)
    monkeypatch.setattr(module, "instructions", lambda device: None)
    assert "no bfloat16 instructions" in refuses(IMAGES.fresh(0))


def test_the_prediction_follows_the_measured_rates():
    spent = timeline(data=20, forward=30, backward=50)
    prediction = Bf16Autocast().predicts(
        facts(spent, operators(mm=0.06, add=0.02), ceilings(float32=100e9, bfloat16=400e9))
    )
    products = 0.8 * 0.75 * (1 - 1 / 4)
    assert prediction.low == pytest.approx(0.2 * products)
    assert prediction.high == pytest.approx(products + 0.3 * 0.8 * 0.25)
    assert "4.0 times quicker here (measured)" in prediction.why


def test_a_machine_that_is_not_quicker_in_bfloat16_rules_it_out():
    spent = timeline(forward=30, backward=50)
    assert Bf16Autocast().predicts(facts(spent, ceilings(float32=100e9, bfloat16=90e9))) is None
    assert Bf16Autocast().predicts({}) is None
