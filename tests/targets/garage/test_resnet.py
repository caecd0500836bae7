"""What happens where the images are not installed."""

import pytest

from netdyno.errors import TargetError
from netdyno.targets import garage
from netdyno.targets.garage import resnet


def test_absent_images_are_answered_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(resnet, "FOLDER", tmp_path)
    with pytest.raises(TargetError) as caught:
        garage.workload("resnet")
    assert str(tmp_path / "train-images-idx3-ubyte.gz") in caught.value.because
    assert "apt-get install dataset-fashion-mnist" in caught.value.hint


def test_images_are_read_and_scaled():
    if resnet.missing():
        pytest.skip("`apt-get install dataset-fashion-mnist`")
    images, labels = resnet.train()
    assert images.shape == (2560, 1, 28, 28)
    assert abs(images.mean()) < 0.05
    assert labels.unique().tolist() == list(range(10))
