"""What looks at the numbers promise: not a bit of the training changes, and no look fails on any of the healthy hosts."""

import contextlib
from pathlib import Path

import pytest

from netdyno.aboard.vitals import _base
from netdyno.scripts.evidence import vitals_of
from netdyno.scripts.launch import ride
from netdyno.targets.script import parse

HOSTS = Path(__file__).resolve().parents[2] / "benchmarks" / "faults" / "hosts"
# One of each kind: batch norm and a loader, functional code, attention, recurrence, several optimizers, saves and frozen parts.
CHOSEN = (
    "digits_cnn",
    "digits_mlp_functional",
    "chars_transformer",
    "sequences_gru",
    "mixtures_gan",
    "finetune_digits",
)


def ridden(host, *, vitals):
    with contextlib.chdir(HOSTS):
        return ride(parse(f"{host}.py", ()), losses=True, watch=vitals, vitals=vitals, hz=0.0, grace_s=60.0)


@pytest.fixture(scope="module", params=CHOSEN)
def looked(request):
    """A host and a ride of it in which somebody looks at the numbers."""
    return request.param, ridden(request.param, vitals=True)


@pytest.mark.slow
def test_losses_and_words_are_to_the_last_bit_those_of_a_run_that_nobody_looks_at(looked):
    host, seen = looked
    bare = ridden(host, vitals=False)
    assert seen.stream.losses == bare.stream.losses
    assert seen.reason == bare.reason == "ended"


@pytest.mark.slow
def test_no_look_fails_and_all_that_is_told_is_evidence(looked):
    _, seen = looked
    tick = seen.stream.training.tick
    evidence, unread = vitals_of(tick)
    assert unread == ()
    assert [trouble for trouble in tick.troubles if "vital" in trouble["where"]] == []
    assert evidence


# They replace what they listen to, and need no call.
PATCHING = ("restarts", "warned")


@pytest.mark.parametrize(("name", "kind"), list(_base.kinds()))
def test_it_says_what_kind_of_evidence_it_tells_and_listens_to_something(name, kind):
    assert issubclass(kind, _base.Vital)
    assert kind.kind
    assert kind.__doc__
    assert any(hasattr(kind, hook) for hook in _base.HOOKS) or name in PATCHING
