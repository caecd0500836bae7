import math

import pytest
import torch
import torch.nn.functional as F

from monitor.gauges.rides import aboard, data, network, one
from netdyno.monitor.gauges import _base, checklist

BOTH = tuple(
    pair
    for pair in _base.gauges()
    if pair[0] in ("checklist", "gradient-norms", "output", "dead-units", "learning-rate")
)


def epochs(model=None, *, count=6, each=None, rate=0.05, pairs=BOTH):
    """Trainings with a loader of eight batches; `each(epoch)` is called between backward and step."""
    model = model or network()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data(length=128)), batch_size=16)
    with aboard(pairs) as told:
        for epoch in range(count):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                if each is not None:
                    each(epoch)
                optimizer.step()
    return [{item["item"]: item["state"] for item in one["items"]} for one in told.of("checklist")], told


def failed(lists):
    return {name for one in lists for name, state in one.items() if state == "fail"}


def test_a_healthy_run_fails_no_item_and_passes_most():
    lists, told = epochs()
    assert len(lists) == 5  # the last epoch is over when the next one begins
    assert failed(lists) == set()
    assert [name for name, state in lists[-1].items() if state == "unknown"] == ["warm-up-smooth"]
    assert [one["epoch"] for one in told.of("checklist")] == [1, 2, 3, 4, 5]
    assert told.points["checklist_failed"] == [0] * 5


@pytest.mark.parametrize(
    ("factor", "item"),
    [(1e4, "gradients-not-exploded"), (1e-6, "gradients-not-vanished"), (math.nan, "gradients-not-exploded")],
)
def test_gradients_out_of_their_own_range_fail_their_item(factor, item):
    model = network()

    def spoil(epoch):
        if epoch == 3:
            for p in model.parameters():
                p.grad.mul_(factor)

    lists, _ = epochs(model, each=spoil, rate=1e-6, count=5)
    assert item in {name for name, state in lists[3].items() if state == "fail"}
    assert failed(lists[:3]) == set()


def test_a_constant_output_fails_its_item():
    model = network()
    with torch.no_grad():
        model[0].bias.fill_(-50.0)
    lists, _ = epochs(model, count=3)
    assert lists[0]["output-not-constant"] == "fail"


def test_units_that_are_all_dead_fail_theirs():
    model = network()
    with torch.no_grad():
        model[0].bias.fill_(-50.0)
    lists, _ = epochs(model, count=3)
    assert lists[-1]["units-learn"] == "fail"


def test_gradients_that_shrink_because_the_loss_does_have_not_vanished():
    gauge = checklist.Checklist.__new__(checklist.Checklist)
    gauge.history = {"norms": [1.0], "losses": [1.0]}
    assert gauge._vanishing([1e-5], [1e-3])["state"] == "pass"
    assert gauge._vanishing([1e-5], [0.9])["state"] == "fail"


def test_without_other_gauges_what_they_tell_is_unknown():
    lists, _ = epochs(pairs=one("checklist"))
    assert lists[-1]["loss-finite"] == "pass"
    assert lists[-1]["gradients-not-exploded"] == "unknown"
    assert lists[-1]["output-not-constant"] == "unknown"


def test_a_loss_that_jumps_in_the_warm_up_is_not_smooth():
    rates = [at / 50 for at in range(50)]
    falling = [2.0 - at / 50 + 0.05 * (-1) ** at for at in range(50)]
    jumping = [*falling[:30], *(loss + 3 for loss in falling[30:])]
    assert checklist.smooth(falling, rates)["state"] == "pass"
    assert checklist.smooth(jumping, rates)["state"] == "fail"
    assert checklist.smooth(jumping, rates[::-1])["state"] == "unknown"


def test_a_loader_that_is_made_to_begin_anew_for_each_batch_makes_no_epochs():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=16)
    with aboard(BOTH) as told:
        for _ in range(20):
            x, y = next(iter(loader))
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert not told.of("checklist")
