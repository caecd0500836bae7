"""OpenVINO: precisions are what they say, layers can be kept in float, and it is run as told."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from netdyno.records.deployment import Running
from netdyno.runtimes import _base as base
from netdyno.runtimes.openvino import Openvino, _attends
from runtimes.specimens import arrays_of, decibels, expected, exportable, images, release, rows, sentences, traits_of

ov = pytest.importorskip("openvino")

multiplies_bf16 = bool({"avx512_bf16", "amx_bf16"} & set(base.processor_flags()))
# A call left to itself in bf16 leaves 45 to 60 dB; sums in another order leave 120.
TRUE_FLOAT = 100


def graph(folder, name="model.xml"):
    return ov.Core().read_model(folder / name)


def rounded(folder):
    """How many convolutions and products there are, and how many of them multiply weights that are held in 8 bits."""
    ops = [op for op in graph(folder).get_ordered_ops() if op.get_type_name() in ("Convolution", "MatMul")]
    return len(ops), sum(op.input_value(1).get_node().get_type_name() != "Constant" for op in ops)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    assert Openvino().export(exportable("Pictures"), folder) == ()
    return folder


@pytest.mark.parametrize("count", [1, 8, 16])
def test_fp32_is_fp32_for_any_number_of_rows(plain, count):
    tensors = (images(count, seed=9)[0],)
    answers = Openvino().load(plain, Running())(arrays_of(tensors))
    assert decibels(answers, expected(release("Pictures"), tensors)) > TRUE_FLOAT


def test_weights_are_kept_whole(plain):
    kinds = {str(op.get_element_type()) for op in graph(plain).get_ordered_ops() if op.get_type_name() == "Constant"}
    assert "<Type: 'float16'>" not in kinds
    assert "<Type: 'float32'>" in kinds


def test_the_file_has_the_names_and_shapes_of_the_signature(plain):
    model = graph(plain)
    assert [port.any_name for port in model.inputs] == ["input"]
    assert str(model.inputs[0].partial_shape) == "[?,3,16,16]"
    assert [port.any_name for port in model.outputs] == ["output0"]


@pytest.mark.skipif(not multiplies_bf16, reason="this processor does not multiply bf16")
def test_bf16_is_bf16(plain):
    tensors = (images(16, seed=9)[0],)
    answers = Openvino("bf16").load(plain, Running())(arrays_of(tensors))
    assert 30 < decibels(answers, expected(release("Pictures"), tensors)) < 80


def test_allowed_numbers_of_rows_are_compiled_each_and_others_padded(plain, monkeypatch):
    seen = []
    whole = ov.Core.compile_model

    def compile_model(core, model, *more):
        seen.append(str(model.inputs[0].partial_shape))
        return whole(core, model, *more)

    monkeypatch.setattr(ov.Core, "compile_model", compile_model)
    call = Openvino().load(plain, Running(batches=(1, 4)))
    assert seen == ["[1,3,16,16]", "[4,3,16,16]"]
    for count in (1, 3, 6):
        tensors = (images(count, seed=9)[0],)
        assert decibels(call(arrays_of(tensors)), expected(release("Pictures"), tensors)) > TRUE_FLOAT


def test_it_is_run_for_latency_with_the_threads_that_were_given():
    config = Openvino()._config(Running(threads=2))
    assert (config["INFERENCE_NUM_THREADS"], config["NUM_STREAMS"]) == (2, 1)
    assert (config["PERFORMANCE_HINT"], config["ENABLE_CPU_PINNING"]) == ("LATENCY", False)
    assert [Openvino(one)._config(Running())["INFERENCE_PRECISION_HINT"] for one in ("fp32", "bf16", "int8")] == [
        "f32",
        "bf16",
        "f32",
    ]


def test_callers_from_several_threads_get_their_own_answers(plain):
    call = Openvino().load(plain, Running())
    parts = [arrays_of((images(2, seed=seed)[0],)) for seed in range(8)]
    alone = [call(part)[0] for part in parts]
    with ThreadPoolExecutor(4) as pool:
        together = [answers[0] for answers in pool.map(call, parts * 4)]
    assert all(np.allclose(together[at], alone[at % 8], atol=1e-5) for at in range(32))


def test_a_number_of_rows_that_is_baked_in_is_told_and_kept(tmp_path):
    notes = Openvino().export(exportable("FixedRows", batches=(2,)), tmp_path)
    assert "baked" in notes[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model-2.bin", "model-2.xml"]
    answers = Openvino().load(tmp_path, Running())(arrays_of((rows(2),)))
    assert decibels(answers, expected(release("FixedRows"), (rows(2),))) > TRUE_FLOAT


def test_int8_rounds_what_is_not_ignored_and_says_nothing(tmp_path, capfd):
    pytest.importorskip("nncf")
    notes = Openvino("int8", ignored=("stem", "blocks.0", "nothing")).export(exportable("Pictures"), tmp_path)
    assert notes == ("no node comes from `nothing`: nothing to keep in float",)
    assert rounded(tmp_path) == (6, 3)
    assert "Statistics" not in capfd.readouterr().out
    tensors = (images(16, seed=9)[0],)
    answers = Openvino("int8").load(tmp_path, Running())(arrays_of(tensors))
    assert 15 < decibels(answers, expected(release("Pictures"), tensors)) < 80


@pytest.mark.slow
def test_with_every_module_ignored_int8_is_fp32(tmp_path):
    pytest.importorskip("nncf")
    Openvino("int8", ignored=("stem", "blocks", "head")).export(exportable("Pictures"), tmp_path)
    assert rounded(tmp_path) == (6, 0)
    tensors = (images(16, seed=9)[0],)
    answers = Openvino("int8").load(tmp_path, Running())(arrays_of(tensors))
    assert decibels(answers, expected(release("Pictures"), tensors)) > 40


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["performance", "mixed"])
def test_an_encoder_in_int8_answers_alike(preset, tmp_path):
    pytest.importorskip("nncf")
    Openvino("int8", preset).export(exportable("Sentences"), tmp_path)
    tensors = sentences(5, seed=8)
    answers = Openvino("int8").load(tmp_path, Running())(arrays_of(tensors))
    assert decibels(answers, expected(release("Sentences"), tensors)) > 20


def softmax_model(*, last):
    """A product of two factors behind a softmax, or before one that is the answer."""
    ops = ov.opset13
    x = ops.parameter([1, 4], np.float32)
    weight = ops.constant(np.eye(4, dtype=np.float32))
    found = ops.softmax(ops.matmul(x, weight, False, False), 1)
    return ov.Model([found if last else ops.matmul(found, weight, False, False)], [x])


def test_a_softmax_within_is_attention_and_one_that_is_an_answer_is_not():
    assert _attends(softmax_model(last=False))
    assert not _attends(softmax_model(last=True))


def test_its_makers_are_told_nothing(plain):
    assert sys.modules["openvino_telemetry"] is None


def test_it_refuses_what_makes_no_sense_here():
    traits = traits_of(release("Pictures"), flags=("avx2",), calibration=False)
    assert "bf16" in Openvino("bf16").refuses(traits)
    assert "calibration" in Openvino("int8").refuses(traits)
    assert Openvino().refuses(traits) is None


def test_int8_needs_the_quantiser_too(monkeypatch):
    monkeypatch.setattr(base, "_absent", lambda name: name == "nncf")
    assert Openvino().unavailable() is None
    assert "`nncf`" in Openvino("int8").unavailable()
