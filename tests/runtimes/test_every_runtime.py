"""The promises that every runtime keeps: what it exports loads in a fresh process, answers the same, and refuses what it cannot answer."""

import dataclasses
import inspect
import sys

import msgspec
import numpy as np
import pytest

from netdyno.errors import ArmError
from netdyno.records.deployment import Running
from netdyno.records.trial import Change
from netdyno.runtimes import _base as base
from runtimes.specimens import (
    LEAST_DB,
    arrays_of,
    decibels,
    expected,
    exported,
    images,
    loaded,
    printed,
    release,
    sentences,
    signature_of,
    traits_of,
)

HEADINGS = ("Needs:", "Helps:", "Seen:", "Parity:")
LEVELS = ("built in", "needs a package", "needs a toolchain", "needs hardware")
# Two processes that import torch take ten seconds on a busy core; what costs more to export is tested with `make slow`.
QUICK_S = 6.0

KINDS = sorted(base.catalogue().items())


def module_of(kind):
    return sys.modules[kind.__module__]


def examples(kind):
    return module_of(kind).EXAMPLES


def label(runtime):
    return base.written(runtime).label


def parameters(pairs):
    """One case per runtime; the dear ones, and all but the first example of each, are slow."""
    for runtime, first in pairs:
        quick = first and runtime.price <= QUICK_S
        yield pytest.param(runtime, id=label(runtime), marks=() if quick else (pytest.mark.slow,))


EXAMPLES = [(runtime, at == 0) for _, kind in KINDS for at, runtime in enumerate(examples(kind))]
every_kind = pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in KINDS])
every_example = pytest.mark.parametrize("runtime", [runtime for runtime, _ in EXAMPLES], ids=label)


def test_every_file_of_the_room_is_a_runtime():
    assert not base.broken()
    assert "eager" in base.catalogue()


def test_looking_at_runtimes_imports_no_torch():
    source = (
        "import sys; from netdyno.runtimes import _base as base\n"
        "for kind in base.catalogue().values(): kind().unavailable()\n"
        "print('torch' in sys.modules)"
    )
    assert printed(source).split()[-1] == "False"


@every_kind
def test_it_explains_itself(kind):
    lines = inspect.getdoc(module_of(kind)).splitlines()
    assert lines[0].endswith(".")
    told = {line.split(":")[0] + ":": line.partition(":")[2].strip() for line in lines if not line.startswith(" ")}
    assert all(told.get(heading) for heading in HEADINGS), told.keys()


@every_kind
def test_it_says_how_it_is_supported(kind):
    assert kind.level in LEVELS
    assert kind.price > 0
    assert isinstance(kind.legacy, bool)
    assert isinstance(kind.imports_torch, bool)
    assert ("legacy" in inspect.getdoc(module_of(kind))) == kind.legacy


@every_kind
def test_it_is_a_frozen_value_of_scalars_and_names(kind):
    runtime = kind()
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        runtime.precision = "fp32"
    assert kind() == runtime
    assert hash(kind()) == hash(runtime)


@every_example
def test_its_settings_can_be_written_and_read(runtime):
    again = msgspec.json.decode(msgspec.json.encode(base.written(runtime)), type=Change)
    assert base.read(again) == runtime


@every_kind
def test_it_says_what_to_install(kind, monkeypatch):
    if not kind.needs:
        pytest.skip("needs no package but torch")
    monkeypatch.setattr(base, "_absent", lambda name: True)
    for runtime in examples(kind):
        says = runtime.unavailable()
        assert says is not None
        assert "pip install" in says
        assert all(f"`{name}`" in says for name in kind.needs)


@every_kind
@pytest.mark.parametrize("name", ["Pictures", "Sentences"])
def test_its_variants_are_of_its_kind_and_start_with_the_cheapest(kind, name):
    variants = kind.variants(traits_of(release(name)))
    assert variants
    assert all(type(variant) is kind for variant in variants)
    assert len(set(variants)) == len(variants)
    # Quantising looks at data, so it is never cheaper than not to.
    quantised = [variant.precision == "int8" for variant in variants]
    assert quantised == sorted(quantised)


@every_kind
def test_it_refuses_in_words_or_not_at_all(kind):
    for name in ("Pictures", "Sentences"):
        traits = traits_of(release(name))
        for variant in (*kind.variants(traits), *examples(kind)):
            says = variant.refuses(traits)
            assert says is None or len(says.split()) > 3


@every_kind
def test_bf16_is_refused_where_the_processor_does_not_multiply_it(kind):
    traits = traits_of(release("Pictures"), flags=("avx2",))
    for variant in {*kind.variants(traits_of(release("Pictures"))), *examples(kind)}:
        if variant.precision == "bf16":
            assert variant.refuses(traits) is not None


def runnable(runtime):
    lacks = runtime.unavailable()
    if lacks is not None:
        pytest.skip(f"{base.written(runtime).id}: {lacks}")
    traits = traits_of(release("Pictures"))
    if runtime.precision in ("bf16", "fp16") and runtime.refuses(traits):
        pytest.skip(runtime.refuses(traits))


@pytest.fixture(scope="module", params=parameters(EXAMPLES))
def held(request, tmp_path_factory):
    """An artefact that was exported in one process, and another process that has loaded it."""
    runtime = request.param
    runnable(runtime)
    folder = tmp_path_factory.mktemp("artifact")
    built = exported(runtime, "Pictures", folder)
    with loaded(runtime, "Pictures", folder) as process:
        yield runtime, built, process


