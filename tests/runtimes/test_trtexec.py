"""The command of each TensorRT version, what its tool prints, and what a set of shapes lacks."""

import inspect

import pytest

from netdyno.runtimes import _trtexec as trtexec
from netdyno.runtimes import tensorrt as runtime
from netdyno.runtimes._trtexec import Build, Profile, TrtexecError, checked_shapes, command, parsed, reviewed

MOVING = {"input": Profile((1, 3, 192, 192), (8, 3, 192, 192), (16, 3, 192, 192))}
FIXED = {"input": Profile((1, 3, 192, 192), (1, 3, 192, 192), (1, 3, 192, 192))}
HALF = Build(precision="fp16", profiles=MOVING, shapes={"input": (1, 3, 192, 192)})
SHAPES = "--minShapes=input:1x3x192x192 --optShapes=input:8x3x192x192 --maxShapes=input:16x3x192x192 --shapes=input:1x3x192x192"

GOLDEN = {
    (8, 2): f"trtexec --onnx=model.onnx --fp16 --workspace=2048 {SHAPES} --avgRuns=100",
    (8, 4): f"trtexec --onnx=model.onnx --fp16 --memPoolSize=workspace:2048 {SHAPES} --avgRuns=100",
    (8, 6): f"trtexec --onnx=model.onnx --fp16 --memPoolSize=workspace:2048 {SHAPES} --avgRuns=100",
    (10, 0): f"trtexec --onnx=model.onnx --fp16 --memPoolSize=workspace:2048 {SHAPES} --avgRuns=100",
    (11, 0): f"trtexec --onnx=model.onnx --memPoolSize=workspace:2048 {SHAPES} --avgRuns=100",
}


@pytest.mark.parametrize("version", GOLDEN, ids=str)
def test_the_command_is_that_of_the_version(version):
    assert " ".join(command(HALF, version)) == GOLDEN[version]


def test_int8_lets_the_rest_be_fp16_until_the_file_says_the_precision():
    build = Build(precision="int8", engine="model.plan")
    assert command(build, (10, 4))[2:4] == ("--int8", "--fp16")
    assert command(build, (11, 0)) == (
        "trtexec", "--onnx=model.onnx", "--memPoolSize=workspace:2048", "--saveEngine=model.plan", "--avgRuns=100"
    )  # fmt: skip


def test_fp32_needs_no_flag_and_several_inputs_share_one():
    build = Build(shapes={"words": (1, 12), "mask": (1, 12)}, runs=10)
    assert command(build, (10, 0))[2:] == (
        "--memPoolSize=workspace:2048",
        "--shapes=words:1x12,mask:1x12",
        "--avgRuns=10",
    )


def test_a_cuda_graph_is_recorded_for_one_shape_only():
    assert "--useCudaGraph" in command(Build(profiles=FIXED, cuda_graph=True), (10, 0))
    assert "--useCudaGraph" in command(Build(cuda_graph=True), (10, 0))
    with pytest.raises(TrtexecError, match="CUDA graph"):
        command(Build(profiles=MOVING, cuda_graph=True), (10, 0))


# Written by hand in the form of the tool's summary.
PRINTED = """&&&& RUNNING TensorRT.trtexec [TensorRT v100700] # trtexec --onnx=model.onnx --fp16
[01/02/2026-10:11:12] [I] === Model Options ===
[01/02/2026-10:11:40] [I] === Performance summary ===
[01/02/2026-10:11:40] [I] Throughput: 412.5 qps
[01/02/2026-10:11:40] [I] Latency: min = 2.25 ms, max = 6.5 ms, mean = 2.5 ms, median = 2.375 ms, percentile(90%) = 2.75 ms, percentile(95%) = 3.125 ms, percentile(99%) = 4.25 ms
[01/02/2026-10:11:40] [I] Enqueue Time: min = 0.5 ms, max = 1.5 ms, mean = 0.625 ms, median = 0.5625 ms, percentile(90%) = 0.75 ms, percentile(95%) = 0.875 ms, percentile(99%) = 1.25 ms
[01/02/2026-10:11:40] [I] H2D Latency: min = 0.125 ms, max = 0.25 ms, mean = 0.15 ms, median = 0.14 ms, percentile(90%) = 0.16 ms, percentile(95%) = 0.18 ms, percentile(99%) = 0.2 ms
[01/02/2026-10:11:40] [I] GPU Compute Time: min = 2.0 ms, max = 6.0 ms, mean = 2.25 ms, median = 2.125 ms, percentile(90%) = 2.5 ms, percentile(95%) = 2.875 ms, percentile(99%) = 4.0 ms
[01/02/2026-10:11:40] [W] * GPU compute time is unstable, with coefficient of variance = 8.5%.
&&&& PASSED TensorRT.trtexec [TensorRT v100700] # trtexec --onnx=model.onnx --fp16
"""
FAILED = """&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=gone.onnx
[01/02/2026-10:11:12] [E] Could not open file gone.onnx
[01/02/2026-10:11:12] [E] Engine set up failed
&&&& FAILED TensorRT.trtexec [TensorRT v8601] # trtexec --onnx=gone.onnx
"""


