"""One update is counted operator by operator, and nothing of the training changes by it."""

import copy
import os
import sys
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from aboard import specimens
from netdyno.aboard import census as counting_room
from netdyno.aboard.census import WHEN, unsafe
from netdyno.aboard.config import Config
from netdyno.aboard.counting import CALLS, handing_on_ns
from netdyno.aboard.observe import install


@contextmanager
def watched(**settings):
    observer = install(Config(**({"folder": "", "hz": 0, "warmup": 2} | settings)))
    try:
        yield observer
    finally:
        observer.close()
    assert observer.troubles == []
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def census(observer):
    return observer.summary()["facts"]["census"]


class Everything(torch.nn.Module):
    """Dropout, batch norm, attention, a recurrent layer, an embedding, a change in place."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm, self.dropout = torch.nn.BatchNorm2d(8), torch.nn.Dropout(0.3)
        self.projection, self.head = torch.nn.Linear(8, 24), torch.nn.Linear(8, 3)
        self.recurrent, self.positions = torch.nn.LSTM(8, 8, batch_first=True), torch.nn.Embedding(10, 8)

    def forward(self, images):
        rows = self.dropout(F.relu(self.norm(self.convolution(images)), inplace=True)).flatten(2).transpose(1, 2)
        rows = rows + self.positions(torch.arange(rows.shape[1]) % 10)
        heads = (part.reshape(len(images), -1, 2, 4).transpose(1, 2) for part in self.projection(rows).chunk(3, -1))
        rows = F.scaled_dot_product_attention(*heads, dropout_p=0.1).transpose(1, 2).reshape(rows.shape)
        return self.head(self.recurrent(rows)[0].mean(1))


def train(updates=WHEN + 6, micro_batches=2, settings=(("lr", 0.01),)):
    """Losses, weights, gradients' addresses and the random state that a small training ends with."""
    torch.manual_seed(0)
    model = Everything()
    optimizer = torch.optim.AdamW(model.parameters(), **dict(settings))
    losses, addresses = [], []
    for _ in range(updates):
        optimizer.zero_grad()
        for _ in range(micro_batches):
            loss = F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 3, (4,)), label_smoothing=0.1)
            loss.backward()
            addresses.append(len({id(weight.grad) for weight in model.parameters()}))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, addresses, copy.deepcopy(model.state_dict()), torch.get_rng_state()


@pytest.mark.parametrize(
    "settings", [(("lr", 0.01),), (("lr", 0.01), ("foreach", True)), (("lr", 0.01), ("fused", True))]
)
def test_training_goes_on_as_if_nobody_had_counted(settings):
    losses, addresses, weights, chance = train(settings=settings)
    with watched() as observer:
        again = train(settings=settings)
    assert census(observer)["counted"]["dispatches"] > 100
    assert again[0] == losses
    assert again[1] == addresses
    assert torch.equal(again[3], chance)
    assert all(torch.equal(weight, again[2][name]) for name, weight in weights.items())


def test_gradients_stay_the_tensors_that_they_were():
    model, kept = torch.nn.Linear(4, 4), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched() as observer:
        for _ in range(WHEN + 6):
            optimizer.zero_grad(set_to_none=False)
            model(torch.ones(2, 4)).sum().backward()
            kept.append(model.weight.grad)
            optimizer.step()
    assert census(observer)["counted"] is not None
    assert all(gradient is kept[0] for gradient in kept)


def test_operations_of_attention_and_of_recurrent_layers_are_counted_too():
    with watched() as observer:
        train(micro_batches=1)
    counted = census(observer)["counted"]
    convolution, projection, head = 2 * 4 * 64 * 27 * 8, 2 * 4 * 64 * 8 * 24, 2 * 4 * 8 * 3
    attention, recurrent = 2 * 4 * 2 * 64 * 64 * 8, 2 * 4 * 64 * (32 * 8 + 32 * 8)
    assert counted["forward_flops"] == convolution + projection + head + attention + recurrent
    assert 2 * counted["forward_flops"] < counted["flops"] < 3.5 * counted["forward_flops"]
    assert counted["dtype"] == "float32"
    assert counted["uncounted"] == 0


def test_operators_are_told_per_update_with_their_calls_and_own_time():
    with watched() as observer:
        specimens.plain(epochs=3)
    counted = census(observer)["counted"]
    calls = {name: number for name, number, _ in counted["ops"]}
    assert calls["aten::addmm"] == 2
    assert counted["operator_s"] == pytest.approx(sum(seconds for _, _, seconds in counted["ops"]))
    assert counted["foreign_s"] == 0
    assert counted["outside_s"] > 0


def test_memory_is_told_by_what_it_is_for():
    with watched() as observer:
        train()
    memory = census(observer)["counted"]["memory"]
    weights = sum(weight.numel() * 4 for weight in Everything().parameters())
    assert memory["parameters"] == memory["gradients"] == weights
    assert 2 * weights < memory["optimizer_state"] < 2.1 * weights
    # The convolution's output alone; all that is kept of a forward pass is no hundred times that.
    assert 4 * 8 * 64 * 4 < memory["activations"] < 100 * 4 * 8 * 64 * 4
    assert 0 < memory["peak"] < memory["available"]


def test_the_update_that_is_counted_is_in_no_phase():
    with watched() as observer:
        seen = []
        before = observer.census.at_boundary

        def note():
            seen.append((observer.account.wall, observer.census._before is not None, len(observer.update_ns)))

        observer.boundary.append(note)
        assert before in observer.boundary
        specimens.plain(epochs=3)
    assert census(observer)["dropped"] == 1
    counted = [number for number, (_, on, _) in enumerate(seen) if on]
    assert counted == [WHEN + 1]
    began, ended = seen[counted[0]], seen[counted[0] + 1]
    assert ended[2] == began[2]
    assert sum(sum(parts) for parts in observer.account.phases().values()) == observer.account.wall


