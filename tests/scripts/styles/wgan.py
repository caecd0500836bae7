"""A critic that learns five times as often as its generator, with a gradient penalty."""

import torch
from sklearn.datasets import make_moons
from torch import autograd, nn, optim

torch.manual_seed(11)
points = torch.tensor(make_moons(4096, noise=0.05, random_state=0)[0], dtype=torch.float32)


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


generator, critic = mlp(4, 2), mlp(2, 1)
optimizer_g = optim.RMSprop(generator.parameters(), lr=5e-4)
optimizer_c = optim.RMSprop(critic.parameters(), lr=5e-4)


def gradient_penalty(real, fake):
    mix = torch.rand(len(real), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    (slope,) = autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


for iteration in range(12):
    for _ in range(5):
        real = points[torch.randint(len(points), (128,))]
        fake = generator(torch.randn(128, 4)).detach()
        loss_c = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(real, fake)
        optimizer_c.zero_grad()
        loss_c.backward()
        optimizer_c.step()

    loss_g = -critic(generator(torch.randn(128, 4))).mean()
    optimizer_g.zero_grad()
    loss_g.backward()
    optimizer_g.step()
    print(f"iteration {iteration}: critic {loss_c.item():.4f}, generator {loss_g.item():.4f}")
