"""Find what is wrong with a workload before anything is measured.

The labels of this one run from 1 to 10 where its ten outputs stand for 0 to 9.
"""

import tempfile

import torch
from sklearn.datasets import load_digits
from torch import nn

from netdyno import Workload
from netdyno.measure.smoke import smoke


def data():
    scans = load_digits()
    return torch.tensor(scans.data, dtype=torch.float32) / 16, torch.tensor(scans.target) + 1


Wrong = Workload(model=lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), train=data)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for check in smoke(Wrong, folder=folder):
            print(f"{ {True: 'ok', False: 'FAILED', None: '-'}[check.ok]:7} {check.name:11} {check.says}")
            if check.hint:
                print(f"{'':7} {'hint:':11} {check.hint}")
