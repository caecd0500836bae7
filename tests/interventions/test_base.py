"""How plug-ins are found, written down, ordered and put together."""

from types import SimpleNamespace

import pytest

from interventions.specimens import IMAGES, PLAIN_IMAGES, WORDS, profile, stepped, timeline
from netdyno import plugins
from netdyno.interventions import _base
from netdyno.interventions._base import (
    applied,
    catalogue,
    facts_from,
    form_of,
    free_memory,
    megabytes,
    ordered,
    read,
    written,
)
from netdyno.interventions.batch_size import BatchSize
from netdyno.interventions.batch_transforms import BatchTransforms
from netdyno.interventions.loader_workers import LoaderWorkers
from netdyno.interventions.tensor_slicing import TensorSlicing
from netdyno.records.evidence import LoaderProfile, StepTimeline
from netdyno.records.trial import Change


def test_a_change_says_its_settings():
    assert written(LoaderWorkers(4)) == Change(id="loader-workers", settings={"workers": 4})
    assert read(Change(id="loader-workers", settings={"workers": 4})) == LoaderWorkers(4)


def test_an_unknown_change_is_a_key_error():
    with pytest.raises(KeyError, match="turbo"):
        read(Change(id="turbo"))


def test_a_recipe_is_applied_in_the_order_of_stages():
    recipe = [written(one) for one in (BatchSize(), LoaderWorkers(), TensorSlicing(), BatchTransforms())]
    assert [type(one).__name__ for one in ordered(recipe)] == [
        "BatchTransforms",
        "TensorSlicing",
        "LoaderWorkers",
        "BatchSize",
    ]


def test_a_recipe_opens_and_closes_as_one():
    subject = IMAGES.fresh()
    recipe = [written(TensorSlicing()), written(BatchTransforms())]
    with applied(recipe, subject) as changed:
        assert changed.feed.direct is not None
        assert changed.augment
        stepped(changed, 2)
    assert subject.feed.direct is None


def test_what_was_applied_is_taken_back_when_a_later_change_cannot_be():
    subject = WORDS.fresh()
    with (
        pytest.raises(ValueError, match="no `batch_augment`"),
        applied([written(BatchSize()), written(BatchTransforms())], subject),
    ):
        pass
    assert subject.optimizer.param_groups[0]["lr"] == 0.05


@pytest.mark.parametrize(
    ("recipe", "form"),
    [((), "in-process"), ((TensorSlicing(),), "in-process"), ((TensorSlicing(), LoaderWorkers()), "processes")],
)
def test_one_change_of_the_process_makes_a_recipe_need_processes(recipe, form):
    assert form_of(map(written, recipe)) == form


def test_the_last_evidence_of_a_kind_wins():
    found = facts_from([timeline(data=1), profile(), timeline(data=2)])
    assert found[StepTimeline] == timeline(data=2)
    assert found.keys() == {StepTimeline, LoaderProfile}


def test_a_broken_plug_in_is_named_with_its_reason(monkeypatch):
    def rooms(_):
        yield "sound", SimpleNamespace(__name__="elsewhere.sound", Sound=BatchSize)
        yield "nameless", SimpleNamespace(__name__="elsewhere.nameless")
        yield "broken", plugins.Broken("broken", "SyntaxError: invalid syntax")

    monkeypatch.setattr(plugins, "modules", rooms)
    caches = (_base._scanned, _base.catalogue, _base.broken)
    for cache in caches:
        cache.cache_clear()
    try:
        assert catalogue() == {"sound": BatchSize}
        assert [(one.id, one.says) for one in _base.broken()] == [
            ("nameless", "`elsewhere.nameless` has no class `Nameless`"),
            ("broken", "SyntaxError: invalid syntax"),
        ]
    finally:
        monkeypatch.undo()
        for cache in caches:
            cache.cache_clear()


@pytest.mark.parametrize(
    ("limit", "current", "inactive", "free"),
    [
        ("max", "5", "0", 1000),
        ("600", "500", "0", 100),
        ("600", "500", "300", 400),  # files that were read once stand in nobody's way
        ("600", "700", "0", 0),
        ("5000", "0", "0", 1000),  # a limit beyond what the machine has
    ],
)
def test_free_memory_is_the_containers_where_that_is_less(monkeypatch, limit, current, inactive, free):
    files = {"memory.max": limit, "memory.current": current, "memory.stat": f"anon 7\ninactive_file {inactive}\n"}
    monkeypatch.setattr(_base, "_group", files.__getitem__)
    monkeypatch.setattr(_base.psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    assert free_memory() == free


def test_without_a_control_group_the_machine_says_what_is_free(monkeypatch):
    def absent(name):
        raise FileNotFoundError(name)

    monkeypatch.setattr(_base, "_group", absent)
    monkeypatch.setattr(_base.psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    assert free_memory() == 1000


@pytest.mark.parametrize(("count", "words"), [(3_200_000, "3.2 MB"), (12_345_678_900, "12,346 MB"), (0, "0.0 MB")])
def test_bytes_are_said_in_megabytes(count, words):
    assert megabytes(count) == words


def test_slices_follow_a_larger_batch():
    recipe = [written(TensorSlicing()), written(BatchSize(2))]
    with applied(recipe, PLAIN_IMAGES.fresh()) as subject:
        batches = subject.feed.epochs()
        assert len(next(batches)[1]) == 16
