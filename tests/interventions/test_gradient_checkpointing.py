"""What is forgotten and computed again is the same to the bit, and saves what it says."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from interventions.specimens import IMAGES, LOOKUP, WORDS, Block, Sublayer, account, bytes_of, facts, stepped, timeline
from netdyno.interventions.gradient_checkpointing import GradientCheckpointing, blocks, largest, saved
from netdyno.measure.memory import activation_bytes
from netdyno.targets.samples import first_batch
from netdyno.targets.workload import Workload, seed_everything


class Counting(nn.Module):
    """A block with a buffer of its own that enters its answer: computed twice from the new value, it would differ."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return torch.sin(self.linear(x) * self.calls)


def names(model):
    found = {module: name for name, module in model.named_modules()}
    return [found[block] for block in blocks(model)]


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (nn.Linear(2, 2), []),
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []),  # leaves save as much as they would forget
        (WORDS.model(), ["blocks.0", "blocks.1", "blocks.2", "blocks.3"]),
        (IMAGES.model(), ["blocks.0", "blocks.1", "blocks.2"]),
        # The innermost blocks, not the stages that hold them.
        (
            nn.Sequential(nn.Sequential(Block(2), Block(2)), nn.Sequential(Block(2))),
            ["0.0", "0.1", "1.0"],
        ),
        (nn.ModuleList([nn.ModuleList([Sublayer(2)])]), ["0.0"]),
    ],
)
def test_blocks_are_parts_of_lists_that_have_parts_themselves(model, found):
    assert names(model) == found


def test_one_block_twice_is_one_block():
    block = Block(2)
    assert blocks(nn.Sequential(block, block)) == [block]


def test_a_model_without_blocks_is_refused():
    assert "no repeated blocks" in GradientCheckpointing().refuses(LOOKUP.fresh())


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_an_impossible_share_is_refused(share):
    assert "between 0 and 1" in GradientCheckpointing(share).refuses(WORDS.fresh())


@pytest.mark.parametrize(
    ("sizes", "share", "chosen"),
    [
        ([5, 5, 5], 1.0, [0, 1, 2]),
        ([5, 5, 5], 0.33, [0]),
        ([5] * 12, 0.33, [0, 1, 2, 3]),
        ([1, 9, 2], 0.5, [1]),
        ([1, 9, 2], 0.9, [1, 2]),
        ([0, 4, 0], 1.0, [1]),  # what saves nothing has nothing to forget
        ([0, 0], 1.0, []),
    ],
)
def test_the_largest_blocks_go_first(sizes, share, chosen):
    modules = [nn.Identity() for _ in sizes]
    found = largest(dict(zip(modules, sizes, strict=True)), share)
    assert sorted(map(modules.index, found)) == chosen


@pytest.mark.parametrize("workload", [IMAGES, WORDS], ids=["batch norm and dropout", "layer norm and dropout"])
@pytest.mark.parametrize("share", [0.33, 1.0])
def test_gradients_are_equal_to_the_bit(workload, share):
    plain, subject = workload.fresh(), workload.fresh()
    with GradientCheckpointing(share).applied(subject) as forgetting:
        assert stepped(forgetting, 3, model=subject.model) == stepped(plain, 3)
    assert bytes_of(subject.model) == bytes_of(plain.model)  # running statistics among them


def test_running_statistics_are_updated_once_a_step():
    subject = IMAGES.fresh()
    with GradientCheckpointing().applied(subject) as forgetting:
        stepped(forgetting, 3)
    assert subject.model.blocks[0].norm.num_batches_tracked == 3


def test_a_buffer_that_changes_the_answer_is_read_as_it_was():
    workload = Workload(
        name="counting",
        model=lambda: nn.Sequential(nn.Sequential(Counting()), nn.Sequential(Counting())),
        train=lambda: (torch.linspace(0, 1, 64).reshape(16, 4), torch.arange(16) % 4),
        val=lambda: (torch.zeros(4, 4), torch.arange(4)),
        batch_size=4,
    )
    plain, subject = workload.fresh(), workload.fresh()
    assert len(saved(subject).changing) == 2
    with GradientCheckpointing().applied(subject) as forgetting:
        assert stepped(forgetting, 3, model=subject.model) == stepped(plain, 3)


def test_looking_at_a_forward_pass_leaves_no_trace():
    subject = IMAGES.fresh()
    seed_everything(5)
    before, state = bytes_of(subject.model), torch.get_rng_state()
    seen = saved(subject)
    assert bytes_of(subject.model) == before
    assert torch.equal(torch.get_rng_state(), state)
    assert all(size > 0 for size in seen.bytes.values())
    assert {buffer.name for buffer in seen.changing} == {"running_mean", "running_var", "num_batches_tracked"}
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in subject.model.modules())


@pytest.mark.parametrize("workload", [IMAGES, WORDS], ids=["images", "words"])
def test_fewer_bytes_are_saved_for_backward(workload):
    held = []
    for change in (GradientCheckpointing(), GradientCheckpointing(0.33)):
        with change.applied(workload.fresh()) as subject:
            held.append(activation_bytes(subject, subject.fed(first_batch(subject.feed))))
    subject = workload.fresh()
    held.append(activation_bytes(subject, subject.fed(first_batch(subject.feed))))
    everything, a_third, nothing = held
    assert everything < a_third < nothing
    # What blocks save is most of it, and most of that goes: only their inputs stay.
    inside = sum(saved(workload.fresh()).bytes.values())
    assert nothing - everything > 0.5 * inside


def test_without_gradients_a_block_runs_as_it_is():
    subject = WORDS.fresh()
    batch = first_batch(subject.feed)
    with GradientCheckpointing().applied(subject), torch.no_grad():
        subject.model.eval()
        under_change = subject.forward(subject.model, batch)
    with torch.no_grad():
        assert torch.equal(under_change, subject.forward(subject.model, batch))


def test_a_forward_that_was_put_on_a_block_comes_back():
    subject = WORDS.fresh()
    block = subject.model.blocks[0]
    block.forward = own = lambda x: x.sin()
    with GradientCheckpointing().applied(subject):
        assert block.forward is not own
    assert block.forward is own
    assert "forward" not in subject.model.blocks[1].__dict__


def test_a_forward_pass_that_raises_while_it_is_looked_at_leaves_no_trace():
    subject = IMAGES.fresh()
    before = bytes_of(subject.model)
    broken = replace(subject, loss=lambda output, batch: 1 / 0)
    with pytest.raises(ZeroDivisionError), GradientCheckpointing().applied(broken):
        pass
    assert bytes_of(subject.model) == before
    assert not any("forward" in module.__dict__ for module in subject.model.modules())


def test_it_is_offered_as_a_price_for_memory():
    assert GradientCheckpointing.memory_only
    prediction = GradientCheckpointing(0.5).predicts(facts(timeline(forward=40, backward=60), account()))
    assert prediction.low < prediction.high < 0
    assert prediction.middle == pytest.approx(-0.2)
    assert "3.0 MB" in prediction.why


def test_where_weights_fill_the_memory_it_is_not_offered():
    assert GradientCheckpointing().predicts(facts(timeline(forward=1), account(activations=10**6))) is None
