"""What starting and ending loader workers takes is timed, for those that end with their pass."""

import pytest
from torch.utils.data import DataLoader, TensorDataset

torch = pytest.importorskip("torch")


class Watching:
    """As much of a watch as the vital asks for."""

    def __init__(self) -> None:
        from types import SimpleNamespace

        from netdyno.aboard.patches import Patches

        self.patches = Patches()
        self.ended = False
        self.observer = SimpleNamespace(
            replacements=self.patches, candidate=lambda: True, facts=SimpleNamespace(loaders=[])
        )


@pytest.fixture
def watch():
    watching = Watching()
    yield watching
    watching.patches.undo()


def passes(loader: DataLoader, times: int) -> None:
    for _ in range(times):
        for _ in loader:
            pass


def told(watch, **fields):
    from netdyno.aboard.vitals.restarts import VITAL

    vital = VITAL(watch)
    passes(DataLoader(TensorDataset(torch.zeros(8, 2)), batch_size=4, **fields), 3)
    return vital.summary()


def test_workers_that_end_with_their_pass_are_timed(watch):
    found = told(watch, num_workers=1)
    (loader,) = found["loaders"]
    assert loader["starts"] == 3
    assert loader["workers"] == 1
    assert 0 < loader["seconds"] <= found["span_s"]


def test_workers_that_stay_are_not(watch):
    assert told(watch, num_workers=1, persistent_workers=True) is None


def test_a_loader_without_workers_says_nothing(watch):
    assert told(watch) is None
