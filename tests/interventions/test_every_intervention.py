"""The promises that every change of this room keeps: it says what it is, and it can be taken back to the byte."""

import dataclasses
import inspect
import json
import os
import random
import re
import sys
import typing
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from interventions.specimens import EVERYTHING, SPECIMENS, WORDS, WORKED, bytes_of, one_thread, stepped, trained
from netdyno.interventions._base import broken, catalogue, read, written
from netdyno.records.diagnosis import LAYERS
from netdyno.records.trial import Change, Form, Numerics, Prediction
from netdyno.targets.workload import seed_everything

HEADINGS = ("Helps:", "Costs:", "Parity:", "Undo:")
# What is dear to try (compiling takes tens of seconds) is stepped in tests marked slow.
DEAR_S = 5.0


def module_of(kind):
    return sys.modules[kind.__module__]


KINDS = sorted(catalogue().items())
EXAMPLES = [example for _, kind in KINDS for example in module_of(kind).EXAMPLES]


def label(thing):
    return thing.name if hasattr(thing, "name") else written(thing).label


def fitting():
    """Every example with every specimen that it does not refuse; loader workers only meet what touches data."""
    for example in EXAMPLES:
        for workload in SPECIMENS:
            far_from_data = workload is WORKED and example.layers[0] != "data"
            if not far_from_data and example.refuses(workload.fresh(0)) is None:
                yield example, workload


def dear(pair):
    marks = [pytest.mark.slow] if getattr(pair[0], "seconds_to_try", 0.0) > DEAR_S else []
    return pytest.param(*pair, marks=marks, id="-".join(map(label, pair)))


with one_thread():
    FITTING = list(fitting())
stepping = pytest.mark.parametrize(("intervention", "workload"), [dear(pair) for pair in FITTING])
promising_the_same_bits = pytest.mark.parametrize(
    ("intervention", "workload"), [dear(pair) for pair in FITTING if pair[0].numerics == "same-bits"]
)
applying = pytest.mark.parametrize(
    ("intervention", "workload"), [pytest.param(*pair, id="-".join(map(label, pair))) for pair in FITTING]
)
every_kind = pytest.mark.parametrize(("name", "kind"), KINDS, ids=[name for name, _ in KINDS])
every_example = pytest.mark.parametrize("intervention", EXAMPLES, ids=label)


# What a subject and the world around it look like. Two such looks are compared by name, so that a failure says
# what was forgotten.


def place_of(tensor):
    return {
        "object": id(tensor),
        "class": type(tensor).__name__,
        "address": tensor.data_ptr(),
        "offset": tensor.storage_offset(),
        "strides": tensor.stride(),
        "shape": tuple(tensor.shape),
        "dtype": tensor.dtype,
        "device": tensor.device,
        "wants a gradient": tensor.requires_grad,
        "hooks": len(tensor._backward_hooks or ()),
    }


def places(subject):
    """Where everything is and what it is, whatever its values."""
    seen = {}
    for name, tensor in [*subject.model.named_parameters(), *subject.model.named_buffers()]:
        seen |= {f"{name}: {key}": value for key, value in place_of(tensor).items()}
    for name, module in subject.model.named_modules():
        seen[f"{name}: module"] = (id(module), type(module), module.training)
        seen[f"{name}: attributes"] = sorted(module.__dict__)
        seen[f"{name}: forward"] = id(module.__dict__.get("forward"))
        seen[f"{name}: hooks"] = [
            len(getattr(module, key)) for key in sorted(module.__dict__) if key.endswith("_hooks")
        ]
    optimizer = subject.optimizer
    seen["optimizer"] = (id(optimizer), type(optimizer), id(optimizer.state), sorted(optimizer.__dict__))
    seen["optimizer: hooks"] = [len(getattr(optimizer, key)) for key in optimizer.__dict__ if key.endswith("_hooks")]
    for number, group in enumerate(optimizer.param_groups):
        seen[f"group {number}"] = {key: value for key, value in group.items() if key != "params"}
        seen[f"group {number}: parameters"] = [id(parameter) for parameter in group["params"]]
    names = {parameter: name for name, parameter in subject.model.named_parameters()}
    owned = {parameter: names.get(parameter, "a parameter that the model lost") for parameter in optimizer.state}
    seen["state: order"] = list(owned.values())
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            seen[f"state of {owned[parameter]}: {key}"] = (
                (value.dtype, tuple(value.shape), value.stride(), value.device)
                if isinstance(value, torch.Tensor)
                else type(value)
            )
    return seen


