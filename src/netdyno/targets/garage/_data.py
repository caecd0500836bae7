"""Data that several workloads share."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor

CUT = 1437  # the last fifth of scikit-learn's digits were written by other people

Part = tuple[Tensor, Tensor]


def digit_rows() -> tuple[Part, Part]:
    """scikit-learn's scanned digits as rows of 64 numbers from 0 to 1: (images, labels) for training, and for validation."""
    scans = load_digits()
    images = torch.tensor(scans.data, dtype=torch.float32) / 16
    labels = torch.tensor(scans.target, dtype=torch.int64)
    return (images[:CUT], labels[:CUT]), (images[CUT:], labels[CUT:])


def train_rows() -> Part:
    """The digits to train on, as rows."""
    return digit_rows()[0]


def val_rows() -> Part:
    """The digits to validate with, as rows."""
    return digit_rows()[1]
