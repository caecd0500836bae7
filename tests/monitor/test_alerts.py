import threading

import pytest

from netdyno.monitor.alerts import MOST_WAITING, Alerts
from netdyno.records.journal import Alert


def alert(cause="loss-not-finite", update=1, **told):
    return Alert(cause=cause, severity="warning", says=f"{cause} was seen", update=update, seconds=0.1, **told)


def told(alerts, *these):
    news = [alerts.tell(each) for each in these]
    alerts.close()
    return news


def test_each_sink_hears_all_alerts_in_their_order():
    first, second = [], []
    told(Alerts([first.append, second.append]), *(alert(f"cause-{at}") for at in range(20)))
    assert [each.cause for each in first] == [f"cause-{at}" for at in range(20)]
    assert first == second


def test_a_cause_is_told_once():
    heard = []
    news = told(Alerts([heard.append]), alert("slow-loader", 1), alert("slow-loader", 2), alert("other", 3))
    assert news == [True, False, True]
    assert [(each.cause, each.update) for each in heard] == [("slow-loader", 1), ("other", 3)]


def test_a_cause_is_told_once_also_when_many_threads_tell_it():
    heard, ready = [], threading.Barrier(8)
    alerts = Alerts([heard.append])

    def tell():
        ready.wait()
        for at in range(50):
            alerts.tell(alert(f"cause-{at}"))

    threads = [threading.Thread(target=tell) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alerts.close()
    assert sorted(each.cause for each in heard) == sorted(f"cause-{at}" for at in range(50))


def test_symptoms_of_what_was_told_are_no_news():
    heard = []
    root = alert("high-learning-rate", folds=("exploding-gradients", "loss-oscillates"))
    news = told(Alerts([heard.append]), root, alert("loss-oscillates"), alert("exploding-gradients"))
    assert news == [True, False, False]
    assert heard == [root]


def test_a_root_is_news_when_only_its_symptom_was_told():
    heard = []
    news = told(Alerts([heard.append]), alert("symptom"), alert("root", folds=("symptom",)), alert("symptom"))
    assert news == [True, True, False]
    assert [each.cause for each in heard] == ["symptom", "root"]


def test_without_sinks_news_is_known_all_the_same():
    assert told(Alerts([]), alert(), alert()) == [True, False]


@pytest.mark.parametrize("error", [RuntimeError("no route"), SystemExit(3), KeyboardInterrupt()])
def test_a_sink_that_raises_is_noted_and_hears_the_next_alert(error):
    heard, others = [], []

    def sink(each):
        heard.append(each.cause)
        raise error

    alerts = Alerts([sink, others.append])
    told(alerts, alert("first"), alert("second"))
    assert heard == ["first", "second"]
    assert [each.cause for each in others] == ["first", "second"]
    assert [trouble.split(":")[:2] for trouble in alerts.troubles] == 2 * [["sink", f" {type(error).__name__}"]]


def test_a_sink_that_hangs_keeps_no_other_waiting_and_lets_the_watch_end():
    release, heard, twice = threading.Event(), [], threading.Event()

    def hangs(each):
        release.wait(60)

    def hears(each):
        heard.append(each.cause)
        if len(heard) == 2:
            twice.set()

    alerts = Alerts([hangs, hears], patience_s=0.05)
    alerts.tell(alert("first"))
    alerts.tell(alert("second"))
    assert twice.wait(60), "the second sink waits for the first"
    alerts.close()
    assert alerts.troubles == ["hangs: `first` and 1 more was still on its way when the watch ended"]
    release.set()


def test_what_does_not_fit_behind_a_hanging_sink_is_noted_and_blocks_nobody():
    release, under_way = threading.Event(), threading.Event()

    def hangs(each):
        under_way.set()
        release.wait(60)

    alerts = Alerts([hangs], patience_s=0.05)
    alerts.tell(alert("first"))
    assert under_way.wait(60)
    for at in range(MOST_WAITING + 3):
        assert alerts.tell(alert(f"cause-{at}"))
    alerts.close()  # the queue is full, and this returns
    assert len([each for each in alerts.troubles if "alerts wait already" in each]) == 3
    release.set()


def test_what_comes_after_the_end_is_noted():
    alerts = Alerts([print])
    alerts.close()
    assert alerts.tell(alert("late"))
    assert alerts.troubles == ["print: `late` was not told: the watch was over"]


def test_a_thread_is_made_only_when_there_is_something_to_tell():
    before = threading.active_count()
    alerts = Alerts([print] * 5)
    assert threading.active_count() == before
    alerts.close()
