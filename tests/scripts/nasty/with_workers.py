import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.randn(4)


if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        for batch in DataLoader(Data(), batch_size=8, num_workers=1, multiprocessing_context=sys.argv[1]):
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
