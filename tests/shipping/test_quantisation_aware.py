"""Training for int8 (ledger A-273): what is refused before, and what comes out: a release of a quarter of the size."""

import pytest
import torch
from torch import nn

from netdyno.errors import ArmError, StoreError
from netdyno.records.deployment import Running
from netdyno.runtimes.aot_inductor import AotInductor
from netdyno.runtimes.exported_program import ExportedProgram
from netdyno.shipping import quantisation_aware
from netdyno.shipping.quantisation_aware import Trained, reloaded, trained
from netdyno.targets import release as releases
from runtimes.specimens import (
    arrays_of,
    decibels,
    expected,
    exportable,
    exported,
    images,
    loaded,
    reference,
    release,
    signature_of,
)

pytest.importorskip("torchao", reason="quantisation-aware training needs torchao: pip install 'netdyno[ship]'")


def prepared(model, ignored=(), name="Pictures"):
    from netdyno.runtimes import _quantised

    return _quantised.prepared_for_training(model, exportable(name), ignored)


def accuracy(model):
    inputs, labels = images(100, seed=4)
    with torch.no_grad():
        return float((model(inputs).argmax(1) == labels).float().mean())


def test_a_module_in_eval_mode_is_refused():
    with pytest.raises(ArmError, match=r"in eval mode: call `model\.train\(\)`"):
        prepared(release("Pictures").module().eval())


@pytest.mark.slow
def test_every_layer_is_quantised_on_both_sides_and_batch_norms_are_fused():
    from netdyno.runtimes import _quantised

    model = release("Pictures").module().train()
    found = prepared(model)
    assert model.training
    assert not any(parameter.grad is not None for parameter in model.parameters())
    found.eval()
    with torch.no_grad():
        found(images(8)[0])
    int8 = _quantised.converted(found, "training")
    assert int8.says == "6 of 6 layers are in int8, set up by training"
    assert not [node for node in int8.model.graph.nodes if "batch_norm" in str(node.target)]


class Listening(nn.Module):
    """A 1-D convolution, for which the quantiser for x86 has no form."""

    def __init__(self):
        super().__init__()
        self.ear = nn.Conv1d(3, 8, 3)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.ear(x.flatten(2)).mean(2))


def test_a_layer_that_stays_bare_is_named_and_may_be_left_in_float():
    with pytest.raises(ArmError, match="no fake quantisation stands before `ear`"):
        prepared(Listening().train())
    assert prepared(Listening().train(), ignored=("ear",)).training


def test_a_release_without_train_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(ArmError, match="declares no `train`"):
        trained(reference("Pictures"), tmp_path, signature=signature_of(release("Pictures")), budget_s=1.0)
    assert not list(tmp_path.iterdir())


def test_a_train_that_trains_something_else_is_noticed():
    found = nn.Linear(2, 2)
    with pytest.raises(ArmError, match="has changed no weight"):
        quantisation_aware._training(lambda model: None, found)()
    quantisation_aware._training(lambda model: model.weight.data.add_(1), found)()


def test_a_folder_without_a_result_says_so(tmp_path):
    with pytest.raises(StoreError, match="cannot read what was trained"):
        reloaded(str(tmp_path / "release.py"))


def test_without_torchao_it_says_what_to_install(tmp_path, monkeypatch):
    from netdyno.runtimes import _base as base

    monkeypatch.setattr(base, "_absent", lambda name: True)
    with pytest.raises(ArmError, match="pip install"):
        trained(reference("Learned"), tmp_path, signature=signature_of(release("Pictures")), budget_s=1.0)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A release that was trained for int8 in a process of its own."""
    folder = tmp_path_factory.mktemp("int8")
    return trained(reference("Learned"), folder, signature=signature_of(release("Learned")), budget_s=500.0)


@pytest.mark.slow
def test_what_comes_out_is_a_quarter_of_the_size_and_as_right_as_before(result):
    assert isinstance(result, Trained)
    assert 0.2 < result.share < 0.3
    assert result.says == "6 of 6 layers are in int8, set up by training"
    found = releases.load(result.reference)
    assert accuracy(found.module()) >= accuracy(release("Learned").module()) - 0.02
    assert found.train is None
    assert len(found.validation_data()) == 100


@pytest.mark.slow
def test_it_has_no_training_mode(result):
    model = releases.load(result.reference).module().eval()
    assert not any(module.training for module in model.modules())
    with pytest.raises(RuntimeError, match="cannot be trained"):
        model.train()


@pytest.mark.slow
@pytest.mark.parametrize("runtime", [ExportedProgram(), AotInductor("int8")], ids=["exported-program", "aot-inductor"])
def test_runtimes_export_it_as_any_other_release(runtime, result, tmp_path):
    if runtime.unavailable():
        pytest.skip(runtime.unavailable())
    found = releases.load(result.reference)
    built = exported(runtime, result.reference, tmp_path)
    if runtime.precision == "int8":
        assert "it was trained for int8" in built.notes
    tensors = (images(6, seed=4)[0],)
    with loaded(runtime, result.reference, tmp_path, running=Running()) as process:
        assert decibels(process.run(arrays_of(tensors)), expected(found, tensors)) > 30


@pytest.mark.slow
def test_training_beyond_the_budget_is_ended(tmp_path):
    with pytest.raises(ArmError, match="the quantisation-aware training was ended after 1 s"):
        trained(reference("Learned"), tmp_path, signature=signature_of(release("Learned")), budget_s=1.0)
