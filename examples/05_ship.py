"""Look at a trained module before it is shipped, and ship it when the gate lets it pass.

The first module has dropout that stays on in eval mode; the gate names it. Also `netdyno deploy examples/05_ship.py:Sound`.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from netdyno import Release
from netdyno.shipping.gate import gate, stops

SCANS = load_digits()
PIXELS, LABELS = torch.tensor(SCANS.data, dtype=torch.float32) / 16, torch.tensor(SCANS.target)


class Net(nn.Module):
    """Two layers, with dropout that asks, or forgets to ask, whether it is trained."""

    def __init__(self, *, forgets: bool) -> None:
        super().__init__()
        self.hidden, self.head, self.forgets = nn.Linear(64, 64), nn.Linear(64, 10), forgets

    def forward(self, rows):
        hidden = F.relu(self.hidden(rows))
        return self.head(F.dropout(hidden, 0.2, training=True if self.forgets else self.training))


def trained(*, forgets: bool) -> nn.Module:
    """A few epochs on the first thousand scans."""
    torch.manual_seed(0)
    model = Net(forgets=forgets)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(200):
        rows = slice(step % 20 * 50, step % 20 * 50 + 50)
        optimizer.zero_grad()
        F.cross_entropy(model(PIXELS[rows]), LABELS[rows]).backward()
        optimizer.step()
    return model.eval()


def released(*, forgets: bool) -> Release:
    """The module with what it takes to ship it."""
    return Release(
        model=lambda: trained(forgets=forgets),
        example=lambda: PIXELS[:4],
        calibration=lambda: (PIXELS[:1000], LABELS[:1000]),
        validation=lambda: (PIXELS[1000:], LABELS[1000:]),
        name="digits",
    )


Restless, Sound = released(forgets=True), released(forgets=False)

if __name__ == "__main__":
    for name, release in (("restless", Restless), ("sound", Sound)):
        checks = gate(release)
        print(f"{name}: {'stopped' if stops(checks) else 'may be exported'}")
        for check in checks:
            if check.ok is False:
                print(f"  {check.name}: {check.says}; {check.fix}")
