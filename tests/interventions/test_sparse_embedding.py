"""Gradients of the rows that were touched: equal training, refused where untouched rows would move."""

import functools

import pytest
import torch
from torch import nn

from interventions.specimens import IMAGES, LOOKUP, Lookup, facts, sentences, stepped, timeline
from netdyno.interventions.sparse_embedding import SparseEmbedding
from netdyno.targets.workload import Workload

OPTIMIZERS = {
    "SGD": functools.partial(torch.optim.SGD, lr=0.1),
    "Adagrad": functools.partial(torch.optim.Adagrad, lr=0.1),
}


def large():
    return Lookup(words=2000)


def subject(optimizer, model=large):
    return Workload(name="own", model=model, train=sentences, optimizer=optimizer, batch_size=8).fresh(0)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_the_same_but_for_the_order_of_sums(name):
    one, other = subject(OPTIMIZERS[name]), subject(OPTIMIZERS[name])
    with SparseEmbedding().applied(one) as inside:
        stepped(inside, 3)
    stepped(other, 3)
    stepped(one, 2)
    stepped(other, 2)
    for learned, expected in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.allclose(learned, expected, atol=1e-5)


def test_inside_the_gradient_holds_the_touched_rows_only():
    one = subject(OPTIMIZERS["SGD"])
    with SparseEmbedding().applied(one) as inside:
        inside.callee(sentences(4)[0]).sum().backward()
        assert one.model.embedding.weight.grad.is_sparse
    assert one.model.embedding.weight.grad is None
    assert one.model.embedding.sparse is False


def test_it_refuses_optimizers_that_move_untouched_rows():
    refuses = SparseEmbedding().refuses
    assert refuses(subject(OPTIMIZERS["SGD"])) is None
    assert "`AdamW`" in refuses(subject(torch.optim.AdamW))
    assert "momentum" in refuses(subject(functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)))
    assert "weight_decay" in refuses(subject(functools.partial(torch.optim.Adagrad, weight_decay=0.1)))
    assert "fused" in refuses(subject(functools.partial(torch.optim.SGD, lr=0.1, fused=True)))


def test_it_refuses_models_without_a_large_embedding_of_its_own():
    assert SparseEmbedding().refuses(IMAGES.fresh(0)) == "the model has no embedding"
    assert "1000 rows" in SparseEmbedding().refuses(LOOKUP.fresh(0))

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(2000, 4)
            self.head = nn.Linear(4, 2000, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens):
            return self.head(self.embedding(tokens).mean(1))

    assert "to itself" in SparseEmbedding().refuses(subject(OPTIMIZERS["SGD"], Tied))


def test_it_promises_a_part_of_backward_and_update():
    assert SparseEmbedding().predicts(facts(timeline(forward=50, backward=30, optimizer=20))).high == pytest.approx(0.4)
