"""Each domain has its own statistics, each row is answered with its own, and a wrong choice is seen (ledger A-205)."""

import pytest
import torch

from aftercare.specimens import batches, pictures, reference, trained
from netdyno.aftercare import switchable_batchnorm as switching
from netdyno.aftercare._reference import fingerprint, state
from netdyno.errors import NetdynoError

NOON, NIGHT = {"shift": 4.0, "scale": 0.3}, {"shift": -4.0, "scale": 0.3}


@pytest.fixture(scope="module")
def two():
    switched = switching.switchable(trained(), ("noon", "night"))
    switching.fill(switched, "noon", batches(**NOON))
    switching.fill(switched, "night", batches(**NIGHT))
    return switched


@pytest.fixture(scope="module")
def sets():
    return {"noon": reference(**NOON), "night": reference(**NIGHT)}


@pytest.fixture(scope="module")
def selector():
    return switching.StatisticsSelector([batches(size=300, **NOON)[0], batches(size=300, **NIGHT)[0]])


def test_matched_sets_beat_mismatched_ones_by_a_margin(two, sets):
    found = switching.judged(two, sets, margin=0.05)
    assert found.matched.decision == "holds"
    assert found.table["night"]["night"] > found.table["night"]["noon"] + 0.1
    assert found.table["noon"]["noon"] > found.table["noon"]["night"] + 0.1
    assert "matched sets win" in found.says[0]


def test_sets_that_are_alike_do_not_win(sets):
    alike = switching.switchable(trained(), ("noon", "night"))
    found = switching.judged(alike, sets, margin=0.01)
    assert found.matched.decision != "holds"
    assert "matched sets win" not in found.says[0]


def test_confusion_of_the_selector_is_counted_and_its_cost_judged(two, sets, selector):
    good = switching.judged(two, sets, selector=selector)
    assert good.confusion["night"]["night"] > 0.95 * len(sets["night"].targets)
    assert good.selected.decision == "holds"
    bad = switching.judged(two, sets, selector=lambda rows: 1 - selector(rows))
    assert bad.confusion["night"]["noon"] > 0.95 * len(sets["night"].targets)
    assert bad.selected.decision == "broken"
    assert any("the selector takes" in says for says in bad.says)


def test_rows_of_both_domains_in_one_batch_are_each_answered_with_their_own(two):
    noon, night = pictures(4, seed=9, **NOON)[0], pictures(4, seed=9, **NIGHT)[0]
    with torch.no_grad():
        mixed = two((torch.cat((noon, night)),), torch.tensor([0] * 4 + [1] * 4))
        apart = torch.cat((two((noon,), "noon"), two((night,), "night")))
    assert torch.allclose(mixed, apart, atol=1e-5)
    assert not torch.allclose(mixed[4:], two((night,), "noon"), atol=0.1)


def test_the_first_set_answers_as_the_model_it_was_made_of():
    model = trained()
    rows = pictures(10, seed=9)[0]
    with torch.no_grad():
        assert torch.allclose(switching.switchable(model, ("a", "b"))((rows,), "b"), model(rows), atol=1e-5)


def test_undo_is_the_model_of_before_to_the_byte():
    model = trained()
    switched = switching.switchable(model, ("noon", "night"))
    done = switching.fill(switched, "noon", batches(**NOON))
    assert fingerprint(state(switched.plain("night"))) == fingerprint(state(model))
    ordinary = switched.plain("noon")
    assert fingerprint(state(ordinary)) != fingerprint(state(model))
    done.undo(ordinary)
    assert fingerprint(state(ordinary)) == fingerprint(state(model))


def test_filling_one_set_leaves_the_other_and_the_model_alone():
    model = trained()
    switched = switching.switchable(model, ("noon", "night"))
    before = fingerprint(state(switched.plain("noon")))
    switching.fill(switched, "night", batches(**NIGHT))
    assert fingerprint(state(switched.plain("noon"))) == before
    assert fingerprint(state(model)) == fingerprint(state(trained()))


@pytest.mark.parametrize(("shared", "sets"), [(True, 1), (False, 2)])
def test_weights_are_shared_or_one_for_each_domain(shared, sets):
    switched = switching.switchable(trained(), ("noon", "night"), shared_affine=shared)
    norms = [module for module in switched.model.modules() if isinstance(module, switching.SwitchableBatchNorm)]
    assert len(norms) == 2
    assert {len(norm.weights) for norm in norms} == {sets}
    with torch.no_grad():
        norms[0].weights[-1] *= 2
        rows = pictures(5, seed=9)[0]
        changed = not torch.allclose(switched((rows,), "noon"), trained()(rows), atol=1e-4)
        different = not torch.allclose(switched((rows,), "noon"), switched((rows,), "night"))
    # The last row of weights is everybody's where they are shared, and the second domain's where they are not.
    assert changed is shared
    assert different is not shared


def test_an_unknown_domain_is_refused(two):
    with pytest.raises(NetdynoError, match="no domain `dusk`"):
        two.plain("dusk")


def test_a_model_without_batch_norm_is_refused():
    with pytest.raises(NetdynoError, match="no statistics"):
        switching.switchable(torch.nn.Linear(2, 2), ("a", "b"))
