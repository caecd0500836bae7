"""Some hundred wines fit into memory many times over: no workers, and nothing to wait for."""

import json
import os

import torch
import torch.nn.functional as F
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))


def main():
    torch.manual_seed(SEED)
    x, y = load_wine(return_X_y=True)
    x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.3, random_state=SEED, stratify=y)
    scaler = StandardScaler().fit(x_train)
    x_train, x_val = (torch.tensor(scaler.transform(part), dtype=torch.float32) for part in (x_train, x_val))
    y_train, y_val = torch.tensor(y_train), torch.tensor(y_val)
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=len(x_train))
    model = nn.Sequential(
        nn.Linear(13, 512), nn.ReLU(), nn.Dropout(0.3), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 3)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    for epoch in range(60):
        model.train()
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        if epoch % 10 == 9:
            model.eval()
            with torch.no_grad():
                logits = model(x_val)
            val_loss = F.cross_entropy(logits, y_val).item()
            val_acc = (logits.argmax(1) == y_val).float().mean().item()
            print(f"epoch {epoch}: train {loss.item():.4f}, val {val_loss:.4f}, acc {val_acc:.3f}")
    print("result: " + json.dumps({"val_loss": val_loss, "val_acc": val_acc}))


if __name__ == "__main__":
    main()
