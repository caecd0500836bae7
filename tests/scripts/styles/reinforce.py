"""REINFORCE in a corridor: episodes of different lengths, one update after each."""

import random

import torch
from torch import nn
from torch.distributions import Categorical


class Corridor:
    """Walk from the middle to the right end; slipping happens."""

    def __init__(self, length=9, slip=0.1):
        self.length = length
        self.slip = slip
        self.reset()

    def reset(self):
        self.place = self.length // 2
        self.clock = 0
        return self.observe()

    def observe(self):
        here = torch.zeros(self.length)
        here[self.place] = 1
        return here

    def step(self, action):
        move = 1 if action == 1 else -1
        if random.random() < self.slip:
            move = -move
        self.place = max(0, min(self.length - 1, self.place + move))
        self.clock += 1
        done = self.place == self.length - 1 or self.clock >= 40
        return self.observe(), (1.0 if self.place == self.length - 1 else -0.05), done


random.seed(9)
torch.manual_seed(9)
env = Corridor()
policy = nn.Sequential(nn.Linear(9, 24), nn.Tanh(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=2e-2)

for episode in range(40):
    state, done = env.reset(), False
    log_probs, rewards = [], []
    while not done:
        choice = Categorical(logits=policy(state))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        state, reward, done = env.step(action.item())
        rewards.append(reward)

    returns, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + 0.98 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    loss = -(torch.stack(log_probs) * returns).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if episode % 10 == 0:
        print(f"episode {episode}: {len(rewards)} steps, return {sum(rewards):.2f}")
