"""Bad cases are found, learned by the last layers alone, and released only where nothing is forgotten (ledger A-206)."""

import pytest
import torch

from aftercare.specimens import CLASSES, pictures, reference, trained
from netdyno.aftercare import bad_cases
from netdyno.aftercare._reference import Reference, fingerprint, state
from netdyno.errors import NetdynoError


def new_kind(count, *, seed):
    """Rows of a kind that training had none of: class 0 upside down, with a mark."""
    inputs, _ = pictures(3 * count, seed=seed)
    inputs = inputs[::3].flip(2).clone()
    inputs[:, 1, :3, :3] += 6
    return Reference(inputs=(inputs,), targets=torch.zeros(count, dtype=torch.long))


@pytest.fixture(scope="module")
def sets():
    model = trained()
    bad = bad_cases.mine(model, new_kind(200, seed=20)).reference
    return {"bad": bad, "replay": reference(400, seed=21), "regression": reference(3000, seed=22)}


def test_the_wrong_rows_are_mined_and_only_those():
    model, looked = trained(), reference(300, seed=30)
    looked = Reference(
        inputs=looked.inputs, targets=torch.cat(((looked.targets[:20] + 1) % CLASSES, looked.targets[20:]))
    )
    found = bad_cases.mine(model, looked)
    scores = looked.scores(model)
    assert all(scores[at] == 0 for at in found.at)
    assert len(found.at) + found.copies == scores.count(0.0)
    assert len(set(range(20)) & set(found.at)) >= 18 - found.copies
    assert torch.equal(found.reference.inputs[0], looked.inputs[0][list(found.at)])


def test_copies_of_one_case_are_one_case():
    one = new_kind(40, seed=20)
    frozen_camera = Reference(
        inputs=(torch.cat((one.inputs[0], one.inputs[0][:1].repeat(50, 1, 1, 1))),),
        targets=torch.zeros(90, dtype=torch.long),
    )
    found = bad_cases.mine(trained(), frozen_camera)
    assert found.copies >= 49
    assert "copies of others" in found.says


def test_what_is_learned_is_released_when_nothing_is_forgotten(sets):
    model = trained()
    done = bad_cases.fine_tune(model, **sets, max_drop=0.02)
    assert done.released, done.says
    fresh = new_kind(200, seed=40)
    assert sum(fresh.scores(done.candidate)) > sum(fresh.scores(model)) + 60
    assert done.regression.decision == "holds"
    assert done.losses[-1] < done.losses[0]


def test_frozen_layers_are_bit_identical_and_the_model_before_untouched(sets):
    model = trained()
    before = fingerprint(state(model))
    done = bad_cases.fine_tune(model, **sets, updates=20)
    assert done.tuned == ("hidden", "head")
    assert fingerprint(state(model)) == before
    old, new = dict(state(model)), dict(state(done.candidate))
    for name, tensor in old.items():
        same = torch.equal(tensor, new[name])
        assert same is not name.startswith(("hidden", "head")), name
    assert [p.requires_grad for p in done.candidate.parameters()] == [p.requires_grad for p in model.parameters()]


def test_a_candidate_that_forgets_is_not_released(sets):
    done = bad_cases.fine_tune(trained(), **sets, replayed=0.01, learning_rate=0.05, updates=300)
    assert done.regression.decision == "broken"
    assert not done.released
    assert "forgets what was right" in done.says[-1]


def test_replay_keeps_more_than_no_replay(sets):
    settings = {"learning_rate": 0.01, "updates": 200}
    replayed = bad_cases.fine_tune(trained(), **sets, **settings)
    alone = bad_cases.fine_tune(trained(), **sets, **settings, replayed=0.01)
    assert replayed.regression.treatment > alone.regression.treatment


def test_a_regression_set_that_is_too_small_to_tell_releases_nothing(sets):
    done = bad_cases.fine_tune(
        trained(), **{**sets, "regression": reference(40, seed=50)}, updates=20, learning_rate=1e-6
    )
    assert done.regression.decision == "cannot tell"
    assert not done.released


def test_it_is_the_same_twice_and_draws_nothing_from_the_global_state(sets):
    models = trained(), trained()
    random = torch.get_rng_state()
    once, twice = (bad_cases.fine_tune(model, **sets, updates=10) for model in models)
    assert fingerprint(state(once.candidate)) == fingerprint(state(twice.candidate))
    assert torch.equal(torch.get_rng_state(), random)


def test_a_judge_that_was_trained_on_is_refused(sets):
    with pytest.raises(NetdynoError, match="no judge"):
        bad_cases.fine_tune(trained(), **{**sets, "regression": sets["replay"]})


@pytest.mark.parametrize("layers", [0, 3])
def test_all_or_none_of_the_layers_are_refused(layers):
    with pytest.raises(NetdynoError, match="cannot tune the last"):
        bad_cases.last_layers(trained(), layers)


def test_too_few_cases_are_refused(sets):
    with pytest.raises(NetdynoError, match="2 bad cases"):
        bad_cases.fine_tune(trained(), **{**sets, "bad": bad_cases.part(sets["bad"], [0, 1])})
