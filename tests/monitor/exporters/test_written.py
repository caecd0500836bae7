"""What exporters wrote, read back by the libraries' own readers."""

import csv
import json
import math
import struct
import time
import urllib.request
from pathlib import Path

import pytest

from netdyno.errors import NetdynoError
from netdyno.monitor.exporters._base import exporter
from netdyno.monitor.exporters._following import Following

BLOCK = 1 << 15  # of a LevelDB log


def export(run, name, tmp_path, out=None):
    made = exporter(name, store=tmp_path / "store", run=run.info.id, out=out)
    following = Following(run, [made])
    following.begin()
    following.close()
    return made


def test_a_table_holds_all_points(journal, tmp_path):
    made = export(journal(), "csv", tmp_path)
    with open(made.out, newline="") as file:
        rows = list(csv.DictReader(file))
    loss = [(int(row["update"]), float(row["value"])) for row in rows if row["series"] == "loss"]
    assert loss == [(update, 1 / update) for update in range(1, 6)]
    assert math.isnan(float(rows[1]["value"]))


def test_a_document_holds_the_run_its_series_and_its_events(journal, tmp_path):
    run = journal()
    told = json.loads(Path(export(run, "json", tmp_path, tmp_path / "a" / "run.json").out).read_text())
    assert told["run"]["id"] == run.info.id
    assert told["state"] == "ended"
    assert told["series"]["loss"]["values"] == [1 / update for update in range(1, 6)]
    assert told["series"]["gradient_norm/layers[0]"]["values"] == [3.5, "nan"]
    assert [event["kind"] for event in told["events"]][-1] == "end"


def test_tensorboard_reads_scalars_histograms_and_alerts(journal, tmp_path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard: pip install tensorboard"
    )
    run = journal()
    for _ in range(2):  # a second export takes the place of the first
        made = export(run, "tensorboard", tmp_path)
    found = reader.EventAccumulator(f"{made.out}/{run.info.id}", size_guidance={reader.SCALARS: 0}).Reload()
    loss = found.Scalars("loss")
    assert [point.step for point in loss] == [1, 2, 3, 4, 5]
    assert [point.value for point in loss] == pytest.approx([1 / update for update in range(1, 6)])
    assert [point.wall_time - loss[0].wall_time for point in loss] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4], abs=1e-3)
    assert math.isnan(found.Scalars("gradient_norm/layers[0]")[1].value)
    (histogram,) = found.Histograms("histogram/output")
    assert histogram.step == 4
    assert list(histogram.histogram_value.bucket) == [3, 5]
    assert list(histogram.histogram_value.bucket_limit) == [0, 2]
    (text,) = found.Tensors("alerts/exploding-gradients/text_summary")
    assert b"halve the learning rate" in text.tensor_proto.string_val[0]
    assert text.step == 3


