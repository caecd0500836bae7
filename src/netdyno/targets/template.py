"""The work.py that `netdyno init` writes: it runs as it is, and its comments say what to replace."""


def template() -> str:
    """The text of a commented work.py with a small example inside."""
    return _TEXT


_TEXT = '''"""A workload for netdyno: what is trained, on what, and what may differ.

It runs as it is:   netdyno tune work.py:Shapes
A first look:       netdyno baseline work.py:Shapes     (begins by naming what is wrong with the data or the model)

Put your own model and data in the places marked 1 to 4. Only `model` and `train` are needed; the rest have
defaults, which are given beside each line.
"""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset

from netdyno import Tolerance, Workload

# 1. The model ------------------------------------------------------------------------------------------------
# A function without arguments that gives a new one. netdyno seeds the generators before each call, so that
# two copies are equal; load no trained weights here, unless your own training starts from them.


def model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 2),
    )


# 2. The data -------------------------------------------------------------------------------------------------
# A Dataset of (inputs…, target) samples, or a tuple of tensors with one row per sample. Whatever is the same every
# time a sample is read (opening, decoding, resizing) belongs here; what is random belongs in `augment`, so that
# netdyno can try keeping decoded samples in memory.


class Drawings(Dataset):
    """Squares and discs on a dark ground, 24 x 24, always the same. Yours would read files."""

    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        chance = torch.Generator().manual_seed(self.seed * 1_000_000 + index)
        right, down = (torch.rand(2, generator=chance) * 8 + 8).tolist()
        y, x = torch.meshgrid(torch.arange(24.0), torch.arange(24.0), indexing="ij")
        label = index % 2
        far = (x - right).hypot(y - down) if label else torch.maximum((x - right).abs(), (y - down).abs())
        return (far < 6).float()[None], label


def train():
    return Drawings(512, seed=0)


def val():  # without it, the last tenth of `train` is held out
    return Drawings(128, seed=1)


# A random transform of one sample, if your training has one. The second function is the same transform for a whole
# batch of tensors at once; leave it out if there is none, and netdyno will not try it.


def augment(sample):
    image, label = sample
    if torch.rand(()) < 0.5:
        image = image.flip(-1)
    return image + 0.2 * torch.randn(image.shape), label


def batch_augment(batch):
    images, labels = batch
    flip = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
    return torch.where(flip, images.flip(-1), images) + 0.2 * torch.randn_like(images), labels


# 3. How it is trained ----------------------------------------------------------------------------------------


def loss(output, target):  # default: cross-entropy for whole-number targets, mean squared error for others
    return F.cross_entropy(output, target)


def metric(output, target):  # higher is better; default: accuracy for whole-number targets
    return (output.argmax(1) == target).float().mean().item()


def optimizer(parameters):  # default: AdamW with lr=1e-3
    return torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.01)


# 4. Everything together --------------------------------------------------------------------------------------

Shapes = Workload(
    model=model,
    train=train,
    val=val,
    loss=loss,
    metric=metric,
    optimizer=optimizer,
    batch_size=32,
    epochs=20,  # of a whole training run: what a change costs once is weighed against it
    augment=augment,
    batch_augment=batch_augment,
    # What your own DataLoader is given. `shuffle` and `drop_last` are True unless you say otherwise.
    loader={"num_workers": 0, "pin_memory": False},
    # device="cuda",
    # threads=1,                      # what your program gives to torch.set_num_threads
    item="image",  # what a sample is called in reports
    # forward=lambda model, batch: model(*batch[:-1]),   # how the model is called, when that is different
    # teacher=lambda: trained(),                          # a trained model that `netdyno learn` may distil from
    # log=lambda model, loss: ...,                       # what your loop writes down each step, if it costs time
    allowed=Tolerance(
        loss=0.02,  # the final validation loss may differ by this share, beyond what reordered sums do
        spread=1.5,  # its standard deviation may grow by this factor
        # Which changes may be tried. Take out what you don't want:
        #   "same-bits"         every number stays as it is
        #   "reordered"         sums run in another order
        #   "lower-precision"   bfloat16 and the like
        #   "other-randomness"  the same distribution, drawn differently
        # "other-training" (another batch size with its learning rate) is left out unless you add it.
        numerics=("same-bits", "reordered", "lower-precision", "other-randomness"),
    ),
)
'''
