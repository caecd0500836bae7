"""The promises that every knob keeps: it says in words why not, and on and off leave everything as it was, to the byte."""

import re

import pytest
import torch

from aboard.knobs.specimens import SPECIMENS
from netdyno.aboard.knobs import _base
from netdyno.aboard.knobs._base import Recipe, find, made, names, refused
from netdyno.aboard.knobs._print import different, look
from netdyno.interventions._base import catalogue

CHANGES = [{"id": name, "settings": settings} for name in names() for settings in find(name).EXAMPLES]
TOGGLES = [change for change in CHANGES if find(change["id"]).WHEN == "toggle"]


def label(change):
    return " ".join([change["id"], *(f"{key}={value}" for key, value in change["settings"].items())])


def fitting():
    """Every toggle with every specimen that it does not refuse."""
    for change in TOGGLES:
        for name, specimen in SPECIMENS.items():
            one = specimen()
            one.update(2)
            if refused(one.view, change) is None:
                yield pytest.param(change, specimen, id=f"{label(change)} on {name}")


FITTING = list(fitting())
every_fit = pytest.mark.parametrize(("change", "specimen"), FITTING)
# A compiled step takes long: it has a test of its own.
every_quick_fit = pytest.mark.parametrize(
    ("change", "specimen"), [each for each in FITTING if each.values[0]["id"] != "compile-model"]
)
every_faithful_fit = pytest.mark.parametrize(
    ("change", "specimen"),
    [each for each in FITTING if catalogue()[each.values[0]["id"]].numerics == "same-bits"],
)
every_name = pytest.mark.parametrize("name", names())


def begun(specimen, updates=2):
    one = specimen()
    one.update(updates)
    return one


@every_name
def test_a_knob_has_the_id_and_the_stage_of_its_intervention(name):
    assert name in catalogue()
    assert catalogue()[name].stage == find(name).STAGE


@every_name
def test_a_knob_says_when_it_can_be_turned_and_brings_examples(name):
    knob = find(name)
    assert knob.WHEN in {"toggle", "start"}
    assert knob.EXAMPLES
    assert re.match(r"[A-Z].*\.", knob.__doc__.strip())


@every_name
def test_examples_are_settings_that_the_intervention_knows(name):
    fields = set(catalogue()[name].__dataclass_fields__)
    for settings in find(name).EXAMPLES:
        assert set(settings) <= fields


def test_most_toggles_fit_some_specimen():
    met = {parameters.values[0]["id"] for parameters in FITTING}
    here = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    in_hardware = {"bf16-autocast", "matmul-precision"}
    wanted = {change["id"] for change in TOGGLES} - (set() if here else in_hardware)
    # More threads than one core cannot be, and the team can be made anew only with one known library.
    assert wanted - met <= {"threads", "flush-denormal", "compile-model"}


@every_fit
def test_on_and_off_without_a_step_leave_everything_as_it_was(change, specimen):
    one = begun(specimen)
    before = look(one.view)
    knob = made(one.view, change)
    knob.on()
    knob.off()
    assert different(before, look(one.view)) is None
    knob.on()
    knob.off()
    assert different(before, look(one.view)) is None


@every_fit
def test_on_changes_something(change, specimen):
    one = begun(specimen)
    before = look(one.view)
    recipe = Recipe(one.view)
    recipe.follow([change])
    assert different(before, look(one.view)) is not None
    recipe.clear()


@every_quick_fit
def test_off_restores_places_and_switches_also_when_a_step_raised(change, specimen):
    one = begun(specimen)
    before = look(one.view)
    recipe = Recipe(one.view)
    recipe.follow([change])
    one.update()
    with pytest.raises(RuntimeError):
        one._forward(torch.zeros(2, 2), torch.zeros(2, dtype=torch.long))
    recipe.clear()
    after = look(one.view)
    # What was learned is the script's own, and so are the numbers it drew: places, orders and switches must be the same.
    for name, seen in before.items():
        if name.startswith(("random", "optimizer 0, state", "model 0, gradient")):
            continue
        learned = name.startswith("model 0") and "module" not in name
        assert (seen[:-1] if learned else seen) == (after[name][:-1] if learned else after[name]), name


@every_quick_fit
def test_the_script_trains_under_it_and_after_it(change, specimen):
    one = begun(specimen)
    recipe = Recipe(one.view)
    for _ in range(2):
        recipe.follow([change])
        one.update(2)
        recipe.clear()
        one.update(2)


@every_faithful_fit
def test_what_promises_the_same_bits_gives_the_same_losses(change, specimen):
    without, under = begun(specimen, 0), begun(specimen, 0)
    # Both begin with the same random numbers, which their shuffling and dropout draw.
    torch.manual_seed(3)
    without.update(2)
    expected = without.update(6)
    torch.manual_seed(3)
    under.update(2)
    Recipe(under.view).follow([change])
    assert under.update(6) == expected


@pytest.mark.parametrize("change", CHANGES, ids=label)
def test_a_refusal_speaks_in_words(change):
    for specimen in SPECIMENS.values():
        why = refused(begun(specimen).view, change)
        assert why is None or re.match(r"[`a-z].*[^.]$", why, re.IGNORECASE), why


@pytest.mark.parametrize("change", CHANGES, ids=label)
def test_a_refusal_leaves_no_trace(change):
    for specimen in SPECIMENS.values():
        one = begun(specimen)
        before = look(one.view)
        refused(one.view, change)
        assert different(before, look(one.view)) is None


def test_a_change_that_is_an_edit_is_refused_by_name():
    assert "needs an edit" in refused(SPECIMENS["plain"]().view, {"id": "conv-bn-fold", "settings": {}})


def test_a_change_aboard_one_of_several_ranks_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    why = refused(SPECIMENS["plain"]().view, {"id": "fused-optimizer", "settings": {}})
    assert "2 processes train together" in why


def test_a_recipe_keeps_what_both_recipes_share():
    one = begun(SPECIMENS["convolutions"])
    channels, fused = ({"id": name, "settings": {}} for name in ("channels-last", "fused-optimizer"))
    recipe = Recipe(one.view)
    recipe.follow([channels])
    place = one.model[0].weight.data_ptr()
    recipe.follow([fused, channels])
    assert one.model[0].weight.data_ptr() == place
    assert one.optimizer.param_groups[0]["fused"] is True
    recipe.clear()
    assert one.optimizer.param_groups[0]["fused"] is None


def test_a_recipe_that_is_on_from_the_start_waits_for_what_it_needs():
    one, boundary = SPECIMENS["plain"](), []
    fused = {"id": "fused-optimizer", "settings": {}}
    recipe = _base.begin(one.view, boundary, [fused, {"id": "bf16-autocast", "settings": {}}])
    assert len(one.view.around_forward) == 1
    assert one.optimizer.param_groups[0]["fused"] is None
    one.update()
    boundary[0]()
    assert one.optimizer.param_groups[0]["fused"] is True
    assert boundary == []
    recipe.clear()
