"""What all tests of interventions share."""

import pytest

from interventions.specimens import one_thread


@pytest.fixture(autouse=True)
def on_one_thread():
    """On a busy machine, threads that spin at a barrier for a core turn milliseconds into seconds."""
    with one_thread():
        yield
