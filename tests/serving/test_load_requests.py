"""What is sent, to whom, and which answers are right."""

import json

import numpy as np
import pytest

from netdyno.errors import NetdynoError
from netdyno.serving import load_requests as sending
from netdyno.serving.load_requests import where
from netdyno.serving.offered import Where
from serving.service import ROWS, Service


@pytest.fixture(scope="module")
def service():
    pytest.importorskip("httptools", reason="the extra `ship` is not installed")
    running = Service()
    yield running
    running.close()


def test_only_this_machine_is_loaded_unless_it_is_said():
    assert where("http://127.0.0.1:8000/x?y=1").path == "/x?y=1"
    assert where("http://localhost:8000").port == 8000
    with pytest.raises(NetdynoError, match="is not loaded") as error:
        where("http://192.0.2.7:8000")
    assert "--anywhere" in error.value.hint
    assert where("http://192.0.2.7", anywhere=True) == Where("192.0.2.7", 80, "/", address="192.0.2.7")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:80", "http://", "http://127.0.0.1:99999"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(NetdynoError, match="cannot load"):
        where(url)


def test_rows_are_made_from_metadata_and_the_first_answers_are_what_is_right(service):
    place = where(service.url)
    assert sending.model_of(place, None) == "sums"
    requests = sending.of_metadata(place, "sums", rows=3)
    head, _, body = requests[0].wire.partition(b"\r\n\r\n")
    asked = json.loads(body)["inputs"][0]
    assert head.startswith(b"POST /v2/models/sums/infer HTTP/1.1")
    assert asked["shape"] == [3, ROWS]
    assert len({request.wire for request in requests}) > 1
    sums = np.asarray(asked["data"]).reshape(3, ROWS).sum(1)
    assert requests[0].right(output(sums.tolist()))
    assert requests[0].right(output((sums * (1 + 1e-6)).tolist()))
    assert not requests[0].right(output((sums + 0.5).tolist()))
    assert not requests[0].right(output(sums.tolist()[:2]))
    assert not requests[0].right(b"")
    assert not requests[0].right(b'{"error": "no"}')


def output(data):
    fields = {"name": "y", "shape": [len(data), 1], "datatype": "FP32", "data": data}
    return json.dumps({"outputs": [fields]}).encode()


def test_a_model_that_is_not_there_is_said_with_the_answer(service):
    with pytest.raises(NetdynoError, match="does not say") as error:
        sending.of_metadata(where(service.url), "other")
    assert "404: no such model" in error.value.because


def test_the_model_is_found_in_the_address():
    assert sending.model_of(where("http://127.0.0.1:1/v2/models/cats/infer"), None) == "cats"
    assert sending.model_of(where("http://127.0.0.1:1"), "dogs") == "dogs"


def test_an_input_that_leaves_it_open_what_to_send_is_refused():
    with pytest.raises(NetdynoError, match="`text`"):
        sending._random({"name": "text", "datatype": "BYTES", "shape": [-1, 1]}, 1, np.random.default_rng(0))
    with pytest.raises(NetdynoError, match="`x`"):
        sending._random({"name": "x", "datatype": "FP32", "shape": [-1, -1]}, 1, np.random.default_rng(0))


def test_files_are_sent_as_they_are_and_compared_with_what_is_expected(service, tmp_path):
    body, expected = tmp_path / "body.json", tmp_path / "answer.json"
    body.write_text('{"text": "hello"}')
    expected.write_text('{"label": "a", "scores": [0.25, 0.75]}')
    (request,) = sending.of_files(where(service.url), [body], expected=expected)
    assert request.wire.endswith(b'\r\n\r\n{"text": "hello"}')
    assert b"Content-Type: application/json" in request.wire
    assert request.right(b'{"label": "a", "scores": [0.2501, 0.75], "took": 3}')
    assert not request.right(b'{"label": "b", "scores": [0.25, 0.75]}')
    assert not request.right(b'{"label": "a", "scores": [0.3, 0.7]}')
    assert not request.right(b"oops")


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(NetdynoError, match="cannot read"):
        sending.of_files(where("http://127.0.0.1:1"), [tmp_path / "none.json"])


def test_a_refused_request_is_said_before_any_load(service):
    place = where(service.url + "/v2/none")
    with pytest.raises(NetdynoError, match="refuses the request"):
        sending.answered(place, sending.of_files(place, []) or [sending.Request(sending.wire(place))])
