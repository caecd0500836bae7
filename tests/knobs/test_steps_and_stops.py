import math

import pytest
import torch
from torch import nn

from knobs.specimens import images, pictured, setup_for, small_net
from netdyno.knobs._base import written
from netdyno.knobs.batch_size import BatchSize
from netdyno.knobs.clip import ByPercentile, Clip
from netdyno.knobs.early_stopping import EarlyStopping, Patience
from netdyno.learning.run import train


def setup(**changes):
    return setup_for(pictured(), **({"updates": 40} | changes))


def course(losses):
    return [(10 * (at + 1), loss, 0.5) for at, loss in enumerate(losses)]


def stops_at(losses, *, patience=10, min_delta=1e-4):
    over = Patience(patience, min_delta)
    return next((at for at in range(len(losses)) if over(course(losses[: at + 1]))), None)


def test_it_stops_exactly_patience_after_the_best():
    assert stops_at([1.0, 0.8, 0.6, *[0.7] * 30]) == 2 + 10


def test_noise_below_the_least_change_does_not_begin_the_wait_anew():
    assert stops_at([1.0, 0.5, *[0.5 - 5e-6 * at for at in range(1, 19)]]) == 1 + 10
    assert stops_at([1.0, 0.5, *[0.5 - 2e-4 * at for at in range(1, 19)]]) is None


def test_small_falls_that_add_up_are_progress():
    assert stops_at([1.0 - 6e-5 * at for at in range(30)], patience=3) is None


def test_a_run_stops_early_and_gives_back_the_lowest_loss():
    knob = EarlyStopping(2, 1e9)  # no fall is ever enough
    run = train(setup(), seed=1, recipe=(written(knob),), stage="reg", knob="early-stopping", evaluations=10)
    assert len(run.course) == 3
    assert run.loss == min(loss for _, loss, _ in run.course)


def with_gradient(length):
    model = nn.Linear(4, 1, bias=False)
    model.weight.grad = torch.full((1, 4), length / 2)
    return model


@pytest.mark.parametrize(("length", "after"), [(10.0, 1.0), (0.5, 0.5)])
def test_a_norm_bounds_what_is_longer_and_leaves_what_is_not(length, after):
    model = with_gradient(length)
    for call in Clip("norm", 1.0).turned(setup()).before_step:
        call(model, None)
    assert model.weight.grad.norm().item() == pytest.approx(after, rel=1e-4)


def test_a_percentile_cuts_about_its_complement():
    clip, optimizer = ByPercentile(90.0), torch.optim.SGD(small_net().parameters(), lr=0.1)
    chance = torch.Generator().manual_seed(0)
    cut = 0
    for length in torch.rand(300, generator=chance).add(0.5).tolist():
        model = with_gradient(length)
        clip(model, optimizer)
        cut += model.weight.grad.norm().item() < length * (1 - 1e-4)
    assert 0.05 < cut / 300 < 0.16


def test_runs_do_not_share_the_norms_they_have_seen():
    clip = ByPercentile(50.0)
    kept = [torch.optim.SGD(small_net().parameters(), lr=0.1) for _ in range(2)]
    for _ in range(30):
        clip(with_gradient(1.0), kept[0])
    model = with_gradient(100.0)
    clip(model, kept[1])
    assert model.weight.grad.norm().item() == pytest.approx(100.0)


def test_one_setting_of_clip_has_the_same_course_twice():
    runs = [
        train(setup(), seed=2, recipe=(written(Clip("percentile", 50.0)),), stage="optim", knob="clip") for _ in "ab"
    ]
    assert runs[0].course == runs[1].course


@pytest.mark.parametrize(
    ("knob", "rate", "updates"),
    [
        (BatchSize(64, "linear", "epochs"), 0.4, 10), (BatchSize(64, "sqrt", "epochs"), 0.2, 10),
        (BatchSize(64, "sqrt", "updates"), 0.2, 40), (BatchSize(8, "none", "epochs"), 0.1, 80),
    ],
    ids=str,
)  # fmt: skip
def test_a_batch_size_takes_rate_and_updates_along(knob, rate, updates):
    sized = knob.turned(setup())  # 16 samples at 0.1
    assert (sized.batch_size, sized.updates) == (knob.size, updates)
    assert sized.optimizer(small_net()).param_groups[0]["lr"] == pytest.approx(rate)


def test_sizes_offered_follow_the_rule_of_the_optimizer():
    assert {one.scaling for one in BatchSize().settings(setup())} == {"linear"}
    adam = setup(optimizer=lambda model: torch.optim.Adam(model.parameters()))
    assert {one.scaling for one in BatchSize().settings(adam)} == {"sqrt"}


def test_more_than_all_samples_are_no_batch():
    assert "96 training samples" in BatchSize(512).refuses(setup_for(pictured(train=images)))


def test_no_gradient_is_made_longer_by_what_is_not_finite():
    clip, optimizer = ByPercentile(50.0), torch.optim.SGD(small_net().parameters(), lr=0.1)
    clip(with_gradient(math.inf), optimizer)
    assert not clip.seen[optimizer]
