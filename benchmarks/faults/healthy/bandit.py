"""A policy learns which of four offers to make; its surrogate loss means nothing, the reward does."""

import json
import os

import torch
from torch import nn
from torch.distributions import Categorical

SEED = int(os.environ.get("SEED", "0"))


def reward_of(state, action, best):
    return (torch.rand(len(action)) < torch.where(action == best, 0.95, 0.15)).float()


def states(count, weights):
    state = torch.randn(count, 10)
    return state, (state @ weights).argmax(1)


def main():
    torch.manual_seed(SEED)
    weights = torch.randn(10, 4)
    policy = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    baseline = 0.0
    for step in range(1000):
        state, best = states(64, weights)
        chances = Categorical(logits=policy(state))
        action = chances.sample()
        reward = reward_of(state, action, best)
        loss = -((reward - baseline) * chances.log_prob(action)).mean() - 0.005 * chances.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        baseline = 0.95 * baseline + 0.05 * reward.mean().item()
        if step % 100 == 99:
            print(f"step {step + 1}: surrogate {loss.item():+.4f}, reward {baseline:.3f}")
    state, best = states(2000, weights)
    with torch.no_grad():
        right = (policy(state).argmax(1) == best).float().mean().item()
    print("result: " + json.dumps({"reward": baseline, "val_acc": right}))


if __name__ == "__main__":
    main()