def values(subject):
    """The bytes of everything."""
    seen = {f"{name}: bytes": content for name, content in bytes_of(subject.model).items()}
    for name, parameter in subject.model.named_parameters():
        gradient = parameter.grad
        seen[f"{name}: gradient"] = None if gradient is None else gradient.numpy().tobytes()
    for position, state in enumerate(subject.optimizer.state.values()):
        for key, value in state.items():
            seen[f"state {position}: {key} bytes"] = (
                value.numpy().tobytes() if isinstance(value, torch.Tensor) else value
            )
    return seen


def randomness():
    name, keys, *rest = np.random.get_state()  # noqa: NPY002  user code draws from the global state
    return {
        "random of PyTorch": torch.get_rng_state().numpy().tobytes(),
        "random of NumPy": (name, keys.tobytes(), *rest),
        "random of Python": random.getstate(),
    }


# PyTorch itself notes there, at the first compilation of a process, where its compiled code and a function of it lie.
OWN = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR")


def switches():
    """Everything global that a change could throw."""
    return {
        "threads": torch.get_num_threads(),
        "default dtype": torch.get_default_dtype(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": (
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
        ),
        "deterministic": (torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic),
        "cudnn": (torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32),
        "oneDNN": torch.backends.mkldnn.enabled,
        "anomaly": torch.is_anomaly_enabled(),
        "environment": {name: value for name, value in os.environ.items() if name not in OWN},
    }


def changed(before, after):
    """The names under which two looks differ."""
    return sorted(
        name for name in before.keys() | after.keys() if before.get(name, "absent") != after.get(name, "absent")
    )


def forgotten_when_idle(intervention, subject):
    """What differs after the block when no step was taken inside."""
    before = {**places(subject), **values(subject), **randomness(), **switches()}
    with intervention.applied(subject):
        pass
    return changed(before, {**places(subject), **values(subject), **randomness(), **switches()})


class Planned(Exception):
    """Raised by a test inside a step."""


def forgotten_when_a_step_raises(intervention, subject):
    """What differs, values apart, after a block in which some steps were taken and the last one raised."""
    before = {**places(subject), **switches()}
    # The user's code raises in the middle of a step, with everything that surrounds it in place.
    losses = []

    def failing(output, batch):
        if len(losses) == 2:
            raise Planned
        losses.append(1)
        return subject.loss(output, batch)

    try:
        with intervention.applied(subject) as other:
            stepped(replace(other, loss=failing), 3)
    except Planned:
        pass
    else:
        raise AssertionError("the step was meant to raise")
    return changed(before, {**places(subject), **switches()})


def test_no_plug_in_of_the_room_is_broken():
    assert broken() == ()


@every_kind
def test_the_docstring_answers_the_four_questions_in_order(name, kind):
    said = inspect.getdoc(module_of(kind)) or ""
    found = [heading for line in said.splitlines() for heading in HEADINGS if line.startswith(heading)]
    assert tuple(found) == HEADINGS
    assert said.splitlines()[0].endswith(".")


@every_kind
def test_the_file_name_is_the_id(name, kind):
    assert module_of(kind).__name__.rpartition(".")[2] == name.replace("-", "_")
    assert all(written(example).id == name for example in module_of(kind).EXAMPLES)


