"""What remedies promise: each takes effect in an unmodified script, and those aboard meet no trouble."""

import json
from pathlib import Path

import pytest

from netdyno.aboard.remedies import _base
from netdyno.scripts.launch import ride
from netdyno.targets.script import parse

SCRIPT = """
import json
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(2)
x = torch.randn(64, 4) * 5 + 3
y = (x[:, 0] > 3).long()
loader = DataLoader(TensorDataset(x, y), batch_size=20, drop_last=True)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8, momentum=0.0), torch.nn.Dropout(0.8), torch.nn.Linear(8, 2))
torch.nn.init.zeros_(net[0].weight)
optimizer = torch.optim.SGD([{"params": net[0].parameters(), "lr": 0.0}, {"params": net[3].parameters()}], lr=0.4, momentum=0.5)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
told = {"batches": 0, "first": []}
for epoch in range(2):
    for inputs, labels in loader:
        told["batches"] += 1
        told["first"].append(float(inputs[0, 0]))
        logits = F.softmax(net(inputs), dim=0)
        loss = F.cross_entropy(logits, labels, reduction="sum")
        loss.backward()
        told["norm"] = float(torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-3))
        told["clipped"] = float(net[3].weight.grad.norm())
        optimizer.step()
        told["left"] = None if net[3].weight.grad is None else float(net[3].weight.grad.abs().sum())
        scheduler.step()
    with torch.no_grad():
        told["training"] = net.training
        told["evaluated"] = [net(x[:4]).tolist() for _ in range(2)]
told |= {"loss": float(loss), "rates": [group["lr"] for group in optimizer.param_groups], "threads": torch.get_num_threads(),
         "momentum": net[1].momentum, "first_weight": float(net[0].weight.abs().sum()), "anomaly": torch.is_anomaly_enabled(),
         "sum": float(logits.sum(1)[0])}
json.dump(told, open("told.json", "w"))
"""
EXAMPLES = {
    "leave-out": {"call": "softmax"},
    "change-call": {"call": "cross_entropy", "reduction": "mean"},
    "divide-loss": {"by": 4},
    "schedule-per-epoch": {"batches": 3},
    "set-optimizer": {"momentum": 0.0},
    "set-threads": {"threads": 1},
    "call-instead": {"call": "softmax", "instead": "sigmoid"},
    "scale-result": {"call": "softmax", "factor": 0.5},
    "stop-training": {"after": 2},
    "strip-prefix": {"prefix": "module."},
}


def told(tmp_path, *remedies):
    (tmp_path / "train.py").write_text(SCRIPT)
    asked = tuple({"id": name, "settings": EXAMPLES.get(name, {})} for name in remedies)
    seen = ride(parse("train.py", (), cwd=tmp_path), in_place=True, remedies=asked, watch=False, hz=0.0, losses=True)
    assert seen.reason == "ended", seen.words
    assert [trouble for trouble in seen.stream.troubles if "remed" in trouble.where] == []
    return json.loads((tmp_path / "told.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", _base.names())
def test_a_script_comes_through_with_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told(tmp_path, name)["batches"] in {6, 8}


EFFECTS = {
    "clear-gradients": lambda bare, now: bare["left"] and not now["left"],
    "equal-rates": lambda bare, now: bare["rates"][0] == 0 and now["rates"][0] == now["rates"][1] > 0,
    "scale-learning-rate": lambda bare, now: now["rates"][1] == pytest.approx(bare["rates"][1] / 10),
    "schedule-per-epoch": lambda bare, now: now["rates"][1] > 3 * bare["rates"][1],
    "leave-clipping-out": lambda bare, now: now["clipped"] > 10 * bare["clipped"],
    "move-statistics": lambda bare, now: (bare["momentum"], now["momentum"]) == (0.0, 0.1),
    "keep-last-batch": lambda bare, now: (bare["batches"], now["batches"]) == (6, 8),
    "initialise-again": lambda bare, now: bare["first_weight"] == 0 < now["first_weight"],
    "set-threads": lambda bare, now: (bare["threads"], now["threads"]) == (2, 1),
    "shuffle": lambda bare, now: bare["first"][:3] == bare["first"][3:] and now["first"][:3] != now["first"][3:],
    "evaluation-mode": lambda bare, now: (
        bare["evaluated"][0] != bare["evaluated"][1] and now["evaluated"][0] == now["evaluated"][1]
    ),
    "leave-out": lambda bare, now: bare["sum"] > 0 and now["loss"] != bare["loss"],
    "change-call": lambda bare, now: now["loss"] < bare["loss"] / 10,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EFFECTS)
def test_it_does_what_its_name_says(name, tmp_path, monkeypatch):
    (tmp_path / "bare").mkdir()
    (tmp_path / "now").mkdir()
    monkeypatch.chdir(tmp_path / "bare")
    bare = told(tmp_path / "bare")
    monkeypatch.chdir(tmp_path / "now")
    assert EFFECTS[name](bare, told(tmp_path / "now", name))


def test_every_remedy_says_what_it_does():
    for name in _base.names():
        assert _base.find(name).__doc__
        assert callable(_base.find(name).put_on)


def test_an_unknown_remedy_is_refused():
    with pytest.raises(LookupError, match="no remedy"):
        _base.find("aspirin")


def test_their_names_are_those_of_their_files():
    files = {file.stem.replace("_", "-") for file in Path(_base.__file__).parent.glob("[a-z]*.py")}
    assert set(_base.names()) == files
