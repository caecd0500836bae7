import pytest
import torch
from torch import nn

from knobs.specimens import images, numbered, pictured, setup_for, small_net, steps
from netdyno.knobs._layers import fan_in, fan_out
from netdyno.knobs.activation import Activation
from netdyno.knobs.batchnorm_momentum import BatchnormMomentum
from netdyno.knobs.dropout import Dropout
from netdyno.knobs.initialisation import Initialisation, drawn
from netdyno.knobs.normalisation import Normalisation, advice, strays, values_per_channel
from netdyno.knobs.residual import Residual, wrapped


def built(setup, seed=0):
    torch.manual_seed(seed)
    return setup.model()


def kinds(model):
    return [type(module).__name__ for module in model.modules() if not any(module.children())]


@pytest.mark.parametrize(
    ("layer", "fan"),
    [
        (nn.Linear(30, 7), 30),
        (nn.Conv2d(16, 64, 3), 144),
        (nn.Conv2d(16, 64, 3, stride=2), 144),
        (nn.Conv2d(16, 64, 3, groups=4), 36),
        (nn.Conv1d(8, 4, 5), 40),
        # torch.nn.init reads 576 off the output channels of both.
        (nn.ConvTranspose2d(16, 64, 3), 144),
        (nn.ConvTranspose2d(64, 64, 3, stride=2), 144),
    ],
)
def test_the_fan_of_a_layer_is_what_one_output_adds_up(layer, fan):
    assert fan_in(layer) == fan
    if isinstance(layer, nn.ConvTranspose2d):
        assert nn.init._calculate_correct_fan(layer.weight, "fan_in") == 576


def test_fans_mirror_each_other():
    assert fan_out(nn.Conv2d(16, 64, 3, stride=2)) == fan_in(nn.ConvTranspose2d(64, 16, 3, stride=2))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(400, 400),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ConvTranspose2d(64, 64, 3, stride=2),
        nn.ConvTranspose2d(64, 16, 3),
    ],
    ids=["linear", "convolution", "strided transposed", "transposed"],
)
def test_he_weights_give_a_deviation_of_root_two_before_and_a_square_mean_of_one_after_the_relu(layer):
    torch.manual_seed(0)
    drawn(nn.Sequential(layer, nn.ReLU(), nn.Linear(1, 1)), "he")
    given = torch.randn(16, 400) if isinstance(layer, nn.Linear) else torch.randn(4, layer.in_channels, 24, 24)
    with torch.no_grad():
        before = layer(given)
        if before.dim() == 4:
            before = before[..., 4:-4, 4:-4]  # at the border fewer inputs meet
    assert float(before.std()) == pytest.approx(1.414, rel=0.06)
    assert float(before.relu().square().mean().sqrt()) == pytest.approx(1.0, rel=0.06)


def test_a_fresh_model_of_pytorch_starts_at_less_than_half_of_that():
    torch.manual_seed(0)
    assert nn.Linear(1000, 1000)(torch.randn(64, 1000)).std().item() == pytest.approx(0.577, rel=0.05)


def test_the_last_layer_gets_no_gain():
    torch.manual_seed(0)
    model = drawn(nn.Sequential(nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 500)), "he")
    assert float(model[2].weight.detach().std() / model[0].weight.detach().std()) == pytest.approx(1 / 1.414, rel=0.02)


@pytest.mark.parametrize("scheme", ["he", "xavier", "orthogonal"])
def test_weights_are_drawn_anew_under_the_seed_of_the_run(scheme):
    setup = setup_for(pictured())
    turned = Initialisation(scheme).turned(setup)
    first, again, plain = built(turned, 1), built(turned, 1), built(setup, 1)
    assert torch.equal(first[0].weight, again[0].weight)
    assert not torch.equal(first[0].weight, plain[0].weight)
    assert not first[0].bias.any()


