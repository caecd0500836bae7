"""Float16 belongs to GPUs: on a CPU it is refused with its reason, and a scaler comes with it."""

import pytest
import torch

from interventions.specimens import IMAGES, WORDS, facts, stepped, timeline
from netdyno.interventions.fp16_autocast import Fp16Autocast


def test_a_cpu_is_refused_with_the_reason():
    assert "80 to 100 times as long" in Fp16Autocast().refuses(IMAGES.fresh(0))


def test_the_scaler_is_part_of_the_subject_inside_and_nowhere_else():
    subject = WORDS.fresh(0)
    with Fp16Autocast().applied(subject) as inside:
        assert isinstance(inside.scaler, torch.amp.GradScaler)
    assert subject.scaler is None


def test_it_predicts_from_the_share_of_products():
    prediction = Fp16Autocast().predicts(facts(timeline(data=50, forward=20, backward=30)))
    assert prediction.high == pytest.approx(0.25)
    assert Fp16Autocast().predicts({}) is None


@pytest.mark.gpu
def test_steps_on_a_gpu_learn():
    from dataclasses import replace

    subject = replace(IMAGES, device="cuda").fresh(0)
    with Fp16Autocast().applied(subject) as inside:
        losses = stepped(inside, 20).losses
    assert losses[-1] < losses[0]
