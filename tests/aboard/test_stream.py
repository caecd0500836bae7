"""What is written for the lab."""

import json
import math

from netdyno.aboard.stream import Stream, in_json
from netdyno.scripts.stream import read


def test_what_is_written_aboard_is_read_in_the_lab(tmp_path):
    stream = Stream(str(tmp_path))
    stream.hello("2.13")
    stream.write(
        "tick", updates=3, phases={"data": [1.0, 0.5, 0.0]}, losses=[1.0, math.nan], events={"fwd bwd step0": 3}
    )
    stream.trouble("here", ValueError("oh"))
    stream.write("stopped", reason="updates", updates=3, says="3 updates")
    told = read(tmp_path)
    process = told.training
    assert (process.pid, process.hello.torch, process.updates) == (stream.process, "2.13", 3)
    assert process.tick.phases == {"data": (1.0, 0.5, 0.0)}
    assert told.losses[0] == 1.0
    assert math.isnan(told.losses[1])
    assert told.troubles[0].says == "ValueError: oh"
    assert process.stopped.reason == "updates"


def test_json_has_no_nan_and_what_json_does_not_know_is_text():
    assert json.loads(in_json({"a": [math.inf, {"b": math.nan}], "c": 1.5})) == {"a": [None, {"b": None}], "c": 1.5}
    assert json.loads(in_json({"a": 1 + 2j})) == {"a": "(1+2j)"}


def test_a_folder_that_is_gone_is_no_trouble_of_the_scripts(tmp_path):
    Stream(str(tmp_path / "gone")).write("tick", updates=1)
