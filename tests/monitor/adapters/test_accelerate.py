import pytest
import torch

from monitor.adapters.proof import BATCH, data, journal, losses, network, same

accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")

EPOCHS = 4


def train(store=None, *, accumulate=1, breaks_at=None):
    from netdyno.monitor.adapters.accelerate import watched

    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.9)
    torch.manual_seed(1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=BATCH, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    seen = watched(accelerator, run="segments", store=store, quiet=True, settings={"lr": 0.1}) if store else None
    if seen is None:
        loop(accelerator, model, optimizer, loader, schedule)
    else:
        assert type(seen.subject.optimizers[0]) is torch.optim.SGD
        with seen:
            loop(accelerator, model, optimizer, loader, schedule, breaks_at=breaks_at, seen=seen)
    return model


def loop(accelerator, model, optimizer, loader, schedule, *, breaks_at=None, seen=None):
    for _ in range(EPOCHS):
        for at, (x, y) in enumerate(loader):
            if at == breaks_at:
                raise ZeroDivisionError("on purpose")
            with accelerator.accumulate(model):
                loss = torch.nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        if seen is not None:
            seen.evaluated(accuracy=0.5)


@pytest.mark.parametrize(("accumulate", "steps"), [(1, 24), (2, 12)])
def test_a_loop_is_the_same_to_the_last_bit_and_each_step_counts_once(tmp_path, accumulate, steps):
    assert same(train(accumulate=accumulate), train(tmp_path, accumulate=accumulate))
    run = journal(tmp_path)
    assert run.end["reason"] == "ended"
    assert run.end["updates"] == losses(tmp_path) == steps
    assert len(run.series("evaluation/accuracy").values) == EPOCHS
    assert run.info.settings == {"mixed_precision": "no", "gradient_accumulation_steps": accumulate, "lr": 0.1}


def test_what_raises_is_in_the_journal_and_raises(tmp_path):
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, breaks_at=3)
    run = journal(tmp_path)
    assert (run.end["reason"], run.end["updates"]) == ("failed", 3)
