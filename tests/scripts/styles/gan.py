"""Two networks against each other, one optimizer each."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
LATENT = 16

real_images = torch.tensor(load_digits().data, dtype=torch.float32) / 8 - 1
loader = DataLoader(TensorDataset(real_images), batch_size=64, shuffle=True, drop_last=True)

netG = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh())
netD = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
bce = nn.BCEWithLogitsLoss()
optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))

for epoch in range(2):
    for i, (real,) in enumerate(loader):
        ones = torch.ones(len(real), 1)
        zeros = torch.zeros(len(real), 1)

        netD.zero_grad()
        loss_real = bce(netD(real), ones)
        loss_real.backward()
        fake = netG(torch.randn(len(real), LATENT))
        loss_fake = bce(netD(fake.detach()), zeros)
        loss_fake.backward()
        optD.step()

        netG.zero_grad()
        loss_g = bce(netD(fake), ones)
        loss_g.backward()
        optG.step()

        if i % 10 == 0:
            print(f"[{epoch}/{i}] D {loss_real.item() + loss_fake.item():.4f} G {loss_g.item():.4f}")
