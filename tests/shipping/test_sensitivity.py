"""Which layer quantisation ruins is named, and calibration that lacks a tail of production is refused."""

import pytest
import torch
from torch import nn

from netdyno.records.deployment import LayerNoise
from netdyno.shipping import sensitivity
from netdyno.shipping.sensitivity import by_chance, coverage, covered, keep_in_float, layer_noise, simulated
from netdyno.targets.release import Release, stratified


def rows_of(tensor):
    return [(row[None],) for row in tensor]


class Net(nn.Module):
    """Four layers; `spread` multiplies one channel of what goes into the third and divides its weights, so answers stay as they were."""

    def __init__(self, spread=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.third = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 4)
        with torch.no_grad():
            self.second.weight[0] *= spread
            self.second.bias[0] *= spread
            self.third.weight[:, 0] /= spread

    def forward(self, x):
        return self.head(self.third(self.second(self.first(x).relu()).relu()).relu().mean((2, 3)))


def pictures(rows=24, seed=1):
    return torch.randn(rows, 3, 10, 10, generator=torch.Generator().manual_seed(seed))


def test_a_layer_with_a_huge_outlier_channel_is_named_and_kept_in_float():
    noise = layer_noise(Net(spread=3000.0).eval(), rows_of(pictures()))
    assert noise[0].layer == "third"
    assert keep_in_float(noise) == ("third",)
    assert "`third`" in sensitivity.reason(noise)


def test_the_outlier_changes_no_answer_in_float():
    torch.testing.assert_close(Net(spread=4096.0)(pictures()), Net()(pictures()), rtol=1e-4, atol=1e-5)


def test_in_a_healthy_model_no_layer_stands_out():
    noise = layer_noise(Net().eval(), rows_of(pictures()))
    assert {one.layer for one in noise} == {"first", "second", "third", "head"}
    assert [one.sqnr_db for one in noise] == sorted(one.sqnr_db for one in noise)
    assert all(25 < one.sqnr_db < 80 for one in noise)
    assert keep_in_float(noise) == ()
    assert "no layer stands out" in sensitivity.reason(noise)


def noise_of(*decibels):
    return [LayerNoise(layer=f"layer{at}", sqnr_db=value) for at, value in enumerate(decibels)]


@pytest.mark.parametrize(
    ("decibels", "kept"),
    [
        ((5.0, 30.0, 31.0, 32.0), ("layer0",)),
        ((45.0, 60.0, 61.0, 62.0), ()),  # far from the others, and harmless
        ((22.0, 30.0, 31.0), ()),  # worse, but not ten times
        ((1.0, 2.0, 3.0, 4.0, 30.0, 31.0, 32.0, 33.0, 34.0), ("layer0", "layer1", "layer2")),
        ((3.0,), ()),  # alone, it stands out from nothing
        ((), ()),
    ],
)
def test_only_what_stands_out_and_harms_is_kept_and_never_many(decibels, kept):
    assert keep_in_float(noise_of(*decibels)) == kept


def test_noise_is_looked_for_without_leaving_a_trace():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)).train()
    model[1].eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fastpath = torch.backends.mha.get_fastpath_enabled()
    layer_noise(model, rows_of(torch.randn(6, 4)))
    assert [module.training for module in model.modules()] == [True, True, False, True]
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert torch.backends.mha.get_fastpath_enabled() == fastpath


def test_layers_within_an_encoder_are_seen_in_spite_of_its_short_cut():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.Sequential(nn.Linear(4, 16), nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)).eval()
    noise = layer_noise(model, rows_of(torch.randn(6, 5, 4)))
    attention = "1.layers.0.self_attn"
    assert {one.layer for one in noise} == {"0", attention, "1.layers.0.linear1", "1.layers.0.linear2"}
    assert all(one.sqnr_db < sensitivity.MOST_DB for one in noise)


def test_weights_are_rounded_by_output_channel_and_inputs_by_their_range():
    weight = torch.tensor([[1.0, 0.4], [100.0, 3.0]])
    error = (sensitivity.by_channel(weight) - weight).abs().amax(1)
    assert error[0] <= 0.5 / 127
    assert 0.5 / 127 < error[1] <= 50.0 / 127
    cut = sensitivity.by_range(torch.tensor([-9.0, 0.0, 0.5, 9.0]), sensitivity.Range(-1.0, 2.0))
    torch.testing.assert_close(cut, torch.tensor([-1.0, 0.0, 0.5, 2.0]), atol=3.0 / 255, rtol=0)
    assert cut[1] == 0


def test_a_transposed_convolution_is_rounded_by_its_output_channels():
    model = nn.ConvTranspose2d(2, 3, 3).eval()
    with torch.no_grad():
        model.weight[:, 0] *= 1e4
    noise = layer_noise(nn.Sequential(model), rows_of(torch.randn(4, 2, 6, 6)))
    assert noise[0].sqnr_db > 30


# Coverage. One row in twenty of production is bright; calibration by chance, or by plan, has none of these.


