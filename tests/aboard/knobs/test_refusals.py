"""A knob that the script turned already, or that its author chose, is left alone."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from aboard.knobs.specimens import SPECIMENS, Decoded, Specimen, images, rows, table
from netdyno.aboard.knobs import bf16_autocast
from netdyno.aboard.knobs._base import made, refused, watch


def why(view, name, **settings):
    return refused(view, {"id": name, "settings": settings})


@pytest.fixture
def hardware(monkeypatch):
    """As on a machine with bfloat16 instructions."""
    monkeypatch.setattr(bf16_autocast, "_in_hardware", lambda _: True)


def test_a_script_under_autocast_chooses_its_own_precision(hardware):
    one = SPECIMENS["plain"]()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        watch(one.view)((torch.zeros(2, 8),), {})
    assert "already runs its forward pass under autocast" in why(one.view, "bf16-autocast")


def test_autocast_that_a_knob_entered_is_not_taken_for_the_scripts_own(hardware):
    one = SPECIMENS["plain"]()
    knob = made(one.view, {"id": "bf16-autocast", "settings": {}})
    knob.on()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        watch(one.view)((torch.zeros(2, 8),), {})
    knob.off()
    assert why(one.view, "bf16-autocast") is None


def test_a_script_with_a_scaler_chooses_its_own_precision(hardware):
    one = SPECIMENS["plain"]()
    idle = torch.amp.GradScaler("cpu", enabled=False)
    assert why(one.view, "bf16-autocast") is None
    scaler = torch.amp.GradScaler("cpu")
    assert "GradScaler" in why(one.view, "bf16-autocast")
    assert scaler.is_enabled()
    assert not idle.is_enabled()


def test_a_model_in_a_low_precision_gains_nothing(hardware):
    one = SPECIMENS["plain"]()
    one.model.bfloat16()
    assert "bfloat16; autocast lowers float32 only" in why(one.view, "bf16-autocast")


def test_an_explicit_choice_of_the_author_stays_unless_the_trial_is_about_it():
    one = SPECIMENS["plain"]()
    one.view.explicit["optimizer"].update({"lr", "foreach"})
    assert "chooses `foreach`" in why(one.view, "fused-optimizer")
    assert why(one.view, "fused-optimizer", explicit=True) is None


def test_a_fused_optimizer_needs_no_change():
    one = Specimen(rows, torch.optim.AdamW, table(), fused=True)
    assert "already uses the fused form of `AdamW`" in why(one.view, "fused-optimizer")
    assert "fused, which is quicker" in why(one.view, "foreach-optimizer")


def test_an_optimizer_of_ones_own_is_not_taken_for_its_base():
    class Own(torch.optim.Adam):
        pass

    assert "`Own` has no fused form" in why(Specimen(rows, Own, table()).view, "fused-optimizer")


def test_of_two_optimizers_only_the_one_that_fits_is_fused():
    one = SPECIMENS["plain"]()
    other = torch.optim.Adadelta(nn.Linear(2, 2).parameters())
    one.view.optimizers.append(other)
    knob = made(one.view, {"id": "fused-optimizer", "settings": {}})
    knob.on()
    assert one.optimizer.param_groups[0]["fused"] is True
    assert "fused" not in other.param_groups[0]
    knob.off()


def test_weights_that_are_channels_last_stay():
    one = Specimen(images, dataset=Decoded())
    one.model.to(memory_format=torch.channels_last)
    assert "already keeps" in why(one.view, "channels-last")


def test_inputs_that_are_no_images_gain_no_order():
    one = Specimen(images, loader=DataLoader(Decoded()))
    watch(one.view)((torch.zeros(2, 8),), {})
    assert "4 dimensions (they have 2)" in why(one.view, "channels-last")


def test_gradients_that_are_none_need_not_be_forgotten():
    one = SPECIMENS["plain"]()
    one.update(2)
    assert "already sets gradients to None" in why(one.view, "set-to-none")


def test_an_evaluation_that_was_never_seen_is_not_hastened():
    assert "no evaluation was seen" in why(SPECIMENS["plain"]().view, "inference-mode")


def test_an_evaluation_in_inference_mode_needs_no_change():
    one = SPECIMENS["plain"]()
    with torch.inference_mode():
        one.evaluate()
    assert "already evaluates in inference mode" in why(one.view, "inference-mode")


def test_a_precision_that_the_script_sets_stays(hardware):
    view = SPECIMENS["plain"]().view
    torch.set_float32_matmul_precision("high")
    try:
        assert why(view, "matmul-precision")
    finally:
        torch.set_float32_matmul_precision("highest")
        for switch in (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul):
            switch.fp32_precision = "none"
