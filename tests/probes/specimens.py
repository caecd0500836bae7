"""A workload with a bit of everything, to be watched."""

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from netdyno.targets.workload import Workload


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.norm, self.drop, self.out = (
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.Dropout(0.1),
            nn.Linear(144, 2),
        )

    def forward(self, images):
        hidden = self.drop(self.norm(self.into(images)).relu())
        if hidden.sum() > 1e9:  # a sync
            hidden = hidden / 2
        return self.out(hidden.flatten(1))


class Images(Dataset):
    def __init__(self, count=64):
        self.images = torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], int(self.images[index].sum() > 0)


def flipped(sample: tuple[Tensor, int]) -> tuple[Tensor, int]:
    image, label = sample
    return (image.flip(-1) if torch.rand(()) < 0.5 else image), label


def workload(**changes):
    settings = {
        "model": Model,
        "train": Images,
        "val": Images,
        "augment": flipped,
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        "batch_size": 8,
        "log": lambda _, __: None,
        "name": "specimen",
    }
    return Workload(**{**settings, **changes})
