"""Two spawned processes train one model in shared memory, each with an optimizer of its own."""

import torch
import torch.multiprocessing as mp
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train(rank, model):
    torch.manual_seed(100 + rank)
    torch.set_num_threads(1)
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (x, y) in enumerate(DataLoader(data, batch_size=32, shuffle=True)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"process {rank} step {step}: {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    mp.set_start_method("spawn")
    shared = build()
    shared.share_memory()
    workers = [mp.Process(target=train, args=(rank, shared)) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("weights add up to", sum(p.sum().item() for p in shared.parameters()))
