"""A loop of one's own on Lightning Fabric."""

import torch
from lightning.fabric import Fabric, seed_everything
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


def main():
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    seed_everything(4)
    digits = load_digits()
    data = TensorDataset(
        torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(digits.target)
    )
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 64, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=64, shuffle=True))

    model.train()
    for epoch in range(2):
        for batch, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(batch), labels)
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
        fabric.print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
