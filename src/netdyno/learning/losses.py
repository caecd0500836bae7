"""Losses that training scripts can import: focal loss, distillation by answers and by directions, and what smoothing leaves.

>>> import torch
>>> logits, target = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
>>> bool(torch.isclose(focal(logits, target, gamma=0.0), torch.nn.functional.cross_entropy(logits, target)))
True
"""

from netdyno.knobs._losses import distillation, focal, gradient_directions, smoothing_floor, soft_divergence

__all__ = ["distillation", "focal", "gradient_directions", "smoothing_floor", "soft_divergence"]
