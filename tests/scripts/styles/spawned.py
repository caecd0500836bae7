"""Everything happens in a child of torch.multiprocessing.spawn; the parent only waits."""

import torch
import torch.multiprocessing as mp
from sklearn.datasets import make_regression
from torch import nn


def worker(index, steps):
    torch.manual_seed(index)
    x, y = make_regression(512, 16, noise=1.0, random_state=index)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    y = (y - y.mean()) / y.std()
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item(), flush=True)


if __name__ == "__main__":
    mp.spawn(worker, args=(40,), nprocs=1)
