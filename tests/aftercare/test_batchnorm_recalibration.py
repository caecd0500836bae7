"""Statistics are renewed by batch norms alone, behind a gate, and come back to the byte (ledger A-204)."""

import pytest
import torch
from torch import nn

from aftercare.specimens import batches, pictures, reference, trained
from netdyno.aftercare import batchnorm_recalibration as recalibration
from netdyno.aftercare._reference import fingerprint, state
from netdyno.errors import NetdynoError

OTHER = {"shift": 4.0, "scale": 0.3}


def accuracy(model, data):
    return sum(data.scores(model)) / len(data.targets)


def test_another_camera_is_followed_and_the_answers_are_better():
    model, there = trained(), reference(**OTHER)
    before = accuracy(model, there)
    done = recalibration.recalibrate(model, batches(**OTHER), reference=there)
    assert done.released
    assert accuracy(model, there) > before + 0.1
    assert max(done.moved.values()) > 0.5


def test_undo_restores_to_the_byte():
    model = trained()
    whole = fingerprint(state(model))
    done = recalibration.recalibrate(model, batches(**OTHER))
    assert fingerprint(state(model)) != whole
    done.undo(model)
    assert fingerprint(state(model)) == whole


def test_the_average_is_that_of_all_rows():
    model = trained()
    inputs = torch.cat([part for (part,) in batches(2000)])
    recalibration.recalibrate(model, [(inputs,)], batch=100)
    with torch.no_grad():
        seen = model.conv(inputs)
    error = (model.norm.running_mean - seen.mean((0, 2, 3))).abs() / seen.std((0, 2, 3))
    # Rows are all there once: nothing but rounding is left.
    assert float(error.max()) < 1e-5
    assert torch.allclose(model.norm.running_var, seen.var((0, 2, 3)), rtol=0.02)


def test_only_batch_norms_learn_and_every_module_keeps_its_mode():
    model = trained()
    model.drop.train()
    modes = [module.training for module in model.modules()]
    weights = fingerprint(model.named_parameters())
    called = []
    model.drop.register_forward_hook(lambda module, *_: called.append(module.training))
    random = torch.get_rng_state()
    recalibration.recalibrate(model, batches(**OTHER))
    assert called
    assert not any(called)
    assert torch.equal(torch.get_rng_state(), random)
    assert fingerprint(model.named_parameters()) == weights
    assert [module.training for module in model.modules()] == modes
    assert {module.momentum for module in model.modules() if hasattr(module, "momentum")} == {0.1}


def test_a_fault_is_adapted_to_by_nobody_who_has_a_gate():
    model = trained()
    whole = fingerprint(state(model))
    noise = [(100 * torch.randn(60, 2, 8, 8, generator=torch.Generator().manual_seed(at)),) for at in range(20)]
    done = recalibration.recalibrate(model, noise, reference=reference())
    assert not done.released
    assert done.accuracy.decision == "broken"
    assert fingerprint(state(model)) == whole
    assert any("not released" in says for says in done.says)


def test_a_reference_that_is_too_small_to_tell_releases_nothing():
    model = trained()
    done = recalibration.recalibrate(model, batches(), reference=reference(30))
    assert done.accuracy.decision == "cannot tell"
    assert not done.released
    assert "rows would" in done.accuracy.says


def test_without_a_gate_it_says_so():
    done = recalibration.recalibrate(trained(), batches())
    assert any("without a gate" in says for says in done.says)


def test_too_few_rows_change_nothing():
    model = trained()
    whole = fingerprint(state(model))
    with pytest.raises(NetdynoError, match="from 100 rows"):
        recalibration.recalibrate(model, batches(120))
    assert fingerprint(state(model)) == whole


def test_rows_that_break_the_model_change_nothing():
    model = trained()
    whole = fingerprint(state(model))
    with pytest.raises(RuntimeError):
        recalibration.recalibrate(model, [*batches(), (torch.zeros(50, 5, 8, 8),)])
    assert fingerprint(state(model)) == whole
    assert not any(module.training for module in model.modules())


def test_a_smaller_last_batch_does_not_count_as_much_as_the_others():
    inputs, _ = pictures(1001, seed=4)
    inputs[1000] = 1e6
    model = trained()
    done = recalibration.recalibrate(model, [(inputs[:1000],), (inputs[1000:],)])
    assert done.rows == 1000
    assert float(model.norm.running_mean.abs().max()) < 100


def test_a_model_without_running_statistics_is_told():
    with pytest.raises(NetdynoError, match="no statistics"):
        recalibration.recalibrate(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), [])


def test_versions_are_written_and_read_and_a_changed_file_is_refused(tmp_path):
    model = trained()
    done = recalibration.recalibrate(model, batches(**OTHER), version=7, source="camera 2")
    file = tmp_path / "statistics.pt"
    done.after.save(file)
    held = recalibration.load(file)
    assert (held.version, held.source, held.key) == (7, "camera 2", done.after.key)
    other = trained()
    held.put(other)
    assert recalibration.taken(other).key == recalibration.taken(model).key
    content = torch.load(file, weights_only=True)
    content["tensors"]["norm.running_mean"][0] += 1
    torch.save(content, file)
    with pytest.raises(NetdynoError, match="was changed"):
        recalibration.load(file)
    file.write_bytes(b"nonsense")
    with pytest.raises(NetdynoError, match="cannot read"):
        recalibration.load(file)


def test_statistics_of_another_model_are_refused():
    with pytest.raises(NetdynoError, match="other names or sizes"):
        recalibration.taken(nn.Sequential(nn.BatchNorm1d(3))).put(trained())


def test_a_loop_in_eval_mode_is_told_that_it_changes_nothing():
    model = trained()
    with recalibration.noticed(model) as loop, torch.no_grad():
        for (inputs,) in batches(**OTHER):
            model(inputs)
    assert not loop.changed
    assert "every batch norm was in eval mode" in loop.says[0]


def test_a_loop_in_train_mode_is_told_that_dropout_was_on():
    model = trained().train()
    with recalibration.noticed(model) as loop, torch.no_grad():
        model(batches()[0][0])
    assert loop.changed == ("norm", "norm2")
    assert any("dropout was on" in says for says in loop.says)
