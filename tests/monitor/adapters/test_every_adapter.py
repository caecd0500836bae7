"""What all adapters are held to."""

import copy
import pickle

import pytest

from netdyno import plugins
from netdyno.monitor.adapters._base import Watched

FOUND = dict(plugins.modules("monitor.adapters"))
HEADINGS = ("Use:", "Finds:", "Ends:")


@pytest.mark.parametrize("name", FOUND)
def test_it_says_how_it_is_used(name):
    module = FOUND[name]
    if isinstance(module, plugins.Broken):
        pytest.skip(module.says)
    for heading in HEADINGS:
        assert f"\n{heading}" in module.__doc__


def test_a_copy_keeps_the_wishes_and_leaves_the_watch(tmp_path):
    watched = Watched({"run": "digits", "store": tmp_path, "quiet": True})
    watched.begin(None, None)
    try:
        for copied in (copy.deepcopy(watched), pickle.loads(pickle.dumps(watched))):
            assert copied.watch is None
            assert copied.wishes["run"] == "digits"
    finally:
        watched.end()


def test_results_that_are_no_numbers_are_left_out(tmp_path):
    watched = Watched({"store": tmp_path, "quiet": True})
    watched.begin(None, None)
    watch = watched.watch
    watched.evaluated({"eval_loss": 0.5, "eval_best": "yes", "eval_matrix": [1, 2], "update": 3.0}, without="eval_")
    watched.end()
    events = [each for each in _events(watch) if each["kind"] == "evaluation"]
    assert [set(event) - {"kind", "update", "seconds"} for event in events] == [{"loss"}]


def _events(watch):
    from netdyno.store.journal import Run

    return Run(watch.journal.folder).events()[0]
