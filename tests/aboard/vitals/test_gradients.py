"""What gradients and weights do is read as it is, and nothing of the script changes."""

from contextlib import contextmanager

import torch
import torch.nn.functional as F

from netdyno.aboard.config import Config
from netdyno.aboard.observe import install


@contextmanager
def looking():
    observer = install(Config(folder="", hz=0, warmup=0, vitals=True))
    try:
        yield observer
    finally:
        observer.vitals.over()
        observer.told = observer.vitals.summary()["evidence"]
        observer.close()
    assert [each for each in observer.troubles if "gradients" in each[0] or "losscurve" in each[0]] == []


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def data():
    torch.manual_seed(0)
    return torch.randn(16, 6), torch.randint(0, 3, (16,))


def train(model, optimizer, updates=8, between=lambda: None):
    inputs, labels = data()
    for _ in range(updates):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        between()
        optimizer.step()


def seen(observer):
    return observer.told["Gradients"]


def test_it_tells_what_each_weight_did():
    with looking() as observer:
        model = Net()
        train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    names = {weight["name"]: weight for weight in seen(observer)["weights"]}
    assert list(names) == ["first.weight", "first.bias", "last.weight", "last.bias"]
    assert all(0 < weight["ratio"] < 1 and weight["gradient"] > 0 for weight in names.values())
    assert names["first.weight"]["row_spread_first"] > 0.5
    assert seen(observer)["steppers"][0]["divided"] == 1.0


def test_the_script_trains_to_the_same_last_bit():
    def ride(*, aboard):
        torch.manual_seed(1)
        model = Net()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        if aboard:
            with looking():
                train(model, optimizer)
        else:
            train(model, optimizer)
        return [parameter.detach().clone() for parameter in model.parameters()], torch.get_rng_state()

    (alone, state), (together, other) = ride(aboard=False), ride(aboard=True)
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
    assert torch.equal(state, other)


def test_gradients_that_are_cleared_before_the_step_are_counted():
    with looking() as observer:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, optimizer, between=optimizer.zero_grad)
    assert seen(observer)["steppers"][0]["cleared"] >= 2


def test_an_optimizer_of_another_model_is_strange():
    with looking() as observer:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(Net(), optimizer)
    stepper = seen(observer)["steppers"][0]
    assert (stepper["strange"], stepper["strange_graded"]) == (4, 0)
    assert seen(observer)["homeless_count"] == 4


def test_layers_in_a_plain_list_are_hidden():
    class Listed(Net):
        def __init__(self):
            super().__init__()
            self.blocks = [torch.nn.Linear(8, 8)]

        def forward(self, x):
            return self.last(self.blocks[0](torch.relu(self.first(x))))

    with looking() as observer:
        model = Listed()
        train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert [(each["name"], each["graded"]) for each in seen(observer)["hidden"]] == [
        ("blocks[0].weight", True),
        ("blocks[0].bias", True),
    ]


def test_weights_that_forward_draws_anew_are_rewritten_and_clipped_ones_are_not():
    class Redrawn(Net):
        def forward(self, x):
            with torch.no_grad():
                self.first.weight.normal_()
            return super().forward(x)

    def rewritten(model, between=lambda: None):
        with looking() as observer:
            train(model, torch.optim.SGD(model.parameters(), lr=0.1), between=between)
        return seen(observer)["weights"][0]["rewritten"]

    clipped = Net()
    assert rewritten(Redrawn()) >= 2
    assert rewritten(clipped, lambda: clipped.first.weight.data.clamp_(-0.3, 0.3)) == 0


def test_a_freeze_that_freezes_nothing_is_told():
    with looking() as observer:
        model = Net()
        model.first.requires_grad = False
        train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert seen(observer)["misspelt"] == ["first.requires_grad"]
