"""A generator and a critic with the hinge loss; their losses never settle, the samples do."""

import json
import os

import torch
import torch.nn.functional as F
from torch import nn

SEED = int(os.environ.get("SEED", "0"))


def cloud(count):
    centre = torch.randint(0, 2, (count, 1)).float() * 2 - 1
    return centre * torch.tensor([1.0, 0.5]) + 0.2 * torch.randn(count, 2)


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main():
    torch.manual_seed(SEED)
    generator = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    critic = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
    c_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.0, 0.9))
    average = torch.optim.swa_utils.AveragedModel(
        generator, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
    )
    held_out = cloud(500)
    for step in range(1200):
        real, fake = cloud(128), generator(torch.randn(128, 4))
        c_loss = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake.detach())).mean()
        c_optimizer.zero_grad()
        c_loss.backward()
        c_optimizer.step()
        g_loss = -critic(generator(torch.randn(128, 4))).mean()
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        average.update_parameters(generator)
        if step % 200 == 199:
            with torch.no_grad():
                distance = energy_distance(average(torch.randn(500, 4)), held_out)
            print(
                f"step {step + 1}: critic {c_loss.item():.3f}, generator {g_loss.item():.3f}, distance {distance:.4f}"
            )
    print("result: " + json.dumps({"distance": distance}))


if __name__ == "__main__":
    main()
