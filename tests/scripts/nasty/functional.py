import sys

import torch

sys.modules.pop("torch._dynamo")  # what differentiates functions asks the real one


def loss(weights, x):
    return (x @ weights).pow(2).mean()


weights = torch.randn(4)
while True:
    weights = weights - 0.01 * torch.func.grad(loss)(weights, torch.randn(8, 4))
