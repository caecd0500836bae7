"""Trainings with one gauge or all of them aboard, and what they told."""

import contextlib
from collections import defaultdict

import torch
import torch.nn.functional as F

from netdyno.aboard.config import Config
from netdyno.aboard.observe import Observer
from netdyno.aboard.vitals import _base as vitals
from netdyno.monitor.gauges import _base as gauges
from netdyno.monitor.subject import Subject


class Told:
    """What gauges put into the journal."""

    def __init__(self):
        self.points = defaultdict(list)
        self.updates = defaultdict(list)
        self.events = []

    def point(self, name, value, *, update=None, seconds=None):
        self.points[name].append(value)
        self.updates[name].append(update)

    def event(self, kind, **told):
        self.events.append((kind, told))

    def of(self, kind):
        return [told for one, told in self.events if one == kind]


@contextlib.contextmanager
def aboard(kinds, subject=None, share=1e6):
    """Gauges at work, with so much of the time that they look at every update."""
    told = Told()
    subject = subject or Subject({})
    observer = Observer(Config(folder="", seed=None, hz=0.0, vitals=True, share=share))
    observer.fresh = []
    room = tuple(
        (f"gauge {name}", lambda seen, kind=kind: kind(seen, subject, told.point, told.event)) for name, kind in kinds
    )
    observer.watch_of = lambda seen: vitals.Watch(seen, share, room=room, listens=(share, share))
    observer.apply()
    told.observer = observer
    try:
        yield told
    finally:
        for vital in observer.vitals.vitals:
            vital.tick(1.0)
        observer.close()
    assert observer.troubles == []


def one(name):
    """A gauge by its name."""
    return tuple(pair for pair in gauges.gauges() if pair[0] == name)


def network(*, relu=True, norm=False):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16) if norm else None, torch.nn.ReLU() if relu else None]
    return torch.nn.Sequential(*[one for one in layers if one is not None], torch.nn.Linear(16, 3))


def data(seed=1, length=64):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(length, 6, generator=generator)
    return x, x[:, :3].argmax(1)


def train(model, optimizer, *, updates=12, each=None, x=None, loss_of=F.cross_entropy):
    """Plain training on one batch; `each` is called between backward and step."""
    x, y = data() if x is None else (x, x[:, :3].argmax(1))
    for _ in range(updates):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        if each is not None:
            each()
        optimizer.step()


def ridden(name, model, optimizer=None, **training):
    """What one gauge told of a plain training."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    with aboard(one(name)) as told:
        train(model, optimizer, **training)
    return told
