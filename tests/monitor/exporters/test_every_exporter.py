"""What every exporter promises, and who hands news to them."""

import threading
import types

import numpy as np
import pytest

from netdyno import plugins
from netdyno.errors import NetdynoError
from netdyno.monitor.exporters import _base, _following
from netdyno.monitor.exporters._base import Exporter, chosen, exporter
from netdyno.monitor.exporters._following import Following, Reader

ROOM = dict(plugins.modules("monitor.exporters"))


class Collector(Exporter):
    """Keeps what it is told."""

    def __init__(self):
        super().__init__("nowhere")
        self.begun, self.loss, self.alerts, self.ended = 0, [], [], None

    def begin(self, run):
        self.begun += 1

    def take(self, news):
        if "loss" in news.series:
            self.loss += news.series["loss"].updates.tolist()
        self.alerts += news.alerts()

    def close(self, state):
        self.ended = state


class Failing(Collector):
    def take(self, news):
        raise OSError("the disk is full")


def test_none_is_broken():
    assert set(ROOM) == {"csv", "json", "mlflow", "prometheus", "tensorboard", "wandb"}
    assert not [module for module in ROOM.values() if isinstance(module, plugins.Broken)]


@pytest.mark.parametrize("name", sorted(ROOM))
def test_it_says_what_it_needs_and_what_opens_it(name):
    assert "Needs:  " in ROOM[name].__doc__
    assert "Opens:  " in ROOM[name].__doc__
    assert isinstance(ROOM[name], types.ModuleType)
    assert issubclass(ROOM[name].EXPORTER, Exporter)


@pytest.mark.parametrize("name", sorted(name for name in ROOM if ROOM[name].EXPORTER.needs))
def test_without_its_package_it_says_what_to_install(name, tmp_path, monkeypatch):
    monkeypatch.setattr(_base, "find_spec", lambda module: None)
    (package,) = ROOM[name].EXPORTER.needs.values()
    with pytest.raises(NetdynoError, match=f"`{package}` is not installed") as raised:
        exporter(name, store=tmp_path, run="run")
    assert f"pip install {package}" in raised.value.hint


def test_one_that_is_not_there_names_those_that_are(tmp_path):
    with pytest.raises(NetdynoError, match="no such exporter") as raised:
        exporter("excel", store=tmp_path, run="run")
    assert "`csv`" in raised.value.hint


def test_names_and_objects_are_chosen_alike(tmp_path):
    own = Collector()
    made = chosen(["csv", own], store=tmp_path, run="r1")
    assert [type(each).__name__ for each in made] == ["Csv", "Collector"]
    assert made[0].out == str(tmp_path / "exports" / "r1.csv")


def test_a_reader_tells_each_thing_once(journal):
    run, writes = journal(live=True)
    reader = Reader(run)
    assert reader.news().series["loss"].updates.tolist() == [1, 2, 3, 4, 5]
    assert reader.news() == ({}, [])
    writes.point("loss", 6, 0.1, 0.6)
    writes.event("evaluation", 6, loss=0.3)
    writes.flush()
    news = reader.news()
    assert news.series["loss"].updates.tolist() == [6]
    assert [event["kind"] for event in news.events] == ["evaluation"]


def test_a_long_series_comes_in_parts_and_whole(journal, monkeypatch):
    monkeypatch.setattr(_following, "MOST_AT_ONCE", 30)
    collector = Collector()
    following = Following(journal(updates=100), [collector])
    following.begin()
    following.close()
    assert collector.loss == list(range(1, 101))
    assert following.steps == 5
    assert (collector.begun, collector.ended, len(collector.alerts)) == (1, "ended", 1)


def test_beside_a_training_series_are_thinned_and_alerts_are_not(journal):
    collector = Collector()
    following = Following.beside(journal(updates=5000), [collector], trouble=lambda *_: None)
    following.begin()
    following.step()
    assert len(collector.loss) <= _following.LIVE_POINTS + 6
    assert (collector.loss[0], collector.loss[-1]) == (1, 5000)
    assert len(collector.alerts) == 1


def test_one_that_fails_is_told_and_left_out_and_the_others_go_on(journal):
    troubles, collector = [], Collector()
    run = journal()
    following = Following.beside(
        run, [Failing(), collector], trouble=lambda where, error: troubles.append((where, str(error)))
    )
    following.start()
    following.stop()
    assert troubles == [("export Failing take", "the disk is full")]
    assert collector.loss == [1, 2, 3, 4, 5]
    assert collector.ended == "ended"


def test_afterwards_a_failure_is_raised(journal):
    following = Following(journal(), [Failing()])
    following.begin()
    with pytest.raises(OSError, match="the disk is full"):
        following.close()


def test_pauses_grow_until_the_price_is_a_small_share(journal):
    ticks = iter(np.arange(100.0))  # each step takes a second of the processor
    following = Following(journal(), [Collector()], cpu=lambda: next(ticks))
    following.begin()
    assert following.pause_s() == _following.EVERY_S
    following.step()
    assert following.spent_s == 1.0
    assert following.pause_s() == 1.0 / _following.SHARE


def test_a_live_run_is_followed_to_its_end(journal, monkeypatch):
    monkeypatch.setattr(_following, "EVERY_S", 0.01)
    run, writes = journal(live=True)
    seen = threading.Event()

    class Waits(Collector):
        def take(self, news):
            super().take(news)
            if 6 in self.loss:
                seen.set()

    collector = Waits()
    following = Following.beside(run, [collector], trouble=lambda where, error: pytest.fail(f"{where}: {error}"))
    following.start()
    writes.point("loss", 6, 0.5, 0.6)
    writes.flush()
    assert seen.wait(60)
    writes.point("loss", 7, 0.5, 0.7)
    writes.close("failed", 7)
    following.stop()
    assert collector.loss == [1, 2, 3, 4, 5, 6, 7]
    assert collector.ended == "failed"


def test_one_that_hangs_lets_the_watch_end(journal, monkeypatch):
    monkeypatch.setattr(_following, "EVERY_S", 0.001)
    monkeypatch.setattr(_following, "PATIENCE_S", 0.05)
    release, under_way, troubles = threading.Event(), threading.Event(), []

    class Hangs(Collector):
        def take(self, news):
            under_way.set()
            release.wait(60)

    following = Following.beside(journal(), [Hangs()], trouble=lambda where, error: troubles.append(where))
    following.start()
    assert under_way.wait(60)
    following.stop()
    assert troubles == ["export"]
    release.set()
