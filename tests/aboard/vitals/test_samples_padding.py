"""At which end rows are padded."""

import torch

from netdyno.aboard.vitals._samples_looks import _ends


def test_padding_in_front_and_behind_are_told_apart():
    front = torch.tensor([[0.0, 0, 0, 5], [0, 4, 0, 7]])
    assert _ends(front, 0.0) == (0.5, 0.0)
    assert _ends(front.flip(1), 0.0) == (0.0, 0.5)
