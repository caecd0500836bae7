"""What the page is told, and what it is not."""

import math
from urllib.parse import quote

import pytest

pytest.importorskip("starlette", reason="needs the extra `ui`")
pytest.importorskip("uvicorn", reason="needs the extra `ui`")
pytest.importorskip("plotly", reason="needs the extra `ui`")

from dashboard.specimens import journal, page
from netdyno.store import Store
from reports.specimens import golden


def ids(answer):
    return [run["id"] for run in answer.json["runs"]]


def test_the_list_says_of_each_run_what_one_looks_for_first(tmp_path):
    run = journal(tmp_path, "digits", losses=(2.0, 1.0, 0.5), tags={"stage": "optim"}, alerts=["dead-units", "plateau"])
    with page(tmp_path) as shown:
        (told,) = shown.get("/api/runs").json["runs"]
    assert told["id"] == run.info.id
    assert (told["name"], told["tags"], told["state"]) == ("digits", {"stage": "optim"}, "ended")
    assert (told["updates"], told["loss"], told["alerts"]) == (3, 0.5, {"warning": 2})


def test_a_store_without_runs_has_an_empty_list(tmp_path):
    with page(tmp_path / "nothing") as shown:
        assert shown.get("/api/runs").json["runs"] == []
        assert shown.get("/api/records").json == []


def test_a_run_goes_on_in_the_list(tmp_path):
    run = journal(tmp_path, end=None)
    with page(tmp_path) as shown:
        assert shown.get("/api/runs").json["runs"][0]["state"] == "running"
        run.point("loss", 3, math.nan)
        run.flush()
        assert shown.get("/api/runs").json["runs"][0]["loss_is"] == "NaN"
        run.close("failed", 3, says="ValueError: no")
        (told,) = shown.get("/api/runs").json["runs"]
    assert (told["state"], told["says"], told["updates"]) == ("failed", "ValueError: no", 3)


def test_a_damaged_run_says_so_and_hides_no_other(tmp_path):
    good = journal(tmp_path, "good")
    bad = journal(tmp_path, "bad")
    (bad.folder / "run.json").write_text("{")
    with page(tmp_path) as shown:
        told = {run["id"]: run for run in shown.get("/api/runs").json["runs"]}
    assert told[good.info.id]["state"] == "ended"
    assert told[bad.info.id]["state"] == "broken"
    assert told[bad.info.id]["broken"]


def test_only_new_points_travel(tmp_path):
    run = journal(tmp_path, losses=range(10), end=None)
    with page(tmp_path) as shown:
        (first,) = shown.points([run.info.id, "loss", 0])
        assert (len(first["values"]), first["next"]) == (10, 10)
        (none,) = shown.points([run.info.id, "loss", first["next"]])
        assert (none["values"], none["next"]) == ([], 10)
        run.point("loss", 11, 7.0)
        run.flush()
        (more,) = shown.points([run.info.id, "loss", first["next"]])
        assert (more["start"], more["updates"], more["values"], more["next"]) == (10, [11.0], [7.0], 11)
    run.close("ended", 11)


def test_points_of_several_runs_come_in_one_answer(tmp_path):
    one, other = journal(tmp_path, losses=(1.0,)), journal(tmp_path, losses=(2.0,))
    with page(tmp_path) as shown:
        found = shown.points([one.info.id, "loss", 0], [other.info.id, "loss", 0], ["no such run", "loss", 0])
    assert [each["values"] for each in found] == [[1.0], [2.0]]


def test_a_series_by_group_keeps_its_slash(tmp_path):
    run = journal(tmp_path, gradient_norm__layers=[3.0])
    with page(tmp_path) as shown:
        assert shown.get(f"/api/run?run={run.info.id}").json["series"] == ["gradient_norm/layers", "loss"]
        assert shown.points([run.info.id, "gradient_norm/layers", 0])[0]["values"] == [3.0]


def test_events_go_on_where_one_stopped_reading(tmp_path):
    run = journal(tmp_path, alerts=["plateau"], end=None)
    with page(tmp_path) as shown:
        first = shown.get(f"/api/events?run={run.info.id}").json
        assert [event["alert"]["because"] for event in first["events"]] == [{"size": 3.0}]
        run.close("ended", 2)
        second = shown.get(f"/api/events?run={run.info.id}&start={first['next']}").json
    assert [event["kind"] for event in second["events"]] == ["end"]


@pytest.mark.parametrize("word", ["..", "../journal", "/etc", ".", "", "a\0b", "%2e%2e", "x" * 5000])
def test_no_word_leaves_the_store(tmp_path, word):
    journal(tmp_path)
    with page(tmp_path) as shown:
        for path in ("/api/run?run=", "/api/events?run=", "/record?id="):
            assert shown.get(path + quote(word)).status == 404
        assert shown.points([word, "loss", 0]) == []


@pytest.mark.parametrize("word", ["../../run.json", "..", "/etc/passwd", "a\0b", "x" * 5000, "ä" * 150, ""])
def test_no_name_of_a_series_leaves_its_run(tmp_path, word):
    run = journal(tmp_path)
    with page(tmp_path) as shown:
        assert all(piece["values"] == [] for piece in shown.points([run.info.id, word, 0]))


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"]
)
def test_static_files_are_those_of_the_page(tmp_path, path):
    with page(tmp_path) as shown:
        assert shown.get(path).status == 404


def test_a_link_out_of_the_store_is_not_followed(tmp_path):
    outside = journal(tmp_path / "other", "secret")
    store = tmp_path / "store"
    journal(store, "mine")
    (store / "journal" / "link").symlink_to(outside.folder)
    with page(store) as shown:
        assert "secret" not in shown.get("/api/runs").text
        assert shown.get("/api/run?run=link").status == 404


@pytest.mark.parametrize("asked", ["", "{", "[1]", '[["a"]]', "[" * 2000])
def test_what_is_no_question_gets_an_answer_all_the_same(tmp_path, asked):
    with page(tmp_path) as shown:
        assert shown.get(f"/api/points?ask={quote(asked)}").status == 400


def test_a_record_is_listed_and_shown_as_its_report(tmp_path):
    record = golden()
    Store(tmp_path).save(record)
    with page(tmp_path) as shown:
        (told,) = shown.get("/api/records").json
        assert told["id"] == record.id
        answer = shown.get(f"/record?id={record.id}")
    assert answer.status == 200
    assert "<title>" in answer.text
    assert "script-src" not in answer.headers["content-security-policy"]  # the report brings its own


def test_the_chart_library_comes_from_this_machine(tmp_path):
    with page(tmp_path) as shown:
        assert "http" not in shown.get("/").text.replace("http-equiv", "")
        assert shown.get("/static/plotly.min.js").headers["content-type"].startswith("text/javascript")