def test_evaluations_during_the_counted_update_keep_their_time():
    observer = install(Config(folder="", hz=0, warmup=2))
    try:
        model, one = torch.nn.Linear(4, 4), torch.ones(2, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for number in range(WHEN + 6):
            optimizer.zero_grad()
            if number == WHEN + 2:
                with torch.no_grad():
                    model.eval()(one)
                model.train()
            model(one).sum().backward()
            optimizer.step()
        assert observer.account.phases()["evaluation"][0] > 0
        # That update was unlike the others: another one is tried.
        assert census(observer)["why"] == "no update that was counted was like the others"
        assert census(observer)["counted"] is None
    finally:
        observer.close()


def test_all_updates_of_a_period_are_counted():
    with watched() as observer:
        specimens.gan(updates=24)
    told = census(observer)
    assert (told["dropped"], told["why"]) == (2, None)
    # Two forwards of the critic by itself and one of the generator, then one of each: per update of the two.
    calls = {name: number for name, number, _ in told["counted"]["ops"]}
    assert calls["aten::addmm"] == 2.5


def test_a_ride_that_is_over_during_the_count_leaves_nothing_behind():
    with watched() as observer:
        specimens.plain(epochs=2)  # sixteen updates
        assert observer.updates == 16
        observer.census._next = 0
        observer.census.found, observer.census._tries = None, 0
        observer.boundary.append(observer.census.at_boundary)
        wall = observer.account.wall
        observer.census._enter()
    assert observer.census.why == "the ride was over before the update that was counted"
    assert observer.account.wall >= wall


def test_in_a_session_with_a_recipe_or_without_watching_nobody_counts():
    for settings in ({"line": "/nowhere"}, {"recipe": ({"id": "threads", "settings": {}},)}, {"watch": False}):
        observer = install(Config(folder="", hz=0, **settings))
        try:
            assert observer.census.at_boundary not in observer.boundary
        finally:
            observer.close()


class Nothing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_who_listens_already_is_left_alone():
    with watched() as observer, Nothing():
        specimens.plain(epochs=4)
    assert census(observer)["why"] == "somebody else listens at the dispatcher"
    assert census(observer)["dropped"] == 0


def test_a_mode_that_the_script_enters_meanwhile_is_never_taken_off_instead_of_ours():
    with watched() as observer:
        entered = []

        def enter():
            if observer.updates == WHEN + 3 - 1 and not entered:
                entered.append(Nothing())
                entered[0].__enter__()
            elif observer.updates == WHEN + 6:
                assert torch.utils._python_dispatch._get_current_dispatch_mode() is entered[0]
                entered[0].__exit__(None, None, None)

        specimens.plain(epochs=3, after=enter)
        assert entered


def test_a_loaders_worker_that_is_forked_meanwhile_does_not_count():
    told, end = os.pipe()
    with watched() as observer:

        def fork():
            if observer.census._before is not None and not os.fork():
                observer.forked()
                ours = torch.utils._python_dispatch._get_current_dispatch_mode()
                os.write(end, b"free" if ours is None else b"counting")
                os._exit(0)

        specimens.plain(epochs=3, after=fork)
    os.wait()
    assert os.read(told, 20) == b"free"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"WORLD_SIZE": "2"}, "several processes train together"),
        ({}, None),
    ],
)
def test_several_processes_are_not_counted(monkeypatch, change, says):
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    assert unsafe([torch.nn.Linear(2, 2)], []) == says


def test_what_is_compiled_sparse_or_no_plain_tensor_is_not_counted():
    compiled = torch.nn.Linear(2, 2)
    compiled._compiled_call_impl = lambda: None
    assert unsafe([compiled], []) == "a model is compiled"
    sparse = torch.nn.Embedding(4, 2, sparse=True)
    sparse(torch.tensor([1])).sum().backward()
    assert unsafe([sparse], []) == "a tensor of it is sparse"
    assert "device `meta`" in unsafe([torch.nn.Linear(2, 2, device="meta")], [])
    assert unsafe([torch.jit.script(torch.nn.Linear(2, 2))], []) == "a model is scripted"


def test_a_transform_of_functions_is_not_counted():
    seen = []
    torch.func.grad(lambda x: seen.append(unsafe([], [])) or x.sum())(torch.ones(2))
    assert seen == ["it trains inside a transform of torch.func"]


def test_counting_does_not_import_the_compiler():
    code = (
        "import sys, torch; from netdyno.aboard.census import unsafe; from netdyno.aboard.counting import counting\n"
        "from netdyno.aboard.observe import Observer; from netdyno.aboard.config import Config\n"
        "mode = counting(Observer(Config(folder='')))\n"
        "with mode: torch.ones(2)\n"
        "assert 'torch._dynamo' not in sys.modules"
    )
    import subprocess

    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_a_call_takes_longer_for_being_handed_on_is_told_by_undisturbed_calls():
    # Clock readings of each call: begin, between, end. The plain one takes 100, the one handed on 700; one is disturbed.
    readings = iter([time for at in range(CALLS) for time in (at, at + 100, at + 800 + (9000 if at == 3 else 0))])
    assert handing_on_ns(lambda: next(readings)) == 600


def test_the_period_that_may_be_counted_is_shorter_than_the_ride():
    assert counting_room.LONGEST < WHEN
