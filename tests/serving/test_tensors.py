"""Requests read and answers written: what is right arrives to the bit, what is wrong is told with what was expected."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netdyno.records.deployment import Port, Signature
from netdyno.serving.problems import Problem
from netdyno.serving.tensors import most_bytes, read_inference, read_plain, write_inference, write_plain

ONE = Signature(inputs=(Port(name="x", dtype="float32", shape=(2, 2)),), outputs=(Port(name="y", dtype="float32"),))
TWO = Signature(inputs=(Port(name="ids", dtype="int64", shape=(None,)), Port(name="mask", dtype="bool", shape=(None,))))
ROWS = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.5]]]


def sent(**changes):
    one = {"name": "x", "shape": [2, 2, 2], "datatype": "FP32", "data": ROWS, **changes}
    return json.dumps({"inputs": [{key: value for key, value in one.items() if value is not None}]}).encode()


def read(body, signature=ONE, **settings):
    return read_inference(body, signature, **{"most_rows": 4, **settings})


def refused(body, signature=ONE, **settings):
    with pytest.raises(Problem) as problem:
        read(body, signature, **settings)
    assert "\n" not in problem.value.says
    return int(problem.value.status), f"{problem.value.says}; {problem.value.hint}"


def test_nested_and_flat_data_are_the_same():
    flat = np.array(ROWS, dtype=np.float32).ravel().tolist()
    for body in (sent(), sent(data=flat)):
        (array,) = read(body).arrays
        assert array.dtype == np.float32
        assert array.tolist() == ROWS


def test_float32_comes_back_to_the_bit_through_json():
    values = np.random.default_rng(0).normal(size=(4, 2, 2)).astype(np.float32)
    (array,) = read(sent(shape=[4, 2, 2], data=values.ravel().tolist())).arrays
    assert array.tobytes() == values.tobytes()


def test_whole_numbers_are_floats_too():
    assert read(sent(shape=[1, 2, 2], data=[1, 2, 3, 4])).arrays[0].dtype == np.float32


def test_the_binary_extension_carries_arrays_behind_the_json():
    values = np.random.default_rng(0).normal(size=(2, 2, 2)).astype("<f4")
    head = sent(data=None, parameters={"binary_data_size": values.nbytes})
    (array,) = read(head + values.tobytes(), header_bytes=len(head)).arrays
    assert array.tobytes() == values.tobytes()


def test_several_inputs_are_told_apart_by_name_and_binary_ones_by_order():
    ids, mask = np.array([[5, 6, 7]], dtype="<i8"), np.array([[True, False, True]])
    head = json.dumps(
        {
            "inputs": [
                {"name": "mask", "shape": [1, 3], "datatype": "BOOL", "parameters": {"binary_data_size": 3}},
                {"name": "ids", "shape": [1, 3], "datatype": "INT64", "parameters": {"binary_data_size": 24}},
            ]
        }
    ).encode()
    arrays = read(head + mask.tobytes() + ids.tobytes(), TWO, header_bytes=len(head)).arrays
    assert [array.tolist() for array in arrays] == [[[5, 6, 7]], [[True, False, True]]]


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"name": "z"}, 422, "`z`, and the model takes `x`"),
        ({"datatype": "FP64"}, 422, "`FP64`, and the model takes `FP32`"),
        ({"shape": [2, 4]}, 422, "takes [rows, 2, 2]"),
        ({"shape": [2, 2, 3]}, 422, "takes [rows, 2, 2]"),
        ({"shape": [0, 2, 2], "data": []}, 422, "takes [rows, 2, 2]"),
        ({"shape": [-1, 2, 2]}, 422, "takes [rows, 2, 2]"),
        ({"shape": [10**18, 2, 2]}, 422, "at most 4"),
        ({"shape": [5, 2, 2], "data": [0.0] * 20}, 422, "at most 4"),
        ({"shape": [3, 2, 2]}, 422, "its shape is [3, 2, 2]"),
        ({"data": [1.0, 2.0]}, 422, "has 2 numbers"),
        ({"data": [[1.0, 2.0]] * 4}, 422, "nested 2 deep"),
        ({"data": [[[1.0, 2.0], [3.0]], ROWS[1]]}, 422, "different lengths"),
        ({"data": ["a"] * 8}, 422, "Expected `float`, got `str`"),
        ({"data": [None] * 8}, 422, "got `null`"),
        ({"data": [True] * 8}, 422, "got `bool`"),
        ({"data": [1e300] + [0.0] * 7}, 422, "not finite as FP32"),
        ({"data": 3.0}, 422, "no list of numbers"),
        ({"data": {}}, 422, "no list of numbers"),
        ({"data": None}, 400, "no `data`"),
        ({"shape": "2"}, 400, "no inference request"),
        ({"shape": [2.5, 2, 2]}, 400, "no inference request"),
        ({"parameters": {"binary_data_size": 32}}, 400, "both"),
        ({"data": None, "parameters": {"binary_data_size": -1}}, 400, "number of bytes"),
        ({"data": None, "parameters": {"binary_data_size": "9"}}, 400, "number of bytes"),
        ({"data": None, "parameters": {"binary_data_size": 32}}, 400, "0 follow"),
    ],
)
def test_what_is_wrong_is_told_with_what_was_expected(changes, status, words):
    found, says = refused(sent(**changes))
    assert found == status
    assert words in says


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"inputs": []}', b'{"inputs": [1]}', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000,
     sent().replace(b"8.5", b"NaN"), sent().replace(b"8.5", b"1e999"), sent().replace(b"8.5", b"[" * 9000), sent()[:-3],
     b'{"inputs": [' + b",".join([sent()[12:-2]] * 2) + b"]}"],
)  # fmt: skip
def test_no_body_is_more_than_refused(body):
    assert refused(body)[0] in {400, 422}


def test_bytes_that_do_not_fit_the_shape_are_refused():
    head = sent(data=None, parameters={"binary_data_size": 28})
    assert refused(head + bytes(28), header_bytes=len(head))[1].startswith("`x` has 28 bytes")
    assert refused(head + bytes(99), header_bytes=len(head))[0] == 400
    assert refused(head, header_bytes=10**6)[0] == 400
    nan = np.full(8, np.nan, dtype=np.float32).tobytes()
    whole = sent(data=None, parameters={"binary_data_size": 32})
    assert "not finite" in refused(whole + nan, header_bytes=len(whole))[1]


def test_integers_must_be_integers_that_fit():
    def ids(data, shape=(1, 2)):
        mask = {"name": "mask", "shape": [1, 2], "datatype": "BOOL", "data": [True, False]}
        one = {"name": "ids", "shape": list(shape), "datatype": "INT64", "data": data}
        return json.dumps({"inputs": [one, mask]}).encode()

    assert read(ids([1, 2]), TWO).arrays[0].dtype == np.int64
    assert "Expected `int`, got `float`" in refused(ids([1.5, 2]), TWO)[1]
    assert "INT64 cannot" in refused(ids([2**63, 2]), TWO)[1] or refused(ids([2**63, 2]), TWO)[0] == 422
    mixed = {"name": "mask", "shape": [2, 1], "datatype": "BOOL", "data": [True, False]}
    one = {"name": "ids", "shape": [1, 2], "datatype": "INT64", "data": [1, 2]}
    assert "different numbers of rows" in refused(json.dumps({"inputs": [one, mixed]}).encode(), TWO)[1]


def test_a_timeout_is_in_microseconds():
    body = json.loads(sent())
    assert read(json.dumps({**body, "parameters": {"timeout": 2500}}).encode()).timeout_s == 0.0025
    assert refused(json.dumps({**body, "parameters": {"timeout": -1}}).encode())[0] == 422
    assert refused(json.dumps({**body, "parameters": {"timeout": True}}).encode())[0] == 422


@settings(max_examples=200, deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["inputs", "name", "shape", "datatype", "data", "parameters", "x"]), inner, max_size=4),
    max_leaves=12,
))  # fmt: skip
def test_any_json_is_read_or_refused(value):
    body = json.dumps(value).encode()
    for signature in (ONE, TWO):
        for reader in (read_inference, read_plain):
            try:
                reader(body, signature, most_rows=4)
            except Problem as problem:
                assert 400 <= problem.status < 500  # noqa: PT017


def plain(body, signature=ONE):
    return read_plain(body if isinstance(body, bytes) else json.dumps(body).encode(), signature, most_rows=4).arrays


def test_the_plain_form_takes_rows_one_row_and_named_inputs():
    for body in ({"inputs": ROWS}, ROWS, {"inputs": {"x": ROWS}}):
        assert plain(body)[0].tolist() == ROWS
    assert plain({"inputs": ROWS[0]})[0].tolist() == ROWS[:1]
    ids, mask = plain({"inputs": {"mask": [[True]], "ids": [[7]]}}, TWO)
    assert (ids.tolist(), mask.tolist()) == ([[7]], [[True]])


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"inputs": 3}', b'{"inputs": {}}', b'{"inputs": {"z": [[1]]}}', b'{"inputs": "a"}',
             b'{"inputs": [[[1,2],[3]]]}', b'{"inputs": [[[1,2],[3,4]]]*5}', b'{"inputs": [[[[1]]]]}', b"[[[1,2],[3,null]]]"],
)  # fmt: skip
def test_the_plain_form_says_what_it_takes(body):
    with pytest.raises(Problem) as problem:
        plain(body)
    assert problem.value.status in {400, 422}


def test_an_answer_has_the_names_types_and_shapes_of_its_outputs():
    asked = read(json.dumps({**json.loads(sent()), "id": "7"}).encode())
    values = np.array([[0.1], [0.2]], dtype=np.float32)
    written = write_inference(asked, (values,), ONE, name="m", version="1")
    answer = json.loads(written.body)
    assert written.header_bytes is None
    assert answer["id"] == "7"
    assert (answer["model_name"], answer["model_version"]) == ("m", "1")
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("y", "FP32", [2, 1])
    assert np.array(output["data"], dtype=np.float32).tobytes() == values.tobytes()


def test_an_answer_may_be_asked_for_as_bytes():
    asked = read(json.dumps({**json.loads(sent()), "parameters": {"binary_data_output": True}}).encode())
    values = np.array([[0.1], [np.inf]], dtype=np.float32)
    written = write_inference(asked, (values,), ONE, name="m", version="1")
    head, raw = written.body[: written.header_bytes], written.body[written.header_bytes :]
    assert msgspec.json.decode(head)["outputs"][0]["parameters"] == {"binary_data_size": 8}
    assert raw == values.tobytes()


def test_only_the_outputs_that_are_wanted_are_given():
    body = json.dumps({**json.loads(sent()), "outputs": [{"name": "y"}]}).encode()
    assert b'"y"' in write_inference(read(body), (np.zeros((2, 1), np.float32),), ONE, name="m", version="1").body
    body = json.dumps({**json.loads(sent()), "outputs": [{"name": "z"}]}).encode()
    with pytest.raises(Problem, match="no output `z`"):
        write_inference(read(body), (np.zeros((2, 1), np.float32),), ONE, name="m", version="1")


def test_an_answer_that_json_cannot_hold_is_not_made_up():
    with pytest.raises(Problem, match="not finite") as problem:
        write_inference(read(sent()), (np.array([[np.nan], [1]], np.float32),), ONE, name="m", version="1")
    assert problem.value.status == 422


def test_a_plain_answer_is_nested_and_has_labels():
    written = write_plain((np.array([[0.25, 0.5], [2, 1]], np.float32),), ONE, classes=("cat", "dog"))
    assert json.loads(written.body) == {"outputs": {"y": [[0.25, 0.5], [2, 1]]}, "labels": ["dog", "cat"]}


def test_a_body_may_have_what_its_numbers_take_written_out_in_full():
    worst = json.dumps(
        {"inputs": [{"name": "x", "shape": [4, 2, 2], "datatype": "FP32", "data": [-1.2345678901234567e-300] * 16}]}
    )
    assert len(worst) < most_bytes(ONE, 4) < 100_000
    assert most_bytes(TWO, 4) >= 1 << 20
