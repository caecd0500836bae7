import math

import pytest
import torch

from knobs.specimens import pictured, setup_for, small_net
from netdyno.errors import NetdynoError
from netdyno.knobs._base import turned, written
from netdyno.knobs._schedules import Cosine, Linear, OneCycle, Plateau, Warmed, cosine, warmup_updates
from netdyno.knobs.schedule import Schedule
from netdyno.knobs.warmup import Warmup


def rates(course, updates, *, rate=1e-3, optimizer=torch.optim.AdamW):
    """The rate and the momentum of each update."""
    built = optimizer([torch.nn.Parameter(torch.zeros(1))], lr=rate)
    scheduler = course(built, updates)
    found = []
    for _ in range(updates):
        found.append((built.param_groups[0]["lr"], built.param_groups[0].get("betas", (None,))[0]))
        built.step()
        scheduler.step()
    return [one for one, _ in found], [two for _, two in found]


def setup(**changes):
    return setup_for(pictured(), updates=100, **changes)


def test_the_cosine_is_exact_at_its_start_its_middle_and_its_end():
    for at, exact in ((0, 0.1), (50, 0.055), (100, 0.01)):
        assert math.isclose(cosine(at, 100, high=0.1, low=0.01), exact, rel_tol=0, abs_tol=1e-12)


def test_the_cosine_scheduler_follows_its_formula_in_every_update():
    found, _ = rates(Cosine(0.1), 40, rate=0.1)
    exact = [0.01 + 0.5 * 0.09 * (1 + math.cos(math.pi * at / 40)) for at in range(40)]
    assert found == pytest.approx(exact, abs=1e-12)


def test_one_cycle_starts_peaks_and_ends_where_it_is_told():
    found, momenta = rates(OneCycle(), 1000)
    assert found[0] == pytest.approx(4e-5, rel=1e-9)
    assert max(found) == pytest.approx(1e-3, rel=1e-9)
    assert found.index(max(found)) == 99  # the last of the first tenth
    assert found[-1] == pytest.approx(4e-9, rel=1e-6)
    assert (max(momenta), min(momenta)) == pytest.approx((0.95, 0.85))


def test_one_cycle_leaves_the_momentum_where_it_is_told_to():
    _, momenta = rates(OneCycle(cycle_momentum=False), 50)
    assert set(momenta) == {0.9}


def test_one_cycle_gives_no_momentum_to_an_optimizer_without():
    built = torch.optim.SGD(small_net().parameters(), lr=0.1)
    OneCycle()(built, 50)
    assert built.param_groups[0]["momentum"] == 0


def test_a_plateau_is_cut_after_the_fourth_bad_evaluation():
    built = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = Plateau()(built, 0)
    found = []
    for _ in range(6):
        scheduler.step(1.0)
        found.append(built.param_groups[0]["lr"])
    assert found == [1.0, 1.0, 1.0, 1.0, 0.5, 0.5]  # the first is no bad one


def test_a_plateau_replaces_a_cycle_and_is_not_joined_to_it():
    both = turned([written(Schedule("one-cycle"))], setup())
    assert Schedule("plateau").turned(both).schedule == Plateau()


def test_a_warm_up_has_four_forms():
    assert warmup_updates("updates", 500, updates=9000) == 500
    assert warmup_updates("epochs", 5, updates=9000, updates_per_epoch=30) == 150
    assert warmup_updates("share", 0.1, updates=9000) == 900
    assert warmup_updates("formula", 0.3, updates=9000, initial=1e-4, target=1e-2) == 300


@pytest.mark.parametrize("told", [{"initial": 0.0, "target": 0.01}, {"initial": 1e-4, "target": 0.0}])
def test_the_formula_without_an_initial_rate_is_refused(told):
    with pytest.raises(NetdynoError, match="cannot compute a warm-up"):
        warmup_updates("formula", 0.3, updates=9000, **told)


def test_unknown_forms_and_epochs_of_endless_data_are_refused():
    with pytest.raises(NetdynoError):
        warmup_updates("hours", 1, updates=10)
    with pytest.raises(NetdynoError):
        warmup_updates("epochs", 1, updates=10)


def test_a_warm_up_rises_from_its_first_update_to_the_rate_and_then_the_course_begins():
    found, _ = rates(Warmed(Linear(), 4), 8, rate=1.0)
    assert found == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25])


@pytest.mark.parametrize("course", ["one-cycle", "plateau"])
def test_no_warm_up_is_joined_to_what_rises_itself_or_is_not_known_before(course):
    both = Schedule(course).turned(setup())
    assert Warmup().refuses(both) is not None
    with pytest.raises(NetdynoError, match="cannot warm up before"):
        Warmup().turned(both)


def test_a_warm_up_longer_than_half_the_run_is_refused():
    assert Warmup("updates", 500).refuses(setup()) == "500 of 100 updates are no warm-up"
    assert Warmup("share", 0.0).refuses(setup()) is not None


def test_a_recipe_of_both_warms_up_before_it_cools_down():
    both = turned([written(Warmup("share", 0.1)), written(Schedule("cosine"))], setup())
    assert both.schedule == Warmed(Cosine(), 10)


@pytest.mark.parametrize(
    "knob",
    [Schedule("cosine"), Schedule("cosine", 3.0), Schedule("linear"), Schedule("one-cycle", 3.0), Schedule("constant"), Warmup()],
    ids=str,
)  # fmt: skip
def test_what_a_person_would_write_goes_the_same_way(knob):
    def written_by_hand(optimizer, updates):
        names = {"torch": torch, "math": math, "optimizer": optimizer, "updates": updates, "updates_per_epoch": 6}
        exec(knob.code(), names)
        return names["scheduler"]

    mine, hands = rates(knob.turned(setup()).schedule, 100), rates(written_by_hand, 100)
    assert mine[0] == pytest.approx(hands[0], rel=1e-12)
    assert mine[1] == hands[1]
