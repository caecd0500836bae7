"""Distances tell a planted shift from familiar rows, on scales that are known; alarms are due and rare (ledger A-203)."""

import pytest
import torch
from sklearn.covariance import LedoitWolf
from sklearn.metrics import roc_auc_score

from aftercare.specimens import pictures, trained
from netdyno.aftercare import odd_inputs
from netdyno.aftercare._reference import fingerprint, state
from netdyno.errors import NetdynoError


@pytest.fixture(scope="module")
def fitted():
    inputs, labels = pictures(900, seed=1)
    return odd_inputs.fit(trained(), (inputs,), labels)


def scored(score, **domain):
    return score(trained(), (pictures(600, seed=5, **domain)[0],))


def noise(count):
    return (3 * torch.randn(count, 2, 8, 8, generator=torch.Generator().manual_seed(0)),)


def test_a_planted_shift_is_told_from_familiar_rows(fitted):
    found = odd_inputs.judge(scored(fitted), scored(fitted, shift=2.0, scale=2.0))
    assert found.auroc.low > 0.9
    assert found.fpr.middle < 0.5
    same = odd_inputs.judge(scored(fitted), fitted(trained(), (pictures(600, seed=6)[0],)))
    assert same.auroc.holds(0.5)
    assert same.fpr.holds(0.95)


def test_the_threshold_accepts_what_it_says(fitted):
    accepted = 1 - float(fitted.odd(scored(fitted)).double().mean())
    assert accepted == pytest.approx(0.95, abs=0.04)


def test_the_area_and_the_shrinkage_are_those_of_scikit_learn(fitted):
    familiar, odd = scored(fitted), scored(fitted, shift=1.0)
    labels = [0] * len(familiar) + [1] * len(odd)
    expected = roc_auc_score(labels, torch.cat((familiar, odd)).tolist())
    assert odd_inputs.judge(familiar, odd).auroc.middle == pytest.approx(expected)
    residuals = torch.randn(40, 12, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    covariance, used = odd_inputs._shrunk(residuals, 0, None)
    learned = LedoitWolf(assume_centered=True).fit(residuals.numpy())
    assert used == pytest.approx(learned.shrinkage_, rel=1e-6)
    assert torch.allclose(covariance, torch.tensor(learned.covariance_), atol=1e-6)


def test_distances_of_known_gaussians_are_known():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    chance = torch.Generator().manual_seed(0)
    rows = torch.randn(20_000, 2, generator=chance) * torch.tensor([1.0, 3.0])
    rows[::2, 0] += 10
    labels = (rows[:, 0] > 5).long()
    score = odd_inputs.fit(model, (rows,), labels, shrinkage=0.0)
    found = score(model, (torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 6.0], [10.0, 3.0]]),))
    assert found.tolist() == pytest.approx([0.0, 4.0, 4.0, 1.0], abs=0.15)


def test_fewer_rows_than_features_still_give_distances():
    inputs, labels = pictures(24, seed=1)
    score = odd_inputs.fit(trained(), (inputs,), labels)
    assert score.shrinkage > 0.1
    assert scored(score).isfinite().all()


def test_looking_at_features_leaves_the_model_as_it_was(fitted):
    model = trained()
    model.drop.train()
    before = fingerprint(state(model))
    fitted(model, noise(10))
    assert fingerprint(state(model)) == before
    assert model.drop.training
    assert not model.head._forward_pre_hooks


def test_too_few_rows_and_models_without_features_are_refused():
    inputs, labels = pictures(3, seed=1)
    with pytest.raises(NetdynoError, match="cannot fit"):
        odd_inputs.fit(trained(), (inputs,), labels)
    with pytest.raises(NetdynoError, match="last features"):
        odd_inputs.last_layer(torch.nn.ReLU())


class TestTrigger:
    def trigger(self, **settings):
        self.now = 0.0
        return odd_inputs.Trigger(window=100, clock=lambda: self.now, **settings)

    def test_familiar_rows_raise_nothing(self):
        chance = torch.Generator().manual_seed(0)
        trigger = self.trigger()
        assert not any(trigger.saw(torch.rand(100, generator=chance) < 0.05) for _ in range(500))

    def test_odd_rows_raise_an_alarm_with_its_chance(self):
        alarm = self.trigger().saw([True] * 30 + [False] * 70)
        assert alarm.odd == 30
        assert alarm.expected == pytest.approx(5)
        assert alarm.chance < 1e-4
        assert "30 of 100 rows are odd" in alarm.says

    def test_alarms_are_rate_limited_and_those_held_back_are_counted(self):
        trigger = self.trigger(least_gap_s=60)
        assert trigger.saw([True] * 100) is not None
        self.now = 30.0
        assert trigger.saw([True] * 300) is None
        self.now = 61.0
        assert trigger.saw([True] * 100).held_back == 3
