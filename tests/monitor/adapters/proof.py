"""What each adapter is held to, whatever the framework: `train(callbacks=...)` is a few steps of it, run twice."""

import torch

from netdyno.store.journal import Run, runs

BATCH = 16


def data(rows=96):
    """Rows that a line parts, the same each time."""
    torch.manual_seed(5)
    x = torch.randn(rows, 6)
    return x, x[:, :3].argmax(1)


def network():
    """Something with a dropout, so that a generator that was touched shows."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(12, 3))


def same(one, other) -> bool:
    """Two models have the same weights, to the last bit."""
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def journal(store) -> Run:
    """The only run of a store."""
    (run,) = runs(store)
    return run


def losses(store) -> int:
    """How many losses the journal holds, each at an update of its own."""
    series = journal(store).series("loss")
    assert series.updates.tolist() == list(range(1, len(series.updates) + 1))
    return len(series.updates)
