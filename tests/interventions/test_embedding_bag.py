"""Lookup and reduction in one go: found by looking at the graph, equal but for rounding, refused when vectors are used."""

import pytest
import torch
from torch import nn

from interventions.specimens import IMAGES, LOOKUP, WORDS, facts, sentences, stepped, timeline
from netdyno.interventions.embedding_bag import EmbeddingBag, look
from netdyno.records.evidence import Op, OpTable
from netdyno.targets.workload import Workload

TOKENS = sentences(8)[0]


class Reduced(nn.Module):
    """Looks up and reduces in the way that it is given."""

    def __init__(self, reduce, **settings):
        super().__init__()
        self.embedding = nn.Embedding(50, 6, **settings)
        self.reduce = reduce
        self.head = nn.Linear(6, 3)

    def forward(self, tokens):
        return self.head(self.reduce(self.embedding(tokens)))


class Mean(nn.Module):
    """A reduction that is a module, as it stands in a Sequential."""

    def forward(self, x):
        return x.mean(dim=1)


class Switched(Reduced):
    """Reduces to a mean in training and to a maximum in evaluation."""

    def forward(self, tokens):
        vectors = self.embedding(tokens)
        return self.head(vectors.mean(1) if self.training else vectors.amax(1))


class Masked(Reduced):
    """Takes an optional mask."""

    def forward(self, tokens, mask=None):
        vectors = self.embedding(tokens)
        if mask is not None:
            vectors = vectors * mask
        return self.head(vectors.mean(1))


class Drawing(Reduced):
    """Draws a number in Python at each call."""

    def forward(self, tokens):
        import random

        return self.head(self.embedding(tokens).mean(1)) * random.random()


def subject(model):
    return Workload(name="own", model=model, train=sentences, batch_size=8).fresh(0)


def bags(output):
    """How many bags stand in the graph behind an output."""
    seen, waiting = set(), [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return sum("EmbeddingBag" in type(node).__name__ for node in seen)


FITTING = {
    "mean": lambda: Reduced(lambda x: x.mean(1)),
    "sum": lambda: Reduced(lambda x: x.sum(dim=1)),
    "torch.mean": lambda: Reduced(lambda x: torch.mean(x, -2)),
    "a list of one dimension": lambda: Reduced(lambda x: torch.sum(x, dim=[1])),
    "modules in a row": lambda: nn.Sequential(nn.Embedding(50, 6), Mean(), nn.Linear(6, 3)),
    "by mode": lambda: Switched(None),
    "with a mask that is left out": lambda: Masked(None),
}
VECTORS_USED = {
    "also used elsewhere": lambda: Reduced(lambda x: x.mean(1) + x[:, 0]),
    "another dimension": lambda: nn.Sequential(nn.Embedding(50, 12), nn.Flatten(), nn.Linear(144, 3)),
    "kept dimension": lambda: Reduced(lambda x: x.mean(1, keepdim=True)[:, 0]),
    "both dimensions": lambda: Reduced(lambda x: x.mean((1, 2)).unsqueeze(1).expand(-1, 6)),
    "padding": lambda: Reduced(lambda x: x.mean(1), padding_idx=0),
    "clipped norm": lambda: Reduced(lambda x: x.mean(1), max_norm=1.0),
}


@pytest.mark.parametrize("name", FITTING)
def test_what_fits_becomes_a_bag_with_the_same_answers(name):
    one = subject(FITTING[name])
    assert EmbeddingBag().refuses(one) is None
    plain = one.model(TOKENS)
    with EmbeddingBag().applied(one) as inside:
        changed = inside.callee(TOKENS)
        assert bags(changed) == 1
    assert torch.allclose(plain, changed, atol=1e-6)
    assert bags(one.model(TOKENS)) == 0


@pytest.mark.parametrize("name", VECTORS_USED)
def test_where_single_vectors_are_used_or_special_it_is_refused(name):
    assert "vectors of single tokens" in EmbeddingBag().refuses(subject(VECTORS_USED[name]))


def test_other_models_are_refused_in_words():
    assert EmbeddingBag().refuses(IMAGES.fresh(0)) == "the model has no embedding"
    assert "vectors of single tokens" in EmbeddingBag().refuses(WORDS.fresh(0))
    assert "draws numbers in Python" in EmbeddingBag().refuses(subject(lambda: Drawing(None)))


def test_a_hook_on_the_embedding_wants_the_single_vectors():
    one = LOOKUP.fresh(0)
    one.model.embedding.register_forward_hook(lambda *_: None)
    assert EmbeddingBag().refuses(one) is not None


def test_evaluation_goes_its_own_way_where_the_mode_decides():
    one = subject(FITTING["by mode"])
    one.model.eval()
    plain = one.model(TOKENS)
    one.model.train()
    with EmbeddingBag().applied(one) as inside:
        inside.model.eval()
        changed = inside.callee(TOKENS)
        inside.model.train()
    assert torch.equal(plain, changed)


def test_an_argument_that_has_a_default_goes_the_original_way():
    one = subject(FITTING["with a mask that is left out"])
    mask = torch.zeros(8, 12, 1)
    with EmbeddingBag().applied(one) as inside:
        assert torch.equal(inside.callee(TOKENS, mask), inside.callee(TOKENS, mask=mask))
        assert bags(inside.callee(TOKENS, mask)) == 0


def test_tokens_in_three_dimensions_are_reduced_as_before():
    one = subject(FITTING["mean"])
    tokens = TOKENS.reshape(2, 4, 12)
    plain = one.model(tokens)
    with EmbeddingBag().applied(one) as inside:
        assert torch.equal(plain, inside.callee(tokens))


def test_looking_leaves_no_trace_in_a_forward_that_counts_its_calls():
    class Counting(Reduced):
        def forward(self, tokens):
            self.calls = getattr(self, "calls", 0) + 1
            return super().forward(tokens)

    one = subject(lambda: Counting(lambda x: x.mean(1)))
    look(one.model)
    assert not hasattr(one.model, "calls")


def test_training_goes_on_from_what_was_learned_inside():
    one, other = LOOKUP.fresh(0), LOOKUP.fresh(0)
    with EmbeddingBag().applied(one) as inside:
        stepped(inside, 3)
    stepped(other, 3)
    for learned, expected in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.allclose(learned, expected, atol=1e-5)


def test_the_prediction_is_a_part_of_what_lookups_take():
    spent = timeline(data=50, forward=20, backward=30)
    ops = OpTable(
        ops=(Op(name="aten::embedding", calls=1.0, seconds=0.02), Op(name="aten::mm", calls=1.0, seconds=0.08)),
        dispatches=2.0,
        operator_s=0.1,
        python_s=0.0,
    )
    assert EmbeddingBag().predicts(facts(spent, ops)).high == pytest.approx(0.6 * 0.5 * 0.2)
    without = OpTable(ops=(Op(name="aten::mm", calls=1.0, seconds=0.1),), dispatches=1.0, operator_s=0.1, python_s=0.0)
    assert EmbeddingBag().predicts(facts(spent, without)) is None
