"""Small scripts as they look from aboard: a view after some updates, and one more update on order."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from netdyno.aboard.knobs._base import watch
from netdyno.aboard.view import View


class Decoded(Dataset):
    """Samples that are computed anew at each reading, always the same."""

    def __init__(self, count=12, noise=False):
        self.count = count
        self.noise = noise
        self.reads = 0

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.reads += 1
        sample = torch.full((3, 6, 6), float(index)).sin()
        return sample + torch.rand(3, 6, 6) if self.noise else sample, index % 4


class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.zeros(8)] * 4)


class Specimen:
    """A script of one model, optimizer and loader, whose forwards honour the view as the observer's do."""

    def __init__(self, model, optimizer=torch.optim.Adam, dataset=None, loader=None, zeros=False, **settings):
        torch.manual_seed(0)
        self.model = model()
        self.view = View()
        self.zeros = zeros
        self.optimizer = optimizer(self.model.parameters(), lr=0.01, **settings)
        self.loader = loader if loader is not None else DataLoader(dataset, batch_size=4, shuffle=True)
        self.view.models.append(self.model)
        self.view.optimizers.append(self.optimizer)
        self.view.loaders.append(self.loader)
        watch(self.view)
        self.batches = iter(self.loader)

    def update(self, count=1):
        losses = []
        for _ in range(count):
            inputs, target = self._batch()
            self.optimizer.zero_grad(**({"set_to_none": False} if self.zeros else {}))
            loss = self._forward(inputs, target)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    def evaluate(self):
        with torch.no_grad():
            args, kwargs = (next(iter(self.loader))[0],), {}
            for change in self.view.inputs:
                args, kwargs = change(args, kwargs)
            self.model(*args)

    def _batch(self):
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            return next(self.batches)

    def _forward(self, inputs, target):
        args, kwargs = (inputs,), {}
        for change in self.view.inputs:
            args, kwargs = change(args, kwargs)
        entered = [enter() for enter in self.view.around_forward]
        for context in entered:
            context.__enter__()
        try:
            called = self.view.calls.get(id(self.model), self.model)
            return nn.functional.cross_entropy(called(*args, **kwargs).float(), target)
        finally:
            for context in reversed(entered):
                context.__exit__(None, None, None)


def images():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4))


def rows():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))


def table(count=16):
    drawn = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(count, 8, generator=drawn), torch.randint(4, (count,), generator=drawn))


def plain():
    return Specimen(rows, dataset=table())


def convolutions():
    return Specimen(images, dataset=Decoded())


def zeroing():
    return Specimen(rows, torch.optim.SGD, dataset=table(), momentum=0.9, zeros=True)


def evaluating():
    specimen = plain()
    specimen.evaluate()
    return specimen


def decaying():
    specimen = plain()
    with torch.no_grad():
        specimen.model[0].weight.fill_(1e-40)
    return specimen


SPECIMENS = {each.__name__: each for each in (plain, convolutions, zeroing, evaluating, decaying)}