@every_kind
def test_it_says_what_it_is(name, kind):
    assert kind.layers
    assert set(kind.layers) <= set(LAYERS)
    assert kind.numerics in typing.get_args(Numerics)
    assert kind.form in typing.get_args(Form)
    assert 0 <= kind.stage <= 50
    assert kind.effort > 0
    assert isinstance(kind.memory_only, bool)
    assert all(getattr(example, "seconds_to_try", 0.0) >= 0 for example in module_of(kind).EXAMPLES)


@every_example
def test_the_environment_it_asks_for_is_made_of_words(intervention):
    asked = getattr(intervention, "environment", {})
    assert all(isinstance(word, str) for pair in asked.items() for word in pair)


@every_kind
def test_it_is_frozen_and_has_examples(name, kind):
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert module_of(kind).EXAMPLES


@every_example
def test_it_survives_being_written_as_json_and_read(intervention):
    change = written(intervention)
    settings = json.loads(json.dumps(change.settings, allow_nan=False))
    assert read(Change(id=change.id, settings=settings)) == intervention


@every_example
def test_the_edit_is_something_to_type(intervention):
    lines = intervention.code().splitlines()
    assert lines
    assert all(line.strip() for line in lines)


@every_example
@pytest.mark.parametrize("workload", SPECIMENS, ids=label)
def test_it_refuses_in_words_or_not_at_all_and_leaves_no_trace(intervention, workload):
    subject = trained(workload)
    before = {**places(subject), **values(subject), **randomness(), **switches()}
    reason = intervention.refuses(subject)
    assert reason is None or re.fullmatch(r"\S.+[^.\s]", reason)
    assert changed(before, {**places(subject), **values(subject), **randomness(), **switches()}) == []


@every_example
@pytest.mark.parametrize("facts", [{}, EVERYTHING], ids=["no evidence", "all evidence"])
def test_it_predicts_a_share_of_a_step_or_nothing(intervention, facts):
    prediction = intervention.predicts(facts)
    assert prediction is None or isinstance(prediction, Prediction)
    if prediction is not None:
        assert prediction.low <= prediction.high <= 1
        assert prediction.why


@applying
@pytest.mark.parametrize("facts", [{}, EVERYTHING], ids=["no evidence", "all evidence"])
def test_the_settings_it_offers_are_of_its_kind_and_differ(intervention, workload, facts):
    subject = workload.fresh(0)
    offered = intervention.settings(subject, facts)
    assert all(type(setting) is type(intervention) for setting in offered)
    assert len(set(offered)) == len(offered)


@applying
def test_without_a_step_everything_is_as_it_was_to_the_byte(intervention, workload):
    assert forgotten_when_idle(intervention, trained(workload)) == []


@stepping
def test_everything_is_back_in_its_place_when_a_step_raises(intervention, workload):
    assert forgotten_when_a_step_raises(intervention, trained(workload)) == []


@applying
def test_afterwards_a_step_is_that_of_a_subject_that_never_met_it(intervention, workload):
    subject, other = trained(workload), trained(workload)
    with intervention.applied(subject):
        pass
    assert stepped(subject, 2) == stepped(other, 2)


@stepping
def test_what_is_learned_inside_stays_learned(intervention, workload):
    subject = trained(workload)
    before = bytes_of(subject.model)
    with intervention.applied(subject) as other:
        stepped(other, 2)
        seed_everything(0)
    assert bytes_of(subject.model) != before
    stepped(subject, 1)  # and goes on from there, without the change


@promising_the_same_bits
def test_what_promises_the_same_bits_gives_them(intervention, workload):
    subject, other = trained(workload), trained(workload)
    with intervention.applied(subject) as under_change:
        inside = stepped(under_change, 3, model=subject.model)
    outside = stepped(other, 3)
    assert inside.losses == outside.losses
    assert bytes_of(subject.model) == outside.weights
    assert stepped(subject, 2) == stepped(other, 2)


# A contract that nothing can break proves nothing: here is one that forgets, in every way that the tests look for.


