"""Operations as PyTorch carries them out, each with the user's line."""

import torch
from torch import nn
from torch.nn import functional as F

from netdyno.gates import _operations as operations


class Drawing(nn.Module):
    def forward(self, x):
        x = x * 2
        return F.dropout(x, 0.5)  # the line that is to be named


def drawn(model, *inputs):
    found = {}

    def look(func, args, _):
        if operations.is_random(func, args):
            found[operations.name_of(func)] = operations.place()

    operations.watched(model, inputs, look)
    return found


def line_of(text):
    with open(__file__) as file:
        return 1 + next(at for at, line in enumerate(file) if text in line)


def test_a_random_operation_is_named_with_the_line_that_calls_it():
    (place,) = drawn(Drawing().eval(), torch.ones(2, 3)).values()
    assert place == f"test_operations.py:{line_of('the line that is to be named')}"


def test_a_module_of_pytorch_alone_has_no_line_of_the_users():
    assert set(drawn(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), torch.ones(2, 3)).values()) == {""}


def test_attention_that_drops_nothing_draws_nothing():
    class Attending(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x)

    assert not drawn(Attending(), torch.ones(1, 2, 4, 8))


def test_an_operation_is_called_as_it_is_written():
    seen = []
    operations.watched(nn.Softmax(1), (torch.ones(2, 3),), lambda func, _, __: seen.append(operations.name_of(func)))
    assert seen == ["softmax"]
