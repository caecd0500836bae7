"""Keep what is random apart from what is the same every time, and more can be won.

`train` opens and decodes: the result may be kept in memory. `augment` is random and runs on each sample, and
`batch_augment` does the same to a whole batch at once, which is often many times faster.

Run it, or put it on the dyno:  netdyno tune examples/02_random_transforms.py:Scans
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset

from netdyno import Tolerance, Workload
from netdyno.measure.step import Stepper
from netdyno.measure.stopwatch import stopwatch_for


class Enlarged(Dataset):
    """Scanned digits, made twice as large when they are read."""

    def __init__(self):
        scans = load_digits()
        self.images, self.labels = torch.tensor(scans.images, dtype=torch.float32) / 16, scans.target.tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index].repeat_interleave(2, 0).repeat_interleave(2, 1)[None], self.labels[index]


def augment(sample):
    image, label = sample
    return image * (0.7 + 0.6 * torch.rand(())) + 0.1 * torch.randn(image.shape), label


def batch_augment(batch):
    images, labels = batch
    light = 0.7 + 0.6 * torch.rand(len(images), 1, 1, 1, device=images.device)
    return images * light + 0.1 * torch.randn_like(images), labels


Scans = Workload(
    model=lambda: nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 10),
    ),
    train=Enlarged,
    augment=augment,
    batch_augment=batch_augment,
    batch_size=64,
    # Only changes that keep every bit, or draw the same distribution differently: no lower precision.
    allowed=Tolerance(numerics=("same-bits", "other-randomness")),
)

if __name__ == "__main__":
    subject = Scans.fresh(seed=0)
    stepper = Stepper(subject, stopwatch_for(subject.device))
    turn = stepper.take(40)
    stepper.close()
    print(f"{turn.per_step * 1e3:.2f} ms per step, without waiting for a core; of this:")
    for name, split in sorted(turn.phases.items(), key=lambda phase: -phase[1].own):
        print(f"  {name:10} {split.own / turn.time.own:4.0%}")