@dataclass(frozen=True)
class Forgetful:
    """Does one thing and does not take it back."""

    what: str

    @contextmanager
    def applied(self, subject):
        getattr(self, self.what)(subject)
        yield subject

    def weight(self, subject):
        subject.model.head.weight.data = subject.model.head.weight.data.clone()

    def layout(self, subject):
        weight = subject.model.head.weight
        weight.data = weight.data.t().contiguous().t()

    def value(self, subject):
        subject.model.head.bias.data.add_(1e-7)

    def mode(self, subject):
        subject.model.blocks[0].eval()

    def frozen(self, subject):
        subject.model.head.bias.requires_grad_(False)

    def hook(self, subject):
        subject.model.blocks[1].register_forward_hook(lambda *_: None)

    def tensor_hook(self, subject):
        subject.model.head.bias.register_hook(lambda gradient: gradient)

    def forward(self, subject):
        subject.model.head.forward = subject.model.head.forward

    def replaced(self, subject):
        subject.model.head = torch.nn.Linear(16, 3)

    def rate(self, subject):
        subject.optimizer.param_groups[0]["lr"] *= 2

    def momentum(self, subject):
        subject.optimizer.state.clear()

    def state(self, subject):
        state = next(iter(subject.optimizer.state.values()))
        state["momentum_buffer"] = state["momentum_buffer"].double()

    def threads(self, subject):
        torch.set_num_threads(torch.get_num_threads() + 1)

    def dtype(self, subject):
        torch.set_default_dtype(torch.float64)

    def precision(self, subject):
        torch.set_float32_matmul_precision("medium")

    def draw(self, subject):
        torch.rand(1)

    def other_draw(self, subject):
        random.random()

    def variable(self, subject):
        os.environ["OMP_WAIT_POLICY"] = "passive"


@pytest.fixture
def world():
    """Puts back what a forgetful change leaves behind."""
    threads, dtype, precision = torch.get_num_threads(), torch.get_default_dtype(), torch.get_float32_matmul_precision()
    kept = dict(os.environ)
    yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)
    torch.set_float32_matmul_precision(precision)
    os.environ.clear()
    os.environ.update(kept)


FORGOTTEN = {
    "weight": "head.weight: address",
    "layout": "head.weight: strides",
    "value": "head.bias: bytes",
    "mode": "blocks.0: module",
    "frozen": "head.bias: wants a gradient",
    "hook": "blocks.1: hooks",
    "tensor_hook": "head.bias: hooks",
    "forward": "head: forward",
    "replaced": "head.weight: object",
    "rate": "group 0",
    "momentum": "state: order",
    "state": "state of embedding.weight: momentum_buffer",
    "threads": "threads",
    "dtype": "default dtype",
    "precision": "matmul precision",
    "draw": "random of PyTorch",
    "other_draw": "random of Python",
    "variable": "environment",
}


@pytest.mark.parametrize(("what", "name"), FORGOTTEN.items(), ids=FORGOTTEN)
def test_what_is_forgotten_is_found_and_named(what, name, world):
    assert name in forgotten_when_idle(Forgetful(what), trained(WORDS))


@pytest.mark.parametrize("what", ["mode", "hook", "rate", "threads", "precision", "weight"])
def test_what_is_forgotten_is_found_when_a_step_raised(what, world):
    assert FORGOTTEN[what] in forgotten_when_a_step_raises(Forgetful(what), trained(WORDS))


def test_a_change_that_forgets_only_when_a_step_raises_is_found():
    @dataclass(frozen=True)
    class Careless:
        @contextmanager
        def applied(self, subject):
            subject.model.eval()
            yield subject
            subject.model.train()

    assert forgotten_when_idle(Careless(), trained(WORDS)) == []
    assert "head: module" in forgotten_when_a_step_raises(Careless(), trained(WORDS))


def test_a_change_whose_inside_differs_in_the_last_bit_is_found():
    subject, other = trained(WORDS), trained(WORDS)
    with Forgetful("value").applied(subject) as inside:
        assert stepped(inside, 2) != stepped(other, 2)
