"""Changes that mean something else, or something at all, only on a CUDA device."""

from dataclasses import replace

import pytest
import torch

from interventions.specimens import IMAGES, PLAIN_IMAGES, WORDS, stepped
from netdyno.interventions.bf16_autocast import Bf16Autocast
from netdyno.interventions.channels_last import ChannelsLast
from netdyno.interventions.fp16_autocast import Fp16Autocast
from netdyno.interventions.pin_memory import PinMemory
from netdyno.interventions.tensor_slicing import TensorSlicing
from netdyno.measure.step import forward_loss, one_batch
from netdyno.targets.samples import same
from netdyno.targets.subject import tensors

pytestmark = pytest.mark.gpu


def on_the_device(workload):
    return replace(workload, device="cuda").fresh(0)


def without_dropout(subject):
    """Masks are drawn in the order of memory, which a layout changes."""
    for module in subject.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return subject


def first(subject, count=3):
    """The first batches as the loader gives them."""
    batches = subject.feed.epochs()
    try:
        return [next(batches) for _ in range(count)]
    finally:
        batches.close()


def test_batches_are_page_locked_and_copied_without_waiting(monkeypatch):
    asked = []
    real = torch.Tensor.to

    def to(self, *where, non_blocking=False, **more):
        asked.append((self.is_pinned(), non_blocking))
        return real(self, *where, non_blocking=non_blocking, **more)

    subject = on_the_device(WORDS)
    assert PinMemory().refuses(subject) is None
    with PinMemory().applied(subject) as inside:
        (batch,) = first(inside, 1)
        assert all(tensor.is_pinned() for tensor in tensors(batch))
        monkeypatch.setattr(torch.Tensor, "to", to)
        placed = inside.placed(batch)
    assert asked[0] == (True, True)
    assert all(tensor.is_cuda for tensor in tensors(placed))
    assert same(placed, batch)


def test_outside_nothing_is_page_locked():
    subject = on_the_device(WORDS)
    with PinMemory().applied(subject):
        pass
    assert not any(tensor.is_pinned() for tensor in tensors(first(subject, 1)))


def test_rows_on_the_device_are_the_loaders_to_the_bit_and_never_copied():
    subject = on_the_device(PLAIN_IMAGES)
    change = TensorSlicing("device")
    assert change.refuses(subject) is None
    expected = first(subject)
    with change.applied(subject) as inside:
        found = first(inside)
        assert all(tensor.is_cuda for tensor in tensors(found))
        placed = inside.placed(found[0])
        assert [a.data_ptr() for a in tensors(placed)] == [b.data_ptr() for b in tensors(found[0])]
    assert same(found, expected)


def test_rows_on_the_device_train_like_the_loaders():
    plain = stepped(on_the_device(PLAIN_IMAGES), 5).losses
    with TensorSlicing("device").applied(on_the_device(PLAIN_IMAGES)) as inside:
        assert stepped(inside, 5).losses == pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize("change", [Bf16Autocast(), Fp16Autocast()])
def test_autocast_runs_products_low_and_the_loss_high(change):
    subject = on_the_device(IMAGES)
    if change.refuses(subject) is not None:
        pytest.skip(f"this device refuses it: {change.refuses(subject)}")
    batch = one_batch(subject)
    seen = []
    with change.applied(subject) as inside:
        handle = inside.model.head.register_forward_hook(lambda _module, _inputs, output: seen.append(output.dtype))
        loss = forward_loss(inside, batch)
        handle.remove()
    assert seen == [torch.bfloat16 if isinstance(change, Bf16Autocast) else torch.float16]
    assert loss.dtype == torch.float32


@pytest.mark.parametrize("change", [Bf16Autocast(), Fp16Autocast()])
def test_steps_under_autocast_learn_and_leave_float32_weights(change):
    subject = on_the_device(IMAGES)
    if change.refuses(subject) is not None:
        pytest.skip(f"this device refuses it: {change.refuses(subject)}")
    with change.applied(subject) as inside:
        losses = stepped(inside, 30).losses
    assert sum(losses[-5:]) < sum(losses[:5])
    assert {parameter.dtype for parameter in subject.model.parameters()} == {torch.float32}


def test_a_step_that_overflows_in_float16_is_skipped_and_the_scale_falls():
    subject = on_the_device(PLAIN_IMAGES)
    with Fp16Autocast().applied(subject) as inside:
        stepped(inside, 1)
        before = inside.scaler.get_scale()
        weights = [parameter.detach().clone() for parameter in inside.model.parameters()]
        overflowing = replace(inside, loss=lambda output, batch: inside.loss(output, batch) * float("inf"))
        stepped(overflowing, 1)
        assert inside.scaler.get_scale() < before
    for now, then in zip(subject.model.parameters(), weights, strict=True):
        assert torch.equal(now, then)


def test_images_and_weights_are_channels_last_inside_and_as_before_outside():
    subject = on_the_device(IMAGES)
    assert ChannelsLast().refuses(subject) is None
    weight = subject.model.blocks[0].conv.weight
    before = weight.detach().clone(), weight.stride()
    with ChannelsLast().applied(subject) as inside:
        images = tensors(one_batch(inside))[0]
        assert images.is_cuda
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert weight.is_contiguous(memory_format=torch.channels_last)
        assert stepped(inside, 2).losses[0] > 0
    assert weight.stride() == before[1]
    assert weight.shape == before[0].shape


def test_a_step_in_channels_last_gives_the_same_loss():
    plain = stepped(without_dropout(on_the_device(PLAIN_IMAGES)), 1).losses
    with ChannelsLast().applied(without_dropout(on_the_device(PLAIN_IMAGES))) as inside:
        assert stepped(inside, 1).losses == pytest.approx(plain, rel=1e-3)
