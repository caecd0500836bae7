"""The slim checkpoint (ledger A-248): a third of the size, without pickle's powers, beside one that training resumes from."""

import copy
import random

import pytest
import torch
from torch import nn

from netdyno.errors import StoreError
from netdyno.shipping.slim import Slim, loading_ratio, slim


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 256), nn.Linear(256, 10))


def stepped(model, optimizer, steps, seed):
    draw = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(16, 64, generator=draw)).square().mean().backward()
        optimizer.step()


def training(folder, **more):
    """A checkpoint as training saves it, after three updates with Adam."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    stepped(model, optimizer, 3, seed=1)
    file = folder / "last.pt"
    held = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, **more}
    torch.save(held, file)
    return model, optimizer, file


def test_a_checkpoint_of_adam_shrinks_to_a_third(tmp_path):
    _, _, file = training(tmp_path)
    found = slim(file, tmp_path / "release.pt")
    assert 0.30 < found.share < 0.37
    assert found.key == "model"
    assert found.tensors == 11
    assert found.after == (tmp_path / "release.pt").stat().st_size


def test_it_loads_with_weights_only_and_holds_the_same_bits(tmp_path):
    model, _, file = training(tmp_path)
    slim(file, tmp_path / "release.pt")
    fresh = net()
    fresh.load_state_dict(torch.load(tmp_path / "release.pt", weights_only=True))
    assert all(
        torch.equal(mine, theirs)
        for mine, theirs in zip(fresh.state_dict().values(), model.state_dict().values(), strict=True)
    )


def test_training_resumes_from_the_checkpoint_as_if_nothing_had_been(tmp_path):
    model, optimizer, file = training(tmp_path)
    before = file.read_bytes()
    slim(file, tmp_path / "release.pt")
    assert file.read_bytes() == before
    again = net()
    resumed = torch.optim.Adam(again.parameters())
    held = torch.load(file, weights_only=True)
    again.load_state_dict(held["model"])
    resumed.load_state_dict(held["optimizer"])
    for each, own in ((model, optimizer), (again, resumed)):
        stepped(each, own, 2, seed=2)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(model.parameters(), again.parameters(), strict=True))


def test_it_is_never_written_over_the_checkpoint(tmp_path):
    _, _, file = training(tmp_path)
    before = file.read_bytes()
    (tmp_path / "x").mkdir()
    with pytest.raises(StoreError, match="over"):
        slim(file, tmp_path / "x" / ".." / "last.pt")
    assert file.read_bytes() == before


def test_a_state_alone_is_taken_as_it_is(tmp_path):
    torch.save(net().state_dict(), tmp_path / "weights.pt")
    found = slim(tmp_path / "weights.pt", tmp_path / "release.pt")
    assert found.key == ""
    assert found.share == pytest.approx(1.0, abs=0.05)


def test_between_several_states_it_does_not_choose(tmp_path):
    other = net()
    _, _, file = training(tmp_path, ema=other.state_dict())
    found = slim(file, tmp_path / "release.pt", key="ema")
    assert found.key == "ema"
    assert torch.equal(torch.load(found.file, weights_only=True)["0.weight"], other[0].weight)
    torch.save({"a": net().state_dict(), "b": other.state_dict()}, file)
    with pytest.raises(StoreError, match="several model states") as caught:
        slim(file, tmp_path / "other.pt")
    assert "`a`, `b`" in caught.value.because
    assert not (tmp_path / "other.pt").exists()


def test_a_checkpoint_without_a_model_says_what_it_has(tmp_path):
    torch.save({"epoch": 3, "lr": 0.1}, tmp_path / "last.pt")
    with pytest.raises(StoreError, match="no model state") as caught:
        slim(tmp_path / "last.pt", tmp_path / "release.pt")
    assert "`epoch`" in caught.value.because


class Evil:
    """An object whose pickle would run code."""

    def __reduce__(self):
        return (open, ("made-by-pickle", "w"))


def test_foreign_objects_are_not_unpickled_unless_the_file_is_trusted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, _, file = training(tmp_path, more=Evil())
    with pytest.raises(StoreError, match="without unpickling"):
        slim(file, tmp_path / "release.pt")
    assert not (tmp_path / "made-by-pickle").exists()


def test_a_whole_module_that_is_trusted_gives_its_state(tmp_path):
    torch.save({"model": net()}, tmp_path / "last.pt")
    with pytest.raises(StoreError):
        slim(tmp_path / "last.pt", tmp_path / "release.pt")
    found = slim(tmp_path / "last.pt", tmp_path / "release.pt", trusted=True)
    assert set(torch.load(found.file, weights_only=True)) == set(net().state_dict())


def test_views_bring_their_own_part_only_and_tied_weights_stay_tied(tmp_path):
    large = torch.randn(1000, 100)
    tied = torch.randn(200, 50)
    torch.save({"part": large[:2], "embed": tied, "head": tied}, tmp_path / "last.pt")
    found = slim(tmp_path / "last.pt", tmp_path / "release.pt")
    assert found.after < 60_000  # 40 kB of tied weights once, and two rows
    held = torch.load(found.file, weights_only=True)
    assert held["embed"].data_ptr() == held["head"].data_ptr()
    assert torch.equal(held["part"], large[:2])


def test_the_order_of_images_and_odd_types_are_kept(tmp_path):
    state = {
        "w": torch.randn(4, 3, 3, 3).to(memory_format=torch.channels_last),
        "h": torch.randn(3).bfloat16(),
        "n": torch.tensor(5),
        "nan": torch.tensor([float("nan")]),
    }
    torch.save(state, tmp_path / "last.pt")
    held = torch.load(slim(tmp_path / "last.pt", tmp_path / "release.pt").file, weights_only=True)
    assert held["w"].is_contiguous(memory_format=torch.channels_last)
    assert held["h"].dtype == torch.bfloat16
    assert held["n"].shape == ()


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    _, _, file = training(tmp_path)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        slim(file, tmp_path / "out" / "release.pt")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_loading_ratio_is_that_of_the_clock_with_an_interval(tmp_path):
    _, _, file = training(tmp_path)
    found = slim(file, tmp_path / "release.pt")
    noise = random.Random(3)
    sizes = {True: 1.0, False: 3.0}

    def timed(load):
        held = load()
        return sizes["optimizer" not in held] * noise.uniform(0.95, 1.05)

    ratio = loading_ratio(file, found.file, timed=timed)
    assert ratio.low < 3.0 < ratio.high
    assert ratio.width < 0.5


def test_the_two_take_turns_in_random_order(tmp_path):
    _, _, file = training(tmp_path)
    found = slim(file, tmp_path / "release.pt")
    order = []
    loading_ratio(file, found.file, timed=lambda load: order.append("optimizer" in load()) or 1.0)
    pairs = list(zip(order[::2], order[1::2], strict=True))
    assert all(set(pair) == {True, False} for pair in pairs)
    assert len(set(pairs)) == 2


def test_too_few_pairs_for_an_interval_are_refused(tmp_path):
    _, _, file = training(tmp_path)
    with pytest.raises(ValueError, match="no bounded interval"):
        loading_ratio(file, file, pairs=3)


def test_loading_less_takes_less_time(tmp_path):
    """On any machine: twelve pairs, three times the bytes."""
    model = nn.Linear(2000, 1000)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 2000)).sum().backward()
    optimizer.step()
    file = tmp_path / "last.pt"
    torch.save({"model": copy.deepcopy(model.state_dict()), "optimizer": optimizer.state_dict()}, file)
    found = slim(file, tmp_path / "release.pt")
    assert isinstance(found, Slim)
    assert loading_ratio(file, found.file).middle > 1.0
