"""The gate as a whole: what it stops, what it lets through, and what it lets through because it was told to."""

import pytest
import torch
from torch import nn

from netdyno import plugins
from netdyno.gates._specimens import Net, candidate, pictures, trained
from netdyno.shipping import gate as room
from netdyno.shipping.gate import gate, items, order, stops, unknown


def failures(checks):
    return {check.name for check in checks if check.ok is False and not check.warning}


def release(model=None, **declared):
    return candidate(model, **declared).release


def test_a_healthy_module_passes_and_every_item_says_something():
    checks = gate(release())
    assert not stops(checks), failures(checks)
    assert [check.name for check in checks] == list(order())
    assert all(check.says for check in checks)


def test_a_module_that_was_left_in_training_mode_is_stopped_with_the_fix():
    checks = gate(release(trained(Net()).train()))
    assert stops(checks)
    first = next(check for check in checks if check.ok is False)
    assert first.name == "eval-mode"
    assert "eval()" in first.fix


class MonteCarlo(Net):
    """Dropout that is meant to stay on: its scatter is the uncertainty."""

    def forward(self, x):
        x = nn.functional.avg_pool2d(self.norm(self.conv(x)).relu(), 2)
        return self.head(nn.functional.dropout(x.flatten(1), 0.2, training=True))


def test_deliberate_randomness_is_stopped_until_it_is_allowed():
    made = release(trained(MonteCarlo()))
    checks = gate(made)
    assert failures(checks) == {"repeat-determinism"}
    assert "allow" in next(check for check in checks if check.name == "repeat-determinism").fix
    assert not stops(gate(made, allow=("repeat-determinism",)))
    assert not stops(gate(release(trained(MonteCarlo()), allow=("repeat-determinism",))))


def test_a_permission_for_no_item_is_named():
    assert unknown(("repeat-determinsm", "eval-mode")) == ("repeat-determinsm",)


def test_an_item_that_breaks_says_why_and_stops_nothing(monkeypatch):
    def breaking(_):
        raise ValueError("cannot look\nat this")

    found = {"breaking": breaking, "broken": plugins.Broken("broken", "no module")}
    monkeypatch.setattr(room, "items", found.copy)
    checks = gate(release())
    assert [check.ok for check in checks] == [None, None]
    assert "ValueError: cannot look" in checks[0].says
    assert "no module" in checks[1].says
    assert not stops(checks)


def test_a_release_with_nothing_but_model_and_example_is_looked_at_all_the_same():
    checks = gate(release(calibration=None, validation=None))
    assert not stops(checks)
    assert {check.name for check in checks if check.ok} >= {
        "eval-mode",
        "repeat-determinism",
        "batch-mates",
        "batch-of-one",
    }


def test_the_names_of_several_outputs_do_not_disturb_it():
    class Two(Net):
        def forward(self, x):
            scores = super().forward(x)
            return {"scores": scores, "embedding": scores * 2}

    made = Two()
    made.load_state_dict(trained(Net()).state_dict())

    def quality(output, target):
        return output["scores"].argmax(1) == target

    checks = gate(release(made.eval(), quality=quality))
    assert not stops(checks), failures(checks)


def test_every_item_is_found_by_its_file():
    assert not [found for found in items().values() if isinstance(found, plugins.Broken)]
    assert set(room.FIRST) <= set(items())


@pytest.mark.parametrize("rows", [2, 3])
def test_an_example_of_two_rows_is_enough(rows):
    x, _ = pictures()
    checks = gate(release(trained(Net()), example=x[:rows].clone, calibration=None, validation=None))
    assert not stops(checks), failures(checks)


def test_the_random_state_is_as_before():
    made = release()
    before = torch.get_rng_state()
    gate(made)
    assert torch.equal(before, torch.get_rng_state())