def test_what_it_exports_loads_elsewhere_and_answers_the_same(held):
    runtime, built, process = held
    assert built.bytes > 0
    assert built.seconds > 0
    tensors = (images(24, seed=4)[0],)
    answers = process.run(arrays_of(tensors))
    assert all(answer.dtype == np.float32 for answer in answers)
    assert decibels(answers, expected(release("Pictures"), tensors)) > LEAST_DB[runtime.precision]


@pytest.mark.parametrize("count", [1, 3, 8])
def test_it_answers_any_number_of_rows(held, count):
    runtime, _, process = held
    tensors = (images(count, seed=6)[0],)
    answers = process.run(arrays_of(tensors))
    assert decibels(answers, expected(release("Pictures"), tensors)) > LEAST_DB[runtime.precision]


def test_an_answer_is_kept_when_the_next_is_asked_for(held):
    _, _, process = held
    source = images(2, seed=7)[0]
    before = process.run(arrays_of((source[:1],)))
    kept = [answer.copy() for answer in before]
    process.run(arrays_of((source[1:],)))
    again = process.run(arrays_of((source[:1],)))
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(before, kept, strict=True))
    assert all(np.allclose(mine, theirs, atol=1e-6) for mine, theirs in zip(again, kept, strict=True))


def test_rows_in_another_order_of_memory_get_the_same_answers(held):
    runtime, _, process = held
    plain = images(4, seed=4)[0].numpy()
    last = np.ascontiguousarray(plain.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert not last.flags.c_contiguous
    assert decibels(process.run((last,)), process.run((plain,))) > LEAST_DB[runtime.precision]


WRONG = {
    "another size": np.zeros((1, 3, 17, 16), np.float32),
    "another number of channels": np.zeros((1, 4, 16, 16), np.float32),
    "a dimension less": np.zeros((3, 16, 16), np.float32),
    "another type": np.zeros((1, 3, 16, 16), np.float64),
    "whole numbers": np.zeros((1, 3, 16, 16), np.int64),
    "no rows": np.zeros((0, 3, 16, 16), np.float32),
}


@pytest.mark.parametrize("array", WRONG.values(), ids=WRONG)
def test_it_refuses_rows_of_another_form(held, array):
    _, _, process = held
    with pytest.raises(ArmError, match="ValueError"):
        process.run((array,))


def test_it_can_be_timed_and_weighed(held):
    _, _, process = held
    assert process.load_s > 0
    assert process.hold(arrays_of((images(8)[0],))) > 0
    assert len(process.burst(2, 0.0, least=3, most=3).seconds) == 3
    assert process.memory() > 0


FIRSTS = [(runtime, True) for runtime, first in EXAMPLES if first]


@pytest.mark.slow
@pytest.mark.parametrize("runtime", [pytest.param(runtime, id=label(runtime)) for runtime, _ in FIRSTS])
def test_two_inputs_and_two_outputs_keep_their_order(runtime, tmp_path):
    runnable(runtime)
    exported(runtime, "Sentences", tmp_path)
    tensors = sentences(5, seed=8)
    with loaded(runtime, "Sentences", tmp_path) as process:
        answers = process.run(arrays_of(tensors))
    assert [answer.shape for answer in answers] == [(5, 5), (5, 12, 32)]
    assert decibels(answers, expected(release("Sentences"), tensors)) > LEAST_DB[runtime.precision]


@pytest.mark.slow
@pytest.mark.parametrize("runtime", [pytest.param(runtime, id=label(runtime)) for runtime, _ in FIRSTS])
def test_fixed_numbers_of_rows_answer_others_by_padding(runtime, tmp_path):
    runnable(runtime)
    exported(runtime, "Pictures", tmp_path, batches=(1, 4), dynamic=False)
    with loaded(runtime, "Pictures", tmp_path, running=Running(batches=(1, 4))) as process:
        for count in (1, 3, 4, 6):
            tensors = (images(count, seed=6)[0],)
            answers = process.run(arrays_of(tensors))
            assert decibels(answers, expected(release("Pictures"), tensors)) > LEAST_DB[runtime.precision]


LOADING = """
import pathlib, sys
import msgspec, numpy as np
from netdyno.records.deployment import Running
from netdyno.records.trial import Change
from netdyno.runtimes import _base as base
change = msgspec.json.decode(sys.argv[1], type=Change)
call = base.read(change).load(pathlib.Path(sys.argv[2]), Running())
call((np.zeros((1, 3, 16, 16), np.float32),))
print("torch" in sys.modules)
"""


@pytest.mark.parametrize(
    "runtime", list(parameters([pair for pair in EXAMPLES if not pair[0].imports_torch])) or [None]
)
def test_loading_it_imports_no_torch_where_it_says_so(runtime, tmp_path):
    if runtime is None:
        pytest.skip("every runtime of the catalogue imports torch")
    runnable(runtime)
    exported(runtime, "Pictures", tmp_path)
    change = msgspec.json.encode(base.written(runtime)).decode()
    assert printed(LOADING, change, str(tmp_path)).split()[-1] == "False"


def test_the_specimens_have_the_signature_that_the_tests_say():
    assert [port.name for port in signature_of(release("Sentences")).inputs] == ["words", "mask"]
    assert signature_of(release("Pictures")).inputs[0].shape == (3, 16, 16)
