"""A perceptron on the digits, trained by two processes on this machine."""

import json
import os
import resource
import socket
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SEED = int(os.environ.get("SEED", "0"))
WORLD_SIZE = 2
EPOCHS = 12
BATCH_SIZE = 32  # per process


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def make_datasets():
    # Only the launcher needs scikit-learn; its processes get the tensors.
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, labels = load_digits(return_X_y=True)
    x_train, x_val, y_train, y_val = train_test_split(
        pixels, labels, test_size=0.25, random_state=SEED, stratify=labels
    )
    mean, std = x_train.mean(), x_train.std()
    x_train = torch.tensor((x_train - mean) / std, dtype=torch.float32)
    x_val = torch.tensor((x_val - mean) / std, dtype=torch.float32)
    return TensorDataset(x_train, torch.tensor(y_train)), TensorDataset(x_val, torch.tensor(y_val))


def build_model():
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 10))


def evaluate(model, loader, criterion):
    model.eval()
    totals = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        for x, y in loader:
            logits = model(x)
            totals[0] += criterion(logits, y).item() * len(y)
            totals[1] += (logits.argmax(1) == y).sum().item()
            totals[2] += len(y)
    return (totals[0] / totals[2]).item(), (totals[1] / totals[2]).item()


def worker(rank, port, train_set, val_set):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD_SIZE)
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    sampler = DistributedSampler(train_set, num_replicas=WORLD_SIZE, rank=rank, shuffle=True, seed=SEED)
    train_loader = DataLoader(train_set, batch_size=BATCH_SIZE, sampler=sampler)
    val_loader = DataLoader(val_set, batch_size=150)
    model = DistributedDataParallel(build_model())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    torch.manual_seed(SEED + rank)  # each process drops other units

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        model.train()
        epoch_loss = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item()
        mean_loss = torch.tensor(epoch_loss / len(train_loader))
        dist.all_reduce(mean_loss)
        train_loss = mean_loss.item() / WORLD_SIZE
        if rank == 0:
            val_loss, val_acc = evaluate(model.module, val_loader, criterion)
            print(f"epoch {epoch:2d}: train {train_loss:.4f}, val {val_loss:.4f}, val acc {val_acc:.3f}", flush=True)
        dist.barrier()
    train_s = time.perf_counter() - start

    if rank == 0:
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        result = {"train_loss": train_loss, "val_loss": val_loss, "val_acc": val_acc}
        print("result: " + json.dumps({**result, "train_s": train_s, "peak_mb": peak_mb}), flush=True)
    dist.destroy_process_group()


def main():
    train_set, val_set = make_datasets()
    mp.spawn(worker, args=(free_port(), train_set, val_set), nprocs=WORLD_SIZE)


if __name__ == "__main__":
    main()
