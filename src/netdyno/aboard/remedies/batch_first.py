"""Construct recurrent layers with `batch_first=True`: samples come first in what they are given."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In the constructors of LSTM, GRU and RNN."""
    from torch.nn.modules.rnn import RNNBase

    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **kwargs)
            self.batch_first = True

        return __init__

    observer.replacements.replace("batch first", RNNBase, "__init__", make)
