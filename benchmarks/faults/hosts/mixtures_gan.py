"""A small GAN that learns eight Gaussians on a ring."""

import json
import math
import os
import resource
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = int(os.environ.get("SEED", "0"))
EPOCHS = 30
LATENT = 8
MODES = 8


def ring(count):
    angles = 2 * math.pi * torch.arange(MODES) / MODES
    centres = torch.stack([angles.cos(), angles.sin()], dim=1)
    picks = torch.randint(0, MODES, (count,))
    return centres[picks] + 0.2 * torch.randn(count, 2)


class Generator(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LATENT, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2)
        )

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, hidden), nn.LeakyReLU(0.2), nn.Linear(hidden, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def energy_distance(a, b):
    across = torch.cdist(a, b).mean()
    return (2 * across - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def evaluate(generator, noise, held_out):
    generator.eval()
    with torch.no_grad():
        samples = generator(noise)
        return energy_distance(samples, held_out)


def main():
    torch.manual_seed(SEED)
    np.random.seed(SEED)
    loader = DataLoader(TensorDataset(ring(2000)), batch_size=100, shuffle=True, drop_last=True)
    held_out = ring(500)
    fixed_noise = torch.randn(500, LATENT)
    generator = Generator()
    discriminator = Discriminator()
    criterion = nn.BCEWithLogitsLoss()
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))

    start = time.perf_counter()
    for epoch in range(EPOCHS):
        generator.train()
        discriminator.train()
        g_total, d_total = 0.0, 0.0
        for (real,) in loader:
            fake = generator(torch.randn(len(real), LATENT))
            d_optimizer.zero_grad()
            real_scores = discriminator(real)
            fake_scores = discriminator(fake.detach())
            real_loss = criterion(real_scores, torch.ones_like(real_scores))
            fake_loss = criterion(fake_scores, torch.zeros_like(fake_scores))
            d_loss = real_loss + fake_loss
            d_loss.backward()
            d_optimizer.step()

            g_optimizer.zero_grad()
            judged = discriminator(fake)
            g_loss = criterion(judged, torch.ones_like(judged))
            g_loss.backward()
            g_optimizer.step()
            d_total += d_loss.item()
            g_total += g_loss.item()
        val_loss = evaluate(generator, fixed_noise, held_out)
        d_mean, g_mean = d_total / len(loader), g_total / len(loader)
        print(f"epoch {epoch:2d}: d loss {d_mean:.4f}, g loss {g_mean:.4f}, energy distance {val_loss:.4f}")
    train_s = time.perf_counter() - start

    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {"train_loss": g_mean, "val_loss": val_loss, "train_s": train_s, "peak_mb": peak_mb}
    print("result: " + json.dumps(result))


if __name__ == "__main__":
    main()