@pytest.mark.slow
def test_mlflow_reads_parameters_metrics_and_tags(journal, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow: pip install mlflow")
    run = journal(updates=2500)
    for _ in range(2):  # a second export goes into the same run, and doubles nothing
        made = export(run, "mlflow", tmp_path)
    assert made.where == f"sqlite:///{tmp_path}/store/exports/mlflow.db"
    client = mlflow.MlflowClient(tracking_uri=made.where)
    experiment = client.get_experiment_by_name("netdyno")
    (found,) = client.search_runs([experiment.experiment_id], "tags.stage = 'optim'")
    assert client.search_runs([experiment.experiment_id], "tags.stage = 'data'") == []
    assert found.info.run_name == "digits"
    assert found.info.status == "FINISHED"
    assert found.data.params == {"lr": "0.1", "batch": "16", "note": "None"}
    assert found.data.tags["netdyno.run"] == run.info.id
    assert found.data.tags["alert.exploding-gradients"] == "update 3: the gradient norm is 1100"
    loss = client.get_metric_history(found.info.run_id, "loss")
    assert sorted((point.step, point.value) for point in loss) == [(at, 1 / at) for at in range(1, 2501)]
    norms = client.get_metric_history(found.info.run_id, "gradient_norm/layers_0_")
    assert [math.isnan(point.value) for point in sorted(norms, key=lambda point: point.step)] == [False, True]


def logged(data):
    """The records of a file of Weights & Biases: a LevelDB log after seven bytes; the library reads it in another language."""
    at, parts = 7, []
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:  # no header fits: the rest of the block is empty
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        parts.append(data[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in {1, 4}:  # whole, or the last part
            yield b"".join(parts)
            parts = []


@pytest.mark.slow
def test_wandb_reads_config_tags_history_and_alerts(journal, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="needs wandb: pip install wandb")
    from wandb.proto import wandb_internal_pb2

    monkeypatch.delenv("WANDB_MODE", raising=False)
    run = journal()
    for _ in range(2):  # a second export takes the place of the first
        made = export(run, "wandb", tmp_path, tmp_path / "wb")
    assert wandb.run is None  # the training's own is not touched
    (file,) = (tmp_path / "wb").glob("wandb/offline-run-*/*.wandb")
    assert str(file.parent) == made.where
    until, kinds = time.monotonic() + 60, []
    while "exit" not in kinds and time.monotonic() < until:  # its own process writes the rest a moment later
        records = [wandb_internal_pb2.Record.FromString(each) for each in logged(file.read_bytes())]
        kinds = [each.WhichOneof("record_type") for each in records]
    (told,) = [each.run for each in records if each.WhichOneof("record_type") == "run"]
    assert (told.run_id, told.display_name, list(told.tags)) == (run.info.id, "digits", ["stage:optim"])
    config = {item.key: json.loads(item.value_json) for item in told.config.update}
    assert config["lr"] == 0.1
    rows = [
        {(item.key or "/".join(item.nested_key)): item.value_json for item in each.history.item}
        for each in records
        if each.WhichOneof("record_type") == "history"
    ]
    loss = [(json.loads(row["update"]), json.loads(row["loss"])) for row in rows if "loss" in row]
    assert loss == [(update, 1 / update) for update in range(1, 6)]
    assert any("histogram/output" in name for row in rows for name in row)
    (alert,) = [each.alert for each in records if each.WhichOneof("record_type") == "alert"]
    assert alert.title == "exploding-gradients"
    assert "the gradient norm is 1100" in alert.text


def samples(text):
    parser = pytest.importorskip("prometheus_client.parser")
    return {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "run")): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def prometheus():
    return pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install prometheus-client")


def test_prometheus_scrapes_the_last_values_of_a_live_run(journal, tmp_path, prometheus, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    run, writes = journal(live=True)
    made = exporter("prometheus", store=tmp_path, run=run.info.id, out="127.0.0.1:0")
    following = Following(run, [made])
    following.begin()
    following.step()
    writes.point("loss", 6, 0.125, 0.6)
    writes.flush()
    following.step()
    assert made.where.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(made.where, timeout=10) as answer:
        found = samples(answer.read().decode())
    assert found["netdyno_series", "loss"] == 0.125
    assert math.isnan(found["netdyno_series", "gradient_norm/layers[0]"])
    assert found[("netdyno_update",)] == 6
    assert found["netdyno_alerts_total", "exploding-gradients", "trip"] == 1
    assert found["netdyno_run", "digits", "optim"] == 1
    writes.close("ended", 6)
    following.close()
    with pytest.raises(OSError):
        urllib.request.urlopen(made.where, timeout=10)


def test_prometheus_writes_a_file_for_the_textfile_collector(journal, tmp_path, prometheus):
    made = export(journal(), "prometheus", tmp_path, tmp_path / "run.prom")
    assert samples(Path(made.out).read_text())["netdyno_series", "loss"] == 1 / 5


def test_a_port_that_is_taken_is_said_in_three_lines(journal, tmp_path, prometheus):
    run = journal()
    first = exporter("prometheus", store=tmp_path, run=run.info.id, out="127.0.0.1:0")
    first.begin(run)
    port = first.where.rpartition(":")[2].partition("/")[0]
    with pytest.raises(NetdynoError, match="another program has this port"):
        exporter("prometheus", store=tmp_path, run=run.info.id, out=f"127.0.0.1:{port}").begin(run)
    first.close("ended")