def deep(form, blocks=20):
    """Twenty blocks behind a ReLU, in one of the three forms, and the mean of what comes out of them."""
    torch.manual_seed(0)
    layers = [
        part
        for _ in range(blocks)
        for part in (nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    ]
    model = wrapped(nn.Sequential(*layers), form).train()
    with torch.no_grad():
        return float(model(torch.randn(8, 16, 16, 16).relu()).mean())


def test_sums_behind_the_relu_grow_by_what_every_block_adds():
    # Each block adds the mean of half a normal, 0.4, twenty times; in the usual form the sum passes a ReLU and is balanced.
    assert deep("after-relu") == pytest.approx(8.3, abs=0.4)
    assert deep("v1") == pytest.approx(3.1, abs=0.4)
    assert abs(deep("pre-activation")) < deep("v1")


def test_all_three_forms_are_tried():
    assert {one.form for one in Residual().settings(setup_for(pictured()))} == {"v1", "pre-activation", "after-relu"}


@pytest.mark.parametrize("form", ["v1", "pre-activation", "after-relu"])
def test_a_block_that_keeps_its_shape_gets_a_shortcut(form):
    setup = Residual(form).turned(setup_for(pictured()))
    model = built(setup)
    assert [type(part).__name__ for part in model][3:6] == ["Added", "Identity", "Identity"]
    x = torch.randn(2, 8, 5, 5)
    model.eval()
    for parameter in model[3].layer.parameters():
        nn.init.zeros_(parameter)
    wanted = x.relu() if form == "v1" else x
    assert torch.allclose(model[3](x), wanted)
    assert steps(setup, updates=2)[0]


def test_blocks_that_change_the_shape_are_left_alone():
    def net():
        return nn.Sequential(nn.Conv2d(2, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(200, 3))

    assert "shape" in Residual().refuses(setup_for(pictured(model=net)))
    assert "equal width" in Residual().refuses(setup_for(numbered()))


def test_batch_norms_make_way_for_groups_that_divide_their_channels():
    setup = setup_for(pictured())
    assert "GroupNorm" in kinds(built(Normalisation("group").turned(setup)))
    assert "BatchNorm2d" not in kinds(built(Normalisation("group").turned(setup)))
    assert built(Normalisation("layer").turned(setup))[1].num_groups == 1
    assert "already" in Normalisation("batch").refuses(setup)
    assert steps(Normalisation("group").turned(setup), updates=2)[0]


def test_a_model_without_norms_gets_them_behind_all_layers_but_the_last():
    def bare():
        return nn.Sequential(nn.Flatten(), nn.Linear(288, 12), nn.ReLU(), nn.Linear(12, 3))

    setup = setup_for(pictured(model=bare))
    assert {one.kind for one in Normalisation().settings(setup)} == {"group", "layer", "batch"}
    assert kinds(built(Normalisation("batch").turned(setup))).count("BatchNorm1d") == 1
    assert steps(Normalisation("batch").turned(setup), updates=2)[0]


def test_other_norms_are_left_alone():
    def normed():
        return nn.Sequential(nn.Flatten(), nn.Linear(288, 12), nn.LayerNorm(12), nn.ReLU(), nn.Linear(12, 3))

    assert "not by the batch" in Normalisation("batch").refuses(setup_for(pictured(model=normed)))


def measured(values, updates=100, momentum=0.1):
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(64, momentum=momentum)
    norm.running_var.fill_(1.0)
    worst = torch.zeros(64)
    for _ in range(updates):
        norm(torch.randn(values, 64))
        worst = worst.maximum((norm.running_var - 1).abs())
    return worst.max().item()


def test_batch_and_pixels_decide_together_how_far_a_running_variance_strays():
    assert strays(8) == pytest.approx(0.43, abs=0.01)
    assert strays(8 * 14 * 14) == pytest.approx(0.028, abs=0.003)
    # The formula speaks of the worst of 64 channels within a hundred updates; PyTorch's own layer agrees.
    assert measured(8) == pytest.approx(strays(8), rel=0.35)
    assert measured(8 * 14 * 14) == pytest.approx(strays(8 * 14 * 14), rel=0.35)


def test_the_rule_looks_at_pixels_and_not_at_the_batch_alone():
    setup = setup_for(pictured(), batch_size=8)
    assert values_per_channel(setup) == 8 * 144
    assert "steady" in advice(setup)

    def table():
        return nn.Sequential(nn.Flatten(), nn.Linear(288, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 3))

    assert "try group norm" in advice(setup_for(pictured(model=table), batch_size=8))


def test_dropout_is_put_before_the_last_linear_layer():
    model = built(Dropout(0.3).turned(setup_for(pictured())))
    assert isinstance(model[8], nn.Sequential)
    assert [type(part).__name__ for part in model[8]] == ["Dropout", "Linear"]
    assert model[8][0].p == 0.3


def test_dropout_that_is_there_gets_another_share():
    def net():
        return nn.Sequential(nn.Flatten(), nn.Linear(288, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 3))

    setup = setup_for(pictured(model=net))
    assert kinds(built(Dropout(0.1).turned(setup))).count("Dropout") == 1
    assert built(Dropout(0.1).turned(setup))[3].p == 0.1
    assert 0.2 not in {one.share for one in Dropout().settings(setup)}
    assert 0.0 in {one.share for one in Dropout().settings(setup)}


def test_inputs_are_not_dropped():
    assert "behind another layer" in Dropout().refuses(setup_for(numbered()))


def test_activations_are_swapped():
    setup = setup_for(pictured())
    assert kinds(built(Activation("GELU").turned(setup))).count("GELU") == 2
    assert "already" in Activation("ReLU").refuses(setup)
    assert "none" in Activation().refuses(setup_for(numbered()))


def test_a_shared_activation_stays_shared():
    def net():
        bend = nn.ReLU()
        return nn.Sequential(nn.Flatten(), nn.Linear(288, 12), bend, nn.Linear(12, 12), bend, nn.Linear(12, 3))

    model = built(Activation("GELU").turned(setup_for(pictured(model=net))))
    assert model[2] is model[4]
    assert isinstance(model[4], nn.GELU)


def test_a_slow_average_needs_updates_to_forget_its_start():
    assert "too few" in BatchnormMomentum(0.01).refuses(setup_for(pictured(), updates=100))
    setup = setup_for(pictured(), updates=400)
    assert BatchnormMomentum(0.01).refuses(setup) is None
    assert built(BatchnormMomentum(0.01).turned(setup))[1].momentum == 0.01


def test_looking_at_a_model_draws_no_random_number():
    setup = setup_for(pictured())
    for knob in (Residual(), Normalisation(), Dropout(), Initialisation(), Activation()):
        torch.manual_seed(5)
        knob.refuses(setup)
        knob.settings(setup)
        knob.turned(setup)
        found = torch.rand(1)
        torch.manual_seed(5)
        assert torch.equal(found, torch.rand(1))


def test_a_change_that_breaks_the_model_is_refused_in_words():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(288, 12), nn.Linear(12, 3)

        def forward(self, x):
            return self.body(x.flatten(1)) @ self.head.weight.T + 0 * self.head(torch.zeros(1, 12))

    assert "does not run" in Dropout().refuses(setup_for(pictured(model=Odd)))


def test_images_of_the_specimens_can_be_learned():
    losses, _ = steps(setup_for(pictured()), updates=24)
    assert losses[-1] < losses[0] / 2
    assert len(images()[0]) == 96
    assert small_net()(images()[0]).shape == (96, 3)
