"""How much of the graph under a loss is of earlier updates."""

from weakref import ref

import torch

from netdyno.aboard.vitals.growth import _children, _hooks, _Mark, _objects, _walk


def graph(*, state=None):
    weight = torch.ones(3, requires_grad=True)
    out = weight * 2 if state is None else weight * state
    return out, (out.sum() ** 2)


def test_a_fresh_graph_holds_nothing_old():
    _, first = graph()
    limit = first.grad_fn._sequence_nr()
    _, second = graph()
    nodes, old, _ = _walk(second.grad_fn, limit)
    assert nodes == 4
    assert old == 0


def test_a_state_that_was_not_detached_brings_its_past_along():
    state, first = graph()
    limit = first.grad_fn._sequence_nr()
    _, second = graph(state=state)
    assert _walk(second.grad_fn, limit)[1] == 1
    _, detached = graph(state=state.detach())
    assert _walk(detached.grad_fn, limit)[1] == 0


def test_the_walk_ends_where_it_is_told_to():
    value = torch.ones(1, requires_grad=True)
    for _ in range(100):
        value = value + 1
    assert _walk(value.grad_fn, -1, most=20)[0] == 20


def test_a_mark_lives_as_long_as_any_part_that_is_held_of_the_graph():
    out, loss = graph()
    mark = _Mark()
    _walk(loss.grad_fn, -1)[2].metadata["netdyno"] = mark
    watched = ref(mark)
    del mark, loss
    assert watched() is not None  # `out` is held
    del out
    assert watched() is None


def test_hooks_of_modules_and_weights_are_counted():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert _hooks(model) == 0
    model[0].register_forward_hook(lambda *_: None)
    handle = model[0].weight.register_hook(lambda gradient: gradient)
    assert _hooks(model) == 2
    handle.remove()
    assert _hooks(model) == 1


def test_a_list_of_many_records_is_seen_through_a_subset_and_an_array_is_not():
    class Records:
        def __init__(self, records):
            self.records = records

        def __len__(self):
            return len(self.records)

        def __getitem__(self, index):
            return self.records[index]

    many = Records([{"id": n} for n in range(20_000)])
    assert _objects(torch.utils.data.Subset(many, list(range(5)))) == ("Records.records", 20_000)
    assert _objects(Records(torch.zeros(20_000))) == ("", 0)


def test_children_are_counted_without_joining_them():
    assert isinstance(_children(), list)
