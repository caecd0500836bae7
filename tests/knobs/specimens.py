"""Small workloads for the tests of knobs, and the way to train that a search would start from."""

import torch
from torch import nn

from netdyno.knobs._base import Setup
from netdyno.targets.subject import target_of
from netdyno.targets.workload import Workload


def setup_for(workload, **changes):
    """What a search would start from, without the search."""

    def loss(output, batch):
        if workload.loss is not None:
            return workload.loss(output, target_of(batch))
        target = target_of(batch)
        kind = nn.functional.mse_loss if target.is_floating_point() else nn.functional.cross_entropy
        return kind(output, target)

    first = {
        "workload": workload,
        "model": workload.model,
        "optimizer": lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        "loss": loss,
        "forward": workload.forward or (lambda model, batch: model(*batch[:-1])),
        "batch_size": workload.batch_size,
        "updates": 400,
    }
    return Setup(**(first | changes))


def images(count=96, classes=3, side=12, channels=2, seed=0, shares=None):
    """Images whose class shows as a bright bar."""
    chance = torch.Generator().manual_seed(seed)
    if shares is None:
        labels = torch.arange(count) % classes
    else:
        labels = torch.repeat_interleave(torch.arange(len(shares)), torch.tensor(shares))
    pixels = 0.3 * torch.randn(len(labels), channels, side, side, generator=chance)
    for image, label in zip(pixels, labels, strict=True):
        image[:, 3 * int(label) : 3 * int(label) + 2] += 1
    return pixels, labels


def validation():
    """Other images of the same kinds."""
    return images(48, seed=5)


def small_net(channels=2, classes=3):
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(3),
        nn.Flatten(),
        nn.Linear(72, classes),
    )


def pictured(**changes):
    """A workload of images."""
    first = {"name": "bars", "model": small_net, "train": images, "val": validation, "batch_size": 16}
    return Workload(**(first | changes))


def rows():
    chance = torch.Generator().manual_seed(1)
    inputs = torch.randn(64, 6, generator=chance)
    return inputs, inputs.sum(1, keepdim=True)


def numbered(**changes):
    """A regression on rows of a table."""
    return Workload(**({"name": "sums", "model": lambda: nn.Linear(6, 1), "train": rows, "batch_size": 16} | changes))


def steps(setup, *, updates=5, seed=0):
    """The losses of a few updates of training as a setup says, and the model."""
    torch.manual_seed(seed)
    model = setup.model().train()
    optimizer = setup.optimizer(model)
    inputs, targets = setup.workload.datasets()[0].tensors
    losses = []
    for update in range(updates):
        at = torch.arange(update * setup.batch_size, (update + 1) * setup.batch_size) % len(inputs)
        batch = (inputs[at], targets[at])
        for transform in setup.mix:
            batch = transform(batch)
        optimizer.zero_grad()
        loss = setup.loss(setup.forward(model, batch), batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model
