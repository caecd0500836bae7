from types import SimpleNamespace

import pytest

from netdyno.aboard.vitals._base import Watch


def aboard(*, on_core, now, waited):
    """A watch that began at 0, on a machine whose clocks stand there."""
    clocks = SimpleNamespace(waiting=lambda: waited)
    observer = SimpleNamespace(now=lambda: now, account=SimpleNamespace(clocks=clocks))
    watch = Watch(observer, 0.01, room=(), on_core=on_core)
    watch.began = 1
    watch._notes_wait()
    return watch


@pytest.mark.parametrize(("on_core", "elapsed"), [(True, 300), (False, 1000)])
def test_time_without_a_core_is_no_time_to_take_a_share_of(on_core, elapsed):
    assert aboard(on_core=on_core, now=1001, waited=700).elapsed() == elapsed


def test_before_it_begins_no_time_has_passed():
    watch = aboard(on_core=True, now=1001, waited=700)
    watch.began = 0
    assert watch.elapsed() == 0
