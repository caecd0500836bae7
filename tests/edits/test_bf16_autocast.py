"""A context around forward pass and loss, and not around backward."""

import pytest

from edits.specimens import FUNCTIONS, HUGGING, KWARGS, LIGHTNING, LOOP, NOTEBOOK, PLAIN, TRAINER, at, edited, refused
from netdyno.edits._base import Sites
from netdyno.records.trial import Change

BF16 = Change(id="bf16-autocast")
STEP = """import torch
model = torch.nn.Sequential()
for x, y in batches:
    output = model(x)
    {between}
    loss.backward()
    optimizer.step()
"""


def seen(source, forward, backward="backward()"):
    forwards, backwards = at(source, "forwards", forward), at(source, "backwards", backward)
    return Sites(forwards=forwards.forwards, backwards=backwards.backwards, main="train.py")


def test_it_goes_around_forward_and_loss_and_comments_come_along():
    removed, added = edited(BF16, PLAIN)
    assert removed == ["        output = model(x)", "        loss = nn.functional.mse_loss(output, y)"]
    assert added == [
        '        with torch.autocast("cpu", dtype=torch.bfloat16):',
        "            output = model(x)",
        "            loss = nn.functional.mse_loss(output, y)",
    ]


def test_the_device_is_the_scripts_own():
    _, added = edited(BF16, FUNCTIONS)
    assert added[0] == "        with torch.autocast(device.type, dtype=torch.bfloat16):"


def test_a_device_without_a_name_is_asked_of_the_model():
    source = STEP.format(between="loss = output.sum()").replace("Sequential()", 'Sequential().to("cuda")')
    assert "next(model.parameters()).device.type" in edited(BF16, source)[1][0]


def test_tabs_stay_tabs():
    _, added = edited(BF16, TRAINER)
    assert added == [
        '\t\t\t\twith torch.autocast("cpu", dtype=torch.bfloat16):',
        "\t\t\t\t\tloss = (self.model(x) - y).square().mean()",
    ]


def test_a_model_from_another_file_is_known_by_where_it_was_called():
    _, added = edited(BF16, KWARGS, seen(KWARGS, "output = model(data)"))
    assert added[0] == "        with torch.autocast(device.type, dtype=torch.bfloat16):"


def test_clearing_gradients_in_between_is_no_obstacle():
    source = STEP.format(between="optimizer.zero_grad(); loss = output.sum()")
    assert len(edited(BF16, source)[1]) == 3


@pytest.mark.parametrize(
    ("between", "why"),
    [
        ("print(output)\n    loss = output.sum()", "more than assignments"),
        ("loss = output.sum()\n    a = output.detach().numpy()", "NumPy"),
        ("if y:\n        loss = output.sum()", "not assigned"),
        ("pass", "not assigned"),
    ],
)
def test_anything_else_in_between_is_left_alone(between, why):
    assert why in refused(BF16, STEP.format(between=between)).why


def test_a_scaled_loss_is_left_alone():
    source = STEP.format(between="loss = output.sum()").replace("loss.backward", "scaler.scale(loss).backward")
    assert "float16" in refused(BF16, source).why


def test_a_context_of_the_scripts_own_is_left_alone():
    refused(BF16, LOOP, seen(LOOP, "loss = model(batch)"))


def test_a_forward_in_another_function_than_backward_is_left_alone():
    source = (
        "import torch\ndef loss_of(model, x):\n    return model(x).sum()\n"
        "def train(model, x):\n    loss = loss_of(model, x)\n    loss.backward()\n"
    )
    refused(BF16, source, seen(source, "return model(x)"))


NESTED = """import torch
from nets import Net
loss_of = torch.nn.BCELoss().cuda()
net = Net()
optimizer = torch.optim.Adam(net.parameters())
for x, y in batches:
    loss = loss_of(net(x), y)
    loss.backward()
    optimizer.step()
"""


def test_the_device_is_asked_of_the_model_and_not_of_the_loss_around_it():
    _, added = edited(BF16, NESTED, seen(NESTED, "loss_of(net(x), y)"))
    assert "next(net.parameters()).device.type" in added[0]


SAMPLES = """import torch
model = torch.nn.Sequential()

def pictures(n):
    sample = model(torch.zeros(n))
    {then}

for x, y in batches:
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""


def samples(then):
    source = SAMPLES.format(then=then)
    looked, trained = at(source, "forwards", "sample = "), at(source, "forwards", "loss = model")
    backwards = at(source, "backwards", "loss.backward()").backwards
    return source, Sites(forwards=looked.forwards + trained.forwards, backwards=backwards, main="train.py")


def test_a_forward_for_the_eye_only_is_left_as_it_is():
    removed, _ = edited(BF16, *samples("save_image(sample)"))
    assert removed == ["    loss = model(x).sum()"]


@pytest.mark.parametrize("then", ["return sample", "keep.last = sample", "sample.sum().backward()"])
def test_a_forward_whose_result_goes_elsewhere_is_not(then):
    assert "do not stand in one block" in refused(BF16, *samples(then)).why


def test_statements_that_share_a_line_are_left_alone():
    refused(BF16, NOTEBOOK)


def test_two_forwards_and_two_backwards_get_a_context_each():
    source = """import torch
for x in batches:
    real = critic(x)
    first = real.mean()
    first.backward()
    fake = critic(maker(x))
    second = fake.mean()
    second.backward()
"""
    sites = Sites(
        forwards=at(source, "forwards", "real = critic", "fake = critic").forwards,
        backwards=at(source, "backwards", "first.b", "second.b").backwards,
        main="train.py",
    )
    _, added = edited(BF16, source, sites)
    assert [line for line in added if "autocast" in line] == [
        '    with torch.autocast("cpu", dtype=torch.bfloat16):'
    ] * 2
    assert not any("backward" in line for line in added)


def test_frameworks_are_told_in_their_own_words():
    assert edited(BF16, HUGGING)[1] == ["        bf16=True,"]
    assert edited(BF16, LIGHTNING)[1] == ['    trainer = L.Trainer(max_epochs=1, precision="bf16-mixed")']
    assert "16" in refused(BF16, LIGHTNING.replace("max_epochs=1", "precision=16")).why


MADE_ELSEWHERE = """import torch
from models import build
model = build().to("cuda" if torch.cuda.is_available() else "cpu")
for x, y in batches:
    logits, loss = model(x, y)
    loss.backward()
"""


def test_what_was_seen_to_be_called_is_a_model_wherever_it_was_made():
    _, added = edited(BF16, MADE_ELSEWHERE, seen(MADE_ELSEWHERE, "model(x, y)"))
    assert added[0] == "    with torch.autocast(next(model.parameters()).device.type, dtype=torch.bfloat16):"
