"""What all tests share."""

import pytest


def pytest_collection_modifyitems(items):
    """Tests marked `gpu` are skipped aloud where there is nothing to run them on."""
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting:
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device: none here"))
