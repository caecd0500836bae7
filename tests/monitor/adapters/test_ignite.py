import pytest
import torch

from monitor.adapters.proof import BATCH, data, journal, losses, network, same

engines = pytest.importorskip("ignite.engine", reason="pytorch-ignite is not installed")

EPOCHS = 3


def trained(store=None, *, breaks_at=None, swallow=False):
    import ignite.metrics

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(engine, batch):
        if engine.state.iteration == breaks_at:
            raise ZeroDivisionError("on purpose")
        model.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    trainer = engines.Engine(step)
    evaluator = engines.create_supervised_evaluator(model, metrics={"accuracy": ignite.metrics.Accuracy()})
    held_out = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data(32)), batch_size=BATCH)
    trainer.add_event_handler(engines.Events.EPOCH_COMPLETED, lambda _: evaluator.run(held_out))
    if swallow:
        trainer.add_event_handler(engines.Events.EXCEPTION_RAISED, lambda *_: None)
    if store is not None:
        from netdyno.monitor.adapters.ignite import NetdynoHandler

        handler = NetdynoHandler(model, optimizer, run="digits", store=store, quiet=True, settings={"lr": 0.1})
        handler.attach(trainer, evaluators={"validation": evaluator})
    torch.manual_seed(1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=BATCH, shuffle=True)
    trainer.run(loader, max_epochs=EPOCHS)
    return model


def test_a_run_is_the_same_to_the_last_bit(tmp_path):
    assert same(trained(), trained(tmp_path))


def test_steps_losses_results_and_settings_are_in_the_journal(tmp_path):
    trained(tmp_path)
    run = journal(tmp_path)
    assert run.end["reason"] == "ended"
    assert run.end["updates"] == losses(tmp_path) == 18
    assert run.series("evaluation/accuracy").updates.tolist() == [6, 12, 18]
    assert run.info.settings == {"lr": 0.1, "max_epochs": EPOCHS}


def test_what_raises_is_in_the_journal_and_raises(tmp_path):
    with pytest.raises(ZeroDivisionError):
        trained(tmp_path, breaks_at=8)
    run = journal(tmp_path)
    assert run.end["reason"] == "failed"
    assert "on purpose" in run.end["says"]


def test_an_exception_that_the_author_handles_stays_handled(tmp_path):
    assert same(trained(breaks_at=8, swallow=True), trained(tmp_path, breaks_at=8, swallow=True))
    assert journal(tmp_path).end["reason"] == "ended"