def test_its_summary_is_read_in_seconds():
    timing = parsed(PRINTED)
    assert timing.rate == 412.5
    assert timing.latency["median"] == pytest.approx(2.375e-3)
    assert timing.latency["p99"] == pytest.approx(4.25e-3)
    assert timing.compute["p99"] == pytest.approx(4.0e-3)
    assert timing.version == (10, 7)
    assert timing.warnings == ("GPU compute time is unstable, with coefficient of variance = 8.5%.",)


def test_a_failure_says_its_first_reason():
    with pytest.raises(TrtexecError) as caught:
        parsed(FAILED)
    assert caught.value.because == "Could not open file gone.onnx"


def test_a_build_without_timing_is_no_timing():
    with pytest.raises(TrtexecError, match="cannot read"):
        parsed(PRINTED.replace("Latency", "Delay"))


@pytest.mark.parametrize(
    ("text", "version"), [("v8601", (8, 6)), ("v8205", (8, 2)), ("v100200", (10, 2)), ("v110401", (11, 4))]
)
def test_the_version_is_read_from_its_first_line(text, version):
    assert trtexec._version(f"&&&& RUNNING TensorRT.trtexec [TensorRT {text}] # trtexec") == version


OPEN = {"input": (None, 3, 192, 192)}


def check(profiles, served=None, inputs=OPEN):
    return checked_shapes(inputs, profiles, {"input": served} if served else {})[-1]


def test_an_open_length_without_a_profile_is_an_error():
    found = check({})
    assert found.ok is False
    assert not found.warning
    assert "no profile" in found.says


def test_tuned_for_eight_and_served_one_is_a_warning():
    found = check(MOVING, served=(1, 3, 192, 192))
    assert found.ok is False
    assert found.warning
    assert "tuned for 8x3x192x192 and served with 1x3x192x192" in found.says
    assert check(MOVING, served=(8, 3, 192, 192)).ok


@pytest.mark.parametrize(
    ("profile", "served", "says"),
    [
        (Profile((1, 3, 192, 192), (8, 3, 192, 192), (4, 3, 192, 192)), None, "do not ascend"),
        (Profile((1, 1, 192, 192), (8, 3, 192, 192), (16, 3, 192, 192)), None, "least shape 1x1x192x192 does not fit"),
        (Profile((1, 3), (8, 3), (16, 3)), None, "does not fit"),
        (MOVING["input"], (32, 3, 192, 192), "outside the profile"),
    ],
)
def test_a_profile_that_cannot_be_is_an_error(profile, served, says):
    found = check({"input": profile}, served)
    assert found.ok is False
    assert not found.warning
    assert says in found.says


def test_one_shape_needs_no_profile_and_a_profile_needs_its_input():
    assert check({}, inputs={"input": (1, 3, 192, 192)}).ok
    assert "no such input" in check({"image": MOVING["input"]}, inputs={"input": (1, 3, 192, 192)}).says


def test_a_device_that_a_version_has_given_up_is_refused():
    assert "7.5 and up, this device has 7.0" in trtexec.refused((10, 7), 70)
    assert trtexec.refused((10, 3), 70) is None
    assert trtexec.refused((11, 0), 90) is None
    assert trtexec.refused((8, 6), 61) is None  # not known here, so not refused


def test_an_engine_is_for_one_version_and_one_kind_of_device():
    assert trtexec.elsewhere(((10, 7), 90), ((10, 7), 90)) is None
    assert "TensorRT 10.7, and here is 11.0" in trtexec.elsewhere(((10, 7), 90), ((11, 0), 90))
    assert "8.6, and this device has 9.0" in trtexec.elsewhere(((10, 7), 86), ((10, 7), 90))


GOOD = """
context = engine.create_execution_context()
stream = torch.cuda.Stream()
context.execute_async_v3(stream.cuda_stream)
stream.synchronize()
"""


def test_our_own_code_asks_the_execution_context_on_its_own_stream_and_waits():
    assert reviewed(GOOD) == ()
    assert reviewed(inspect.getsource(runtime)) == ()


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("context.execute", "engine.execute", "line 4: `execute_async_v3` is not called on what"),
        ("torch.cuda.Stream()", "None", "no stream of its own"),
        ("stream.synchronize()", "", "does not wait"),
        ("context.execute_async_v3(stream.cuda_stream)", "", "nothing runs"),
    ],
)
def test_code_that_does_otherwise_is_found(before, after, says):
    (found,) = reviewed(GOOD.replace(before, after))
    assert says in found
