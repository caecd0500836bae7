"""Small training loops of many shapes, written as scripts write them."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def data(items=64, features=8, batch=8, shuffle=True):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(items, features, generator=generator)
    y = torch.randint(0, 3, (items,), generator=generator)
    return DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=shuffle)


def model(features=8, width=16):
    return torch.nn.Sequential(torch.nn.Linear(features, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))


def plain(epochs=2, after=lambda: None):
    """The loop of every tutorial; gives the losses."""
    torch.manual_seed(0)
    net, loader, losses = model(), data(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            after()
    return losses


def gan(updates=12, critics=1):
    torch.manual_seed(0)
    made, judged = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
    g, d = (torch.optim.Adam(net.parameters(), lr=1e-3) for net in (made, judged))
    for number in range(updates):
        d.zero_grad()
        judged(torch.ones(2, 8)).mean().backward()
        judged(made(torch.ones(2, 4)).detach()).mean().backward()
        d.step()
        if (number + 1) % critics == 0:
            g.zero_grad()
            judged(made(torch.ones(2, 4))).mean().backward()
            g.step()


def by_hand(updates=30):
    """No optimizer object."""
    torch.manual_seed(0)
    net = model()
    for _ in range(updates):
        net.zero_grad()
        net(torch.ones(2, 8)).sum().backward()
        with torch.no_grad():
            for weight in net.parameters():
                weight.sub_(0.01 * weight.grad)


def closures(updates=3):
    torch.manual_seed(0)
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = net(torch.ones(2, 8)).square().mean()
        loss.backward()
        return loss

    for _ in range(updates):
        optimizer.step(closure)


def evaluating(epochs=3, with_gradients=False):
    torch.manual_seed(0)
    net, loader, held_out = model(), data(), data(shuffle=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        with torch.set_grad_enabled(with_gradients):
            for x, _ in held_out:
                net(x).argmax(1)
