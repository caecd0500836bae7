import os
import sys
import time

import torch
import torch.distributed as dist

sys.modules.pop("torch._dynamo")  # what is wrapped in DDP asks the real one


def fit(rank, port_file):
    dist.init_process_group("gloo", init_method=f"file://{port_file}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        optimizer.zero_grad()
        model(torch.randn(8, 4)).mean().backward()
        optimizer.step()
        time.sleep(0.01 * rank)


if __name__ == "__main__":
    torch.multiprocessing.spawn(fit, args=(os.path.abspath("meeting"),), nprocs=2)
