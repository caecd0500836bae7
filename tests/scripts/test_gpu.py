"""Scripts that train on a CUDA device: watched, stopped, driven between steps. Skipped aloud where there is none."""

import pytest
import torch

from netdyno.records.evidence import ScriptTrace, StepTimeline
from netdyno.records.trial import Change
from netdyno.scripts.arms import ScriptArm, ScriptSession
from netdyno.scripts.evidence import evidence
from netdyno.scripts.launch import ride
from netdyno.targets.script import parse

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

TRAINS = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
x, y = torch.randn(128, 256, device="cuda"), torch.randint(0, 10, (128,), device="cuda")
for step in range(100000):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, enabled=False):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(loss.item())
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text(TRAINS)
    return parse("train.py", cwd=tmp_path)


def test_a_script_on_a_device_is_watched_and_stops_at_its_update(script):
    seen = ride(script, updates=40, losses=True)
    found = {type(item): item for item in evidence(seen.stream)}
    assert found[ScriptTrace].updates == 40
    assert found[StepTimeline].phases["backward"].wall > 0
    assert all(loss == loss for loss in seen.stream.losses), "losses come from the device without a read by the script"


def test_a_read_back_every_tenth_update_is_seen_on_its_line(script):
    seen = ride(script, updates=60)
    syncs = seen.stream.training.tick.facts["syncs"]
    assert any(site["line"] == 18 and not site["on_host"] for site in syncs)


def test_turns_take_the_devices_time_and_a_change_can_be_switched_between_them(script):
    with ScriptSession(script) as session:
        plain, fused = ScriptArm(session, ()), ScriptArm(session, (Change(id="fused-optimizer"),))
        for arm in (plain, fused, plain):
            turn = arm.turn(5)
            assert turn.steps == 5
            assert turn.time.wall > 0
