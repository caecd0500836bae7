"""An embedding lookup, averaged over what a user has liked: work that EmbeddingBag does in one go.

Generated data with a structure that can be learnt: 5,000 items belong to 20 genres; a user prefers two genres
and has 100 items in the history, four fifths of them of these; the answer is the genre of the next item.
"""

from typing import Any

import torch
from torch import Tensor, nn

from netdyno.targets.workload import Workload

ITEMS = 5_000
GENRES = 20
HISTORY = 100
WIDTH = 64


def train() -> tuple[Tensor, Tensor]:
    """12,800 users."""
    return _users(12_800, seed=1)


def val() -> tuple[Tensor, Tensor]:
    """1,280 other users."""
    return _users(1_280, seed=2)


def _users(count: int, *, seed: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    # Three fifths of the attention go to one genre, a fifth to another, the rest to all alike.
    taste = torch.full((count, GENRES), 0.2 / GENRES)
    favourites = torch.rand(count, GENRES, generator=chance).topk(2, dim=1).indices
    taste.scatter_add_(1, favourites, torch.tensor([0.6, 0.2]).expand(count, 2).contiguous())
    genres = torch.multinomial(taste, HISTORY + 1, replacement=True, generator=chance)
    # Within a genre a few items are liked by many: the square of a uniform number crowds towards 0.
    popularity = torch.rand(count, HISTORY, generator=chance).square()
    # An item's genre is its number modulo GENRES: neighbours in the table have nothing in common.
    items = (popularity * (ITEMS // GENRES)).long() * GENRES + genres[:, :HISTORY]
    return items, genres[:, HISTORY]


class Recommender(nn.Module):
    """The mean of the embeddings of a history, and a linear layer that scores the genres."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.head = nn.Linear(WIDTH, GENRES)

    def forward(self, history: Tensor) -> Tensor:
        return self.head(self.items(history).mean(1))


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """Adam at a high rate: each item is seen seldom."""
    return torch.optim.Adam(parameters, lr=1e-2)


WORKLOAD = Workload(
    name="recommender",
    model=Recommender,
    train=train,
    val=val,
    optimizer=optimizer,
    batch_size=256,
    epochs=20,
    item="user",
)
