"""Changes of a loader's arguments, made while the script builds it: nothing impossible, nothing unsafe."""

import io

import pytest
from torch.utils.data import DataLoader

from aboard.knobs.specimens import Decoded, Specimen, Stream, images
from netdyno.aboard.knobs._base import made, refused
from netdyno.aboard.view import View


def built(changes, dataset, **arguments):
    """The loader that a script gets."""
    view = View()
    knobs = [made(view, {"id": name, "settings": settings}) for name, settings in changes]
    for knob in knobs:
        knob.on()
    for change in view.loader_arguments:
        arguments = change(dataset, arguments)
    for knob in knobs:
        knob.off()
    assert view.loader_arguments == []
    return DataLoader(dataset, **arguments)


def why(name, settings=None, **arguments):
    dataset = arguments.pop("dataset", None) or Decoded()
    view = Specimen(images, loader=DataLoader(dataset, **arguments)).view
    return refused(view, {"id": name, "settings": settings or {}})


class Holding(Decoded):
    """A data set that reads from an open file."""

    def __init__(self):
        super().__init__()
        self.file = io.BytesIO()


def test_workers_come_with_what_the_author_wrote_beside_them():
    loader = built([("loader-workers", {"workers": 2})], Decoded(), batch_size=4, drop_last=True)
    assert (loader.num_workers, loader.batch_size, loader.drop_last) == (2, 4, True)


def test_without_workers_what_needs_them_goes():
    author = {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": True, "multiprocessing_context": "fork"}
    loader = built([("loader-workers", {"workers": 0})], Decoded(), **author)
    assert (loader.num_workers, loader.persistent_workers) == (0, False)


def test_changes_of_one_recipe_build_on_each_other():
    recipe = [("loader-workers", {"workers": 1}), ("persistent-workers", {}), ("prefetch-factor", {"factor": 4})]
    loader = built(recipe, Decoded())
    assert (loader.num_workers, loader.persistent_workers, loader.prefetch_factor) == (1, True, 4)


def test_what_needs_workers_waits_for_them():
    loader = built([("persistent-workers", {}), ("prefetch-factor", {"factor": 4})], Decoded())
    assert (loader.num_workers, loader.persistent_workers, loader.prefetch_factor) == (0, False, None)


@pytest.mark.parametrize("dataset", [Stream(), Holding()], ids=["stream", "open file"])
def test_no_worker_gets_a_copy_of_what_cannot_be_shared(dataset):
    assert built([("loader-workers", {"workers": 2})], dataset).num_workers == 0


@pytest.mark.parametrize(
    ("name", "settings", "arguments", "reason"),
    [
        ("loader-workers", {"workers": 0}, {}, "already uses 0 loader workers"),
        ("loader-workers", {"workers": 2}, {"num_workers": 2}, "already uses 2 loader workers"),
        ("loader-workers", {"workers": -1}, {}, "not a number of workers"),
        ("loader-workers", {"workers": 2}, {"dataset": Stream()}, "every worker would read all of it"),
        ("loader-workers", {"workers": 2}, {"dataset": Holding()}, "an open `BytesIO`"),
        ("persistent-workers", {}, {}, "no loader workers to keep"),
        ("persistent-workers", {}, {"num_workers": 1, "persistent_workers": True}, "already keeps"),
        ("prefetch-factor", {"factor": 4}, {}, "there are none"),
        ("prefetch-factor", {"factor": 9}, {"num_workers": 1}, "outside 1 to 4"),
        ("prefetch-factor", {"factor": 2}, {"num_workers": 1}, "already prefetches 2"),
        ("pin-memory", {}, {}, "runs on the CPU"),
    ],
)
def test_what_would_change_nothing_or_do_harm_is_refused(name, settings, arguments, reason):
    assert reason in why(name, settings, **arguments)
