"""Matrix precision lasts for a turn, and each switch goes back to what it was, "not set" included."""

import pytest
import torch

from interventions.specimens import WORDS, facts, timeline
from netdyno.interventions.bf16_autocast import Bf16Autocast
from netdyno.interventions.matmul_precision import MatmulPrecision
from netdyno.measure.step import turning
from netdyno.records.environment import Ceilings

backends = torch.backends


def switches():
    return (
        torch.get_float32_matmul_precision(),
        backends.mkldnn.matmul.fp32_precision,
        backends.mkldnn.conv.fp32_precision,
        backends.mkldnn.rnn.fp32_precision,
        backends.cuda.matmul.fp32_precision,
        backends.cudnn.conv.fp32_precision,
        backends.fp32_precision,
    )


@pytest.fixture
def capable(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)


def test_inside_a_turn_products_are_lowered():
    with MatmulPrecision().applied(WORDS.fresh(0)) as subject, turning(subject):
        assert torch.get_float32_matmul_precision() == "medium"
        assert backends.mkldnn.conv.fp32_precision == "bf16"


def test_convolutions_can_be_left_out():
    before = backends.mkldnn.conv.fp32_precision
    with MatmulPrecision(convolutions=False).applied(WORDS.fresh(0)) as subject, turning(subject):
        assert torch.get_float32_matmul_precision() == "medium"
        assert backends.mkldnn.conv.fp32_precision == before


def test_every_switch_goes_back_also_when_the_turn_raises():
    before = switches()
    with (
        MatmulPrecision().applied(WORDS.fresh(0)) as subject,
        pytest.raises(ZeroDivisionError),
        turning(subject),
    ):
        raise ZeroDivisionError
    assert switches() == before


def test_it_refuses_where_it_is_set_or_has_nothing_to_lower(monkeypatch, capable):
    refuses = MatmulPrecision().refuses
    assert refuses(WORDS.fresh(0)) is None
    with Bf16Autocast().applied(WORDS.fresh(0)) as inside:
        assert "autocast" in refuses(inside)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert "already" in refuses(WORDS.fresh(0))

    def mixed():
        raise RuntimeError("mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", mixed)
    assert "itself" in refuses(WORDS.fresh(0))


def test_it_promises_at_most_half_of_what_a_shorter_type_would_save():
    spent = timeline(forward=40, backward=60)
    known = Ceilings(environment="here", threads=2, matmul={"float32": 1.0, "bfloat16": 4.0}, bandwidth=1.0)
    assert MatmulPrecision().predicts(facts(spent, known)).high == pytest.approx(0.5 * 0.75)
    slow = Ceilings(environment="here", threads=2, matmul={"float32": 1.0, "bfloat16": 0.5}, bandwidth=1.0)
    assert MatmulPrecision().predicts(facts(spent, slow)) is None
