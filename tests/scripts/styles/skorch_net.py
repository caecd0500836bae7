"""A net behind scikit-learn's interface, by skorch."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier
from torch import nn


class Module(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.hidden = nn.Linear(64, hidden)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(hidden, 10)

    def forward(self, X):
        return self.out(self.drop(torch.relu(self.hidden(X))))


if __name__ == "__main__":
    torch.manual_seed(21)
    X, y = load_digits(return_X_y=True)
    net = NeuralNetClassifier(
        Module,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=1e-3,
        max_epochs=2,
        batch_size=64,
        iterator_train__shuffle=True,
    )
    net.fit((X / 16).astype(np.float32), y.astype(np.int64))