def lamps(rows, *, bright, seed):
    """Pictures of three channels in four classes; class 3 is twenty times brighter, and told by its second channel only."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 3
    labels[: round(rows * bright)] = 3
    found = torch.randn(rows, 3, 4, 4, generator=draw)
    found[labels == 3, 1] = 20.0 + found[labels == 3, 1]
    for label in range(3):
        found[labels == label, label] += 2.0
    order = torch.randperm(rows, generator=draw)
    return found[order], labels[order]


def test_calibration_without_the_tail_of_production_is_an_error():
    checks = coverage(
        rows_of(lamps(200, bright=0.0, seed=1)[0]), rows_of(lamps(200, bright=0.05, seed=2)[0]), names=("x",)
    )
    assert [check.ok for check in checks] == [False]
    assert "`x`, channel 1: 5.0% of 200 rows" in checks[0].says
    assert checks[0].fix
    assert checks[0].because["sent largest"] > 20 > checks[0].because["calibrated largest"]


def test_calibration_with_the_tail_is_not():
    checks = coverage(rows_of(lamps(200, bright=0.05, seed=1)[0]), rows_of(lamps(200, bright=0.05, seed=2)[0]))
    assert [check.ok for check in checks] == [True]
    assert checks[0].where == "input0"


def test_sets_drawn_alike_are_seldom_called_too_narrow():
    wrong = 0
    for seed in range(100):
        shown = torch.randn(64, 3, 4, 4, generator=torch.Generator().manual_seed(seed)).exp()
        sent = torch.randn(64, 3, 4, 4, generator=torch.Generator().manual_seed(1000 + seed)).exp()
        wrong += coverage(rows_of(shown), rows_of(sent))[0].ok is False
    assert wrong <= 3  # one in a hundred is allowed; more than three are so by chance in two of a hundred tests


def test_what_goes_into_the_first_layers_is_compared_too():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1), nn.Flatten(), nn.Linear(64, 2)).eval()
    shown, sent = lamps(200, bright=0.0, seed=1)[0], lamps(200, bright=0.1, seed=2)[0]
    checks = coverage(rows_of(shown), rows_of(sent), model=model)
    assert [check.where for check in checks] == ["input0", "2", "4"]
    assert [check.ok for check in checks] == [False, False, False]


def test_numbers_of_words_that_were_never_there_are_a_warning():
    (check,) = coverage(rows_of(torch.arange(40).reshape(8, 5)), rows_of(torch.arange(20, 60).reshape(8, 5)))
    assert check.ok is False
    assert check.warning
    assert check.because["unseen"] == 0.5
    assert coverage(rows_of(torch.arange(40).reshape(8, 5)), rows_of(torch.arange(20, 40).reshape(4, 5)))[0].ok


def test_the_chance_is_that_of_drawing_the_largest_all_from_one_set():
    assert by_chance(0, 10, 10) == 1.0
    assert by_chance(1, 10, 10) == pytest.approx(0.5)
    assert by_chance(2, 2, 2) == pytest.approx(1 / 6)
    assert by_chance(3, 5, 2) == 0.0


def brightness_told():
    """A network that tells class 3 by how much brighter its second channel is than fifteen, and the others by theirs."""
    model = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(3, 4))
    with torch.no_grad():
        model[2].weight.copy_(torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1.5, 0]]))
        model[2].bias.copy_(torch.tensor([0.0, 0, 0, -5.0]))
    return model.eval()


def accuracy(release, rows):
    """Of class 3 with all layers in int8, calibrated on these rows of the release's calibration data."""
    model, (inputs, labels) = release.module(), lamps(200, bright=0.1, seed=5)
    data = release.calibration_data()
    answers = simulated(model, [(data[at][0][None],) for at in rows], rows_of(inputs))
    return float((answers.argmax(1) == labels)[labels == 3].double().mean())


def test_a_tail_that_calibration_lacks_costs_accuracy_and_a_stratified_set_restores_it():
    release = Release(
        model=brightness_told,
        example=lambda: lamps(4, bright=0.0, seed=3)[0],
        calibration=lambda: lamps(600, bright=0.02, seed=4),
        production=lambda: lamps(400, bright=0.05, seed=6)[0],
        names=("x",),
    )
    data = release.calibration_data()
    lacking = [at for at in range(600) if data[at][1] != 3][:60]
    assert accuracy(release, lacking) < 0.5
    assert accuracy(release, stratified(release, data, 60)) > 0.95
    shown = [(data[at][0][None],) for at in lacking]
    assert coverage(shown, rows_of(release.production()))[0].ok is False
    assert all(check.ok for check in covered(release, rows=60))


def test_nothing_is_said_of_coverage_where_production_is_not_declared():
    release = Release(model=brightness_told, example=lambda: lamps(4, bright=0, seed=3)[0])
    (check,) = covered(release)
    assert check.ok is None
    assert "calibration" in check.says
    (check,) = covered(
        Release(model=brightness_told, example=release.example, calibration=lambda: lamps(9, bright=0, seed=1))
    )
    assert check.ok is None
    assert "production" in check.says
