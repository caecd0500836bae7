"""A pre-norm transformer language model of four layers on English text, byte by byte.

Real data: the help texts that come with Python (`pydoc_data.topics`), cut into pieces of 64 bytes.
"""

from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from netdyno.targets.workload import Workload

LAYERS = 4
WIDTH = 128
HEADS = 4
PIECE = 64  # bytes
VOCABULARY = 128  # ASCII


def train() -> tuple[Tensor, Tensor]:
    """1,024 pieces of text, and each a byte further on."""
    return _pieces(0, 1024)


def val() -> tuple[Tensor, Tensor]:
    """The 128 pieces that follow."""
    return _pieces(1024, 1152)


def _pieces(start: int, stop: int) -> tuple[Tensor, Tensor]:
    text = "\n".join(topics[key] for key in sorted(topics)).encode("ascii", "replace")
    codes = torch.tensor(list(text[start * PIECE : stop * PIECE + 1]), dtype=torch.int64)
    return codes[:-1].view(-1, PIECE), codes[1:].view(-1, PIECE)


class Block(nn.Module):
    """Attention and a feed-forward part, each on what the norm before it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.feed(self.norm2(x))

    def attend(self, x: Tensor) -> Tensor:
        count, length, _ = x.shape
        split = self.query_key_value(x).view(count, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(split[0], split[1], split[2], is_causal=True)
        return self.project(seen.transpose(1, 2).reshape(count, length, WIDTH))


class Transformer(nn.Module):
    """Bytes in, a score for each next byte out: (pieces, PIECE) to (pieces, PIECE, VOCABULARY)."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.randn(PIECE, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.bytes(codes) + self.places[: codes.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def loss(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of each next byte."""
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def metric(output: Tensor, target: Tensor) -> float:
    """The share of next bytes guessed right."""
    return (output.argmax(-1) == target).double().mean().item()


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    """AdamW, as language models are usually trained."""
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1)


WORKLOAD = Workload(
    name="transformer",
    model=Transformer,
    train=train,
    val=val,
    loss=loss,
    metric=metric,
    optimizer=optimizer,
    batch_size=8,
    epochs=20,
    item="piece",
)
