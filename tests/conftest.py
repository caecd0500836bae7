"""What all tests share."""

import os
from pathlib import Path

import hypothesis
import pytest

# On a busy machine any example may take long: a test asserts no time, nor does the search for examples.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

WITHOUT_COMPILER = Path(__file__).parent / "scripts" / "without_compiler"


def pytest_collection_modifyitems(items):
    """Tests marked `gpu` are skipped aloud where there is nothing to run them on."""
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if not wanting:
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device: none here"))


@pytest.fixture(scope="module")
def without_compiler():
    """Scripts that a test starts do without the compiler, where nobody compiles: they are there in half the time."""
    paths = [str(WITHOUT_COMPILER), *filter(None, [os.environ.get("PYTHONPATH")])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        yield
