"""A small variational autoencoder on two interleaved arcs of noisy points."""

import json
import os
import resource
import time

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))
EPOCHS = 12
NOISE_STD = 0.2


class VAE(nn.Module):
    def __init__(self, hidden=48, latent=2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = self.reparameterize(mu, logvar)
        return self.decoder(z), mu, logvar


def elbo_loss(recon, x, mu, logvar):
    reconstruction = F.mse_loss(recon, x, reduction="none").sum(dim=1) / (2 * NOISE_STD**2)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1)
    return (reconstruction + kl).mean()


def evaluate(model, loader):
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for (points,) in loader:
            recon, mu, logvar = model(points)
            total += elbo_loss(recon, points, mu, logvar).item() * len(points)
            count += len(points)
    return total / count


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    train_points, _ = make_moons(1600, noise=0.05, random_state=SEED)
    val_points, _ = make_moons(400, noise=0.05, random_state=SEED + 1000)
    centre = train_points.mean(axis=0)
    scale = train_points.std(axis=0)
    train_x = torch.tensor((train_points - centre) / scale, dtype=torch.float32)
    val_x = torch.tensor((val_points - centre) / scale, dtype=torch.float32)
    train_loader = DataLoader(TensorDataset(train_x), batch_size=64, shuffle=True)
    val_loader = DataLoader(TensorDataset(val_x), batch_size=200)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        model.train()
        running = 0.0
        for (x,) in train_loader:
            optimizer.zero_grad()
            recon, mu, logvar = model(x)
            loss = elbo_loss(recon, x, mu, logvar)
            loss.backward()
            optimizer.step()
            running += loss.item()
        train_loss = running / len(train_loader)
        val_loss = evaluate(model, val_loader)
        print(f"epoch {epoch:2d}: train elbo loss {train_loss:.4f}, val elbo loss {val_loss:.4f}")
    train_s = time.perf_counter() - start

    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        "result: "
        + json.dumps({"train_loss": train_loss, "val_loss": val_loss, "train_s": train_s, "peak_mb": peak_mb})
    )


if __name__ == "__main__":
    main()
