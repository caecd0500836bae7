"""Compiled from outside: once per model, the script's own objects untouched."""

import pytest
import torch

from aboard.knobs.specimens import SPECIMENS
from netdyno.aboard.knobs import compile_model
from netdyno.aboard.knobs._base import Recipe, refused
from netdyno.aboard.knobs._print import different, look

CHANGE = {"id": "compile-model", "settings": {}}


@pytest.mark.slow
def test_a_compiled_form_trains_and_is_compiled_once():
    one = SPECIMENS["plain"]()
    if refused(one.view, CHANGE) is not None:
        pytest.skip("nothing to compile with")
    one.update(2)
    recipe = Recipe(one.view)
    recipe.follow([CHANGE])
    one.update(2)
    frames = torch._dynamo.utils.counters["frames"]["total"]
    assert frames > 0
    recipe.clear()
    before = look(one.view)
    recipe.follow([CHANGE])
    recipe.clear()
    assert different(before, look(one.view)) is None
    recipe.follow([CHANGE])
    one.update(2)
    assert torch._dynamo.utils.counters["frames"]["total"] == frames


def test_a_script_that_compiles_itself_is_left_alone():
    one = SPECIMENS["plain"]()
    one.view.models[0] = torch.compile(one.model)
    assert compile_model.refuses(one.view, {}) == "the script already compiles itself"


def test_an_unknown_mode_is_refused():
    assert "`fastest` is not among" in compile_model.refuses(SPECIMENS["plain"]().view, {"mode": "fastest"})
