"""An endless stream of samples by an IterableDataset; the number of steps is fixed, not the number of epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Waves(IterableDataset):
    """Noisy sine waves with their frequency."""

    def __init__(self, seed):
        self.seed = seed

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        time = torch.linspace(0, 1, 64)
        while True:
            frequency = torch.rand(1, generator=generator) * 4 + 1
            yield torch.sin(6.283 * frequency * time) + 0.1 * torch.randn(64, generator=generator), frequency


torch.manual_seed(18)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
stream = iter(DataLoader(Waves(seed=1), batch_size=32))

for step in range(40):
    waves, frequencies = next(stream)
    optimizer.zero_grad()
    loss = nn.functional.l1_loss(model(waves), frequencies)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, round(loss.item(), 4))
