"""Training scripts in the styles people write them in; none is run, all are edited."""

import difflib

from netdyno.edits._base import Site, Sites, Unsafe, patched

PLAIN = '''#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Trains a small network."""
from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data   =  TensorDataset(torch.randn(256, 8), torch.randn(256, 1))  # oddly spaced on purpose
loader = DataLoader(data, batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)
        # the forward pass
        output = model(x)
        loss = nn.functional.mse_loss(output, y)
        loss.backward()
        optimizer.step()

    model.eval()
    with torch.no_grad():
        print(epoch, nn.functional.mse_loss(model(x), y).item())
    model.train()
'''

FUNCTIONS = '''"""Functions with arguments, and a device."""
import argparse

import torch
import torch.nn as nn
import torch.optim as O
from torch.utils import data as D


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.conv(x).mean((2, 3)))


def train(args, model, loader, optimizer, criterion, device):
    model.train()
    for step, (images, target) in enumerate(loader):
        images, target = images.to(device), target.to(device)
        output = model(images)
        loss = criterion(
            output,
            target,  # classes
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    right = 0
    for images, target in loader:
        right += (model(images.to(device)).argmax(1) == target.to(device)).sum().item()
    return right


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = D.DataLoader(
        make_data(train=True),
        batch_size=64,
        shuffle=True,
        num_workers=args.workers,  # as many as there are cores
    )
    held_out = D.DataLoader(make_data(train=False), batch_size=64)
    model = Net().to(device)
    optimizer = O.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)
    for _ in range(3):
        train(args, model, loader, optimizer, nn.CrossEntropyLoss(), device)
        evaluate(model, held_out, device)


if __name__ == "__main__":
    main()
'''

TRAINER = """import torch
from torch import nn, optim
from torch.utils.data import DataLoader


class Net(nn.Module):
\tdef __init__(self):
\t\tsuper().__init__()
\t\tself.layer = nn.Linear(4, 1)

\tdef forward(self, x):
\t\treturn self.layer(x)


class Trainer:
\tdef __init__(self, dataset):
\t\tself.model = Net()
\t\tself.optimizer = optim.Adam(self.model.parameters())
\t\tself.loader = DataLoader(dataset, 16, True, num_workers=2)

\tdef fit(self, epochs):
\t\tfor _ in range(epochs):
\t\t\tfor x, y in self.loader:
\t\t\t\tself.optimizer.zero_grad()
\t\t\t\tloss = (self.model(x) - y).square().mean()
\t\t\t\tloss.backward()
\t\t\t\tself.optimizer.step()
"""

KWARGS = """import torch
import torch.nn.functional as F
import torch.optim as optim
from torchvision import datasets, transforms
from models import Net


def train(args, model, device, train_loader, optimizer):
    model.train()
    for data, target in train_loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()


def main(args):
    device = torch.device("cpu")
    train_kwargs = {'batch_size': args.batch_size}
    if args.many:
        train_kwargs.update({'num_workers': 1, 'shuffle': True})
    train_loader = torch.utils.data.DataLoader(datasets.MNIST("data"), **train_kwargs)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    train(args, model, device, train_loader, optimizer)
"""

NOTEBOOK = """#!/usr/bin/env python
# coding: utf-8

# # A first model

# In[1]:


import torch
from torch.utils.data import DataLoader, TensorDataset


# In[2]:


get_ipython().run_line_magic('matplotlib', 'inline')
net = torch.nn.Sequential(torch.nn.Linear(2, 2))
opt = torch.optim.SGD(net.parameters(),lr=.1)
dl = DataLoader(TensorDataset(torch.randn(8, 2), torch.randn(8, 2)),batch_size=4,shuffle=True)


# In[3]:


for xb,yb in dl:
    loss = ((net(xb)-yb)**2).mean(); opt.zero_grad(); loss.backward(); opt.step()
"""

LIGHTNING = """import torch
import lightning as L
from torch.utils.data import DataLoader


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 2)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)


if __name__ == "__main__":
    trainer = L.Trainer(max_epochs=1)
    trainer.fit(Module(), DataLoader(torch.randn(64, 32), batch_size=2))
"""

HUGGING = """from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("tiny")
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        "out",
        max_steps=100,
        per_device_train_batch_size=8,
    ),
    train_dataset=load(),
)
trainer.train()
"""

FASTAI = """from fastai.vision.all import ImageDataLoaders, resnet18, vision_learner

dls = ImageDataLoaders.from_folder("images", valid_pct=0.2)
learn = vision_learner(dls, resnet18)
learn.fine_tune(1)
"""

SKORCH = """import torch
from skorch import NeuralNetClassifier
from models import Net

net = NeuralNetClassifier(Net, max_epochs=5, optimizer=torch.optim.Adam, lr=0.01)
net.fit(X, y)
"""

LOOP = """import torch

model = torch.nn.Linear(2, 2)
names = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
optimizer = getattr(torch.optim, args.optimizer)(model.parameters())
for batch in batches:
    with context:
        loss = model(batch).sum()
    loss.backward()
    optimizer.step()
"""

ALL = {
    "plain": PLAIN,
    "functions": FUNCTIONS,
    "trainer": TRAINER,
    "kwargs": KWARGS,
    "notebook": NOTEBOOK,
    "lightning": LIGHTNING,
    "hugging": HUGGING,
    "fastai": FASTAI,
    "skorch": SKORCH,
    "loop": LOOP,
}


def line_of(source, text):
    """The number of the first line that holds a text."""
    return next(number for number, line in enumerate(source.split("\n"), 1) if text in line)


def at(source, kind, *texts, file="train.py"):
    """Sites of one kind at the lines that hold these texts."""
    return Sites(main="train.py", **{kind: tuple(Site(file, line_of(source, text)) for text in texts)})


ALONE = Sites(main="train.py")


def lines_changed(before, after):
    """What was taken away and what was added, without indentation of our own to read past: (lines, lines)."""
    diff = list(difflib.ndiff(before.split("\n"), after.split("\n")))
    return tuple([line[2:] for line in diff if line.startswith(sign)] for sign in ("- ", "+ "))


def edited(change, source, sites=ALONE):
    """The lines that a change takes away and adds; fails where it is refused."""
    after = patched(change, source, sites, file="train.py")
    assert isinstance(after, str), after
    return lines_changed(source, after)


def refused(change, source, sites=ALONE):
    """Why a change is refused; fails where it is not."""
    answer = patched(change, source, sites, file="train.py")
    assert isinstance(answer, Unsafe), lines_changed(source, answer)
    return answer
