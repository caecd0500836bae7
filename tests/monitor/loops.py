"""Small training loops under a watch, healthy and sick ones, for the tests of tripwires."""

import copy
from typing import Any, NamedTuple

import torch

import netdyno


class Ran(NamedTuple):
    """What a loop left behind."""

    watch: Any
    model: Any
    optimizer: Any
    trips: dict[str, Any]
    losses: list[float]
    before: dict[str, Any]  # weights as they stood before the last step that was begun


def net(width=16, *, norm=False, dropout=0.0):
    """Two layers, with what is asked for between them."""
    between = [torch.nn.BatchNorm1d(width)] if norm else []
    return torch.nn.Sequential(
        torch.nn.Linear(6, width), *between, torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(width, 3)
    )


def data(rows=64, *, batch=16, workers=0, seed=1):
    """Something that can be learnt, in batches."""
    made = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 6, generator=made)
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, x[:, :3].argmax(1)), batch_size=batch, shuffle=True, num_workers=workers
    )


def train(store, *, updates=40, model=None, make=None, step=None, before=None, loader=None, seed=0, **settings):
    """A plain loop. `before(update, model, optimizer, batch)` may plant something and gives the batch."""
    torch.manual_seed(seed)
    model = net() if model is None else model
    optimizer = make(model) if make else torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = data() if loader is None else loader
    losses, weights, at = [], {}, 0
    with netdyno.watch(model, optimizer, store=store, quiet=True, **settings) as watch:
        while at < updates:
            for fetched in loader:
                batch = before(at, model, optimizer, fetched) if before else fetched
                weights = copy.deepcopy(model.state_dict())
                losses.append((step or plain_step)(model, optimizer, batch))
                at += 1
                if at >= updates:
                    break
    trips = {cause: alert for cause, alert in watch.alerts.told.items() if alert.severity == "trip"}
    assert watch.observer.troubles == []
    return Ran(watch, model, optimizer, trips, losses, weights)


def plain_step(model, optimizer, batch):
    """Forward, loss, backward, step."""
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()


def finite(state):
    """Whether every number of a state is one."""
    return all(bool(torch.isfinite(one).all()) for one in state.values() if one.is_floating_point())
