import inspect
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F

from aboard import specimens
from netdyno.aboard.config import Config
from netdyno.aboard.facts import _transformed
from netdyno.aboard.observe import install


@contextmanager
def watched(**settings):
    observer = install(Config(**({"folder": "", "hz": 0, "warmup": 0} | settings)))
    try:
        yield observer
    finally:
        observer.close()
    assert observer.troubles == []


def usual(observer):
    events = observer.summary()["events"]
    return max(events, key=events.get)


def test_a_plain_script_is_counted_and_split():
    with watched() as observer:
        specimens.plain()
    told = observer.summary()
    assert (told["updates"], told["counted_by"], told["cycle"]) == (16, "optimizer", 1)
    assert usual(observer) == "sync data zero_grad fwd bwd step0"
    assert {"data", "zero_grad", "forward", "loss", "backward", "optimizer", "netdyno"} <= set(told["phases"])


def test_phases_add_up_to_the_wall_time_exactly():
    with watched() as observer:
        specimens.evaluating()
    assert sum(sum(parts) for parts in observer.account.phases().values()) == observer.account.wall


def test_losses_are_the_same_to_the_last_digit():
    alone = specimens.plain()
    with watched(losses=True) as observer:
        together = specimens.plain()
    assert together == alone == observer.summary()["losses"]


def test_no_global_random_number_is_drawn():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with watched():
        pass
    assert torch.equal(before, torch.get_rng_state())


def test_closing_leaves_torch_as_it_was():
    def attributes():
        owners = (torch, torch.Tensor, torch.nn.Module, torch.autograd, F, torch.nn.utils, torch.optim.SGD)
        return [dict(vars(owner)) for owner in owners]

    before = attributes()
    with watched():
        specimens.plain()
    after = attributes()
    for old, new in zip(before, after, strict=True):
        assert {name for name in old | new if old.get(name) is not new.get(name)} <= {"step", "__annotations__"}


def test_every_patch_point_fires():
    with watched() as observer:
        assert {name: answer for name, answer in observer.points.items() if not answer["ok"]} == {}
        assert len(observer.points) > 30


def test_a_gan_has_a_period_of_two():
    with watched() as observer:
        specimens.gan()
    assert observer.cycle == 2
    assert set(observer.summary()["events"]) >= {"zero_grad fwd bwd fwd*2 bwd step1", "zero_grad fwd*2 bwd step0"}


def test_five_critics_to_one_generator_have_a_period_of_six():
    with watched() as observer:
        specimens.gan(updates=30, critics=5)
    assert observer.cycle == 6


def test_a_gan_is_not_blamed_for_gradients_that_are_cleared_in_time():
    with watched() as observer:
        specimens.gan()
    assert observer.summary()["facts"]["order"]["gradients_never_cleared"] is False


def test_updates_by_hand_are_counted_by_backward_passes():
    with watched() as observer:
        specimens.by_hand(30)
    told = observer.summary()
    assert told["counted_by"] == "backward"
    assert told["updates"] == 30 - 12


def test_a_closure_runs_within_the_optimizer_and_is_seen():
    with watched() as observer:
        specimens.closures()
    told = observer.summary()
    assert told["updates"] == 3
    assert "fwd" in usual(observer)
    assert "bwd" in usual(observer)
    assert sum(told["phases"]["optimizer"]) > 0


def test_evaluation_is_told_by_the_grad_mode_and_knows_its_loader():
    with watched() as observer:
        specimens.evaluating()
    facts = observer.summary()["facts"]
    assert [loader["used_for"] for loader in facts["loaders"]] == ["training", "evaluation"]
    assert [loader["shuffled"] for loader in facts["loaders"]] == [True, False]
    assert facts["evaluation"]["forwards"] == 24
    assert facts["evaluation"]["updates_between"] == 8
    assert facts["evaluation"]["with_gradients"] is None


def test_validation_with_gradients_is_told_with_its_line():
    with watched() as observer:
        specimens.evaluating(with_gradients=True)
    found = observer.summary()["facts"]["evaluation"]["with_gradients"]
    lines, first = inspect.getsourcelines(specimens.evaluating)
    assert found["file"] == specimens.__file__
    assert "net(x).argmax" in lines[found["line"] - first]
    assert 10 <= found["count"] <= 16  # two of three epochs are followed by updates


def test_policies_that_act_with_gradients_are_no_validation():
    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        for episode in range(12):
            outputs = [net(torch.ones(1, 8)).sum() for _ in range(episode % 5 + 1)]
            optimizer.zero_grad()
            torch.stack(outputs).sum().backward()
            optimizer.step()
    assert observer.summary()["facts"]["evaluation"]["with_gradients"] is None


def test_reads_are_told_by_the_users_line_and_not_within_the_optimizer():
    net = specimens.model()
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    with watched() as observer:
        for _ in range(4):
            loss = net(torch.ones(2, 8)).sum()
            loss.backward()
            optimizer.step()
            loss.item()
    (read,) = observer.summary()["facts"]["syncs"]
    assert (read["call"], read["per_update"], read["phase"]) == ("item", 1.0, "after optimizer")
    assert read["file"] == __file__


def test_gradients_that_are_never_cleared_are_told():
    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        for _ in range(8):
            net(torch.ones(2, 8)).sum().backward()
            optimizer.step()
    assert observer.summary()["facts"]["order"]["gradients_never_cleared"] is True


def test_gradients_cleared_by_hand_are_cleared():
    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        for _ in range(8):
            net(torch.ones(2, 8)).sum().backward()
            optimizer.step()
            for weight in net.parameters():
                weight.grad = None
    assert observer.summary()["facts"]["order"]["gradients_never_cleared"] is False


def test_clipping_before_unscaling_and_skipped_updates_are_told():
    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with watched() as observer:
        for update in range(4):
            optimizer.zero_grad()
            loss = net(torch.full((2, 8), float("inf") if update == 2 else 1.0)).sum()
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    told = observer.summary()
    assert told["updates"] == 3
    assert told["facts"]["order"]["skipped_updates"] == 1
    assert told["facts"]["order"]["clip_before_unscale"][0] == __file__
    assert told["facts"]["scaler"] is True


def test_the_right_order_of_clipping_is_left_alone_and_the_loss_is_the_unscaled_one():
    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with watched() as observer:
        for _ in range(3):
            loss = net(torch.ones(2, 8)).sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    assert observer.summary()["facts"]["order"]["clip_before_unscale"] is None
    assert observer.last_loss == loss.item()


def test_weights_without_gradients_and_weights_in_no_optimizer_are_named():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused, self.forgotten = (torch.nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            return self.forgotten(self.used(x))

    net = Two()
    optimizer = torch.optim.SGD([*net.used.parameters(), *net.unused.parameters()], lr=0.1)
    with watched() as observer:
        for _ in range(4):
            optimizer.zero_grad()
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    parameters = observer.summary()["facts"]["parameters"]
    assert parameters["never"] == ["unused.weight", "unused.bias"]
    assert parameters["in_no_optimizer"] == ["forgotten.weight", "forgotten.bias"]


def test_a_target_network_that_only_judges_is_no_forgotten_model():
    net, target = specimens.model(), specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        for _ in range(4):
            with torch.no_grad():
                wanted = target(torch.ones(2, 8))
            optimizer.zero_grad()
            (net(torch.ones(2, 8)) - wanted).square().sum().backward()
            optimizer.step()
    assert observer.view.models == [net]
    assert observer.summary()["facts"]["parameters"]["never"] == []


def test_forwards_called_past_the_module_are_noticed():
    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        for _ in range(4):
            optimizer.zero_grad()
            net.forward(torch.ones(2, 8)).sum().backward()
            optimizer.step()
    # Sequential.forward calls its children, each of which is then at top level.
    assert observer.summary()["facts"]["direct_forward_calls"] is False

    class Direct(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(8))

        def forward(self, x):
            return x * self.weight

    net = Direct()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        for _ in range(4):
            net.forward(torch.ones(2, 8)).sum().backward()
            optimizer.step()
    assert observer.summary()["facts"]["direct_forward_calls"] is True


def test_modules_within_a_loader_are_not_the_model():
    transform = torch.nn.Linear(8, 8)

    class Transformed(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, at):
            return transform(torch.ones(8)).detach()

    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        for x in torch.utils.data.DataLoader(Transformed(), batch_size=2):
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()
    assert observer.view.models == [net]
    assert usual(observer) == "data zero_grad fwd bwd step0"


def test_a_scheduler_counts_when_it_steps_and_not_when_it_is_made():
    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
        for _ in range(4):
            net(torch.ones(2, 8)).sum().backward()
            optimizer.step()
            scheduler.step()
    assert observer.summary()["events"] == {"fwd bwd step0": 1, "sched fwd bwd step0": 3}


def test_activation_recomputation_is_a_phase_of_its_own():
    from torch.utils.checkpoint import checkpoint

    inner, last = specimens.model(), torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*inner.parameters(), *last.parameters()], lr=0.1)
    with watched() as observer:
        for _ in range(3):
            last(checkpoint(inner, torch.ones(2, 8), use_reentrant=False)).sum().backward()
            optimizer.step()
    assert sum(observer.summary()["phases"]["recompute"]) > 0
    assert usual(observer) == "fwd*2 bwd step0"


def test_a_loader_made_again_in_training_is_told():
    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        for _ in range(4):
            for x, _ in specimens.data(items=8):
                net(x).sum().backward()
                optimizer.step()
    assert observer.summary()["facts"]["loader_rebuilt"]["times"] == 3


def test_saves_are_counted_with_their_line(tmp_path):
    net = specimens.model()

    def save():
        torch.save(net.state_dict(), tmp_path / "model.pt")

    with watched() as observer:
        specimens.plain(after=save)
    (saved,) = observer.summary()["facts"]["saves"]
    assert (saved["file"], saved["count"]) == (__file__, 16)


def test_the_same_batches_have_the_same_checksum():
    sums = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        with watched() as observer:
            net = torch.nn.Linear(8, 3)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, _ in specimens.data():
                net(x).sum().backward()
                optimizer.step()
        sums.append(observer.summary()["checksum"])
    assert sums[0] == sums[1] != sums[2]


def test_a_script_that_trains_in_another_thread_is_found():
    from threading import Thread

    with watched() as observer:
        torch.nn.Identity()(torch.ones(1))
        thread = Thread(target=specimens.plain)
        thread.start()
        thread.join()
        assert observer.training_thread == thread.ident
    assert observer.updates == 16


def test_quick_updates_are_watched_in_bursts(monkeypatch):
    monkeypatch.setattr("netdyno.aboard.observe.QUICK_NS", 10**12)
    with watched() as observer:
        specimens.plain(epochs=65)
    told = observer.summary()
    assert told["updates"] == 520
    assert told["burst"] == {"watched": 50, "of": 500}
    assert told["watched"] == 50 + 20
    assert sum(observer.account.total) == observer.account.wall


def test_only_counting_splits_nothing():
    with watched(watch=False, losses=True) as observer:
        losses = specimens.plain()
    told = observer.summary()
    assert (told["updates"], told["phases"], told["losses"]) == (16, {}, losses)


def test_a_failing_boundary_is_noted_and_a_stop_goes_through():
    class Stop(SystemExit):
        pass

    def stop():
        if observer.updates == 3:
            raise Stop

    observer = install(Config(folder="", hz=0))
    observer.boundary += [lambda: 1 / 0, stop]
    with pytest.raises(Stop):
        specimens.plain()
    observer.close()
    assert observer.updates == 3
    assert observer.troubles[0] == ("boundary", "ZeroDivisionError: division by zero")
    assert observer.account.stack == []


def test_an_exception_in_the_script_passes_and_the_account_goes_on():
    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        for _ in range(3):
            with pytest.raises(RuntimeError):
                net(torch.ones(2, 9))
            net(torch.ones(2, 8)).sum().backward()
            optimizer.step()
    assert observer.updates == 3
    assert observer.account.stack == []


def test_readings_can_be_subtracted():
    readings = []
    with watched() as observer:
        observer.boundary.append(lambda: readings.append(observer.reading()))
        specimens.plain()
    first, last = readings[0], readings[-1]
    assert last["updates"] - first["updates"] == 15
    assert last["wall"] == sum(sum(parts) for parts in last["phases"].values())
    assert last["wall"] > first["wall"]


def test_losses_in_scripted_functions_still_compile():
    with watched():
        scripted = torch.jit.script(torch.nn.CrossEntropyLoss())
        assert scripted(torch.zeros(2, 3), torch.tensor([0, 1])).item() == pytest.approx(1.0986, abs=1e-3)


def test_the_innermost_users_line_is_sampled_with_its_phase():
    with watched() as observer:
        specimens.plain(after=observer.sampler.sample)
    found = observer.summary()["lines"]
    assert sum(line["samples"] for line in found) == observer.sampler.samples > 0
    assert found[0]["file"] == specimens.__file__


def test_lines_are_sampled_only_where_something_trains():
    observer = install(Config(folder="", hz=50))
    try:
        observer.forked()  # a worker of a loader, say
        specimens.model()(torch.ones(2, 8))
        assert observer.sampler._over is None
        specimens.plain()
        assert observer.sampler._over is not None
    finally:
        observer.close()


def test_a_transform_of_functions_is_told_from_plain_work():
    seen = []
    assert not _transformed()
    torch.func.vmap(lambda x: seen.append(_transformed()) or x)(torch.ones(2))
    assert seen == [True]


def test_a_model_that_is_called_and_not_trained_is_asked_for_no_gradients():
    net, exported = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        for _ in range(4):
            optimizer.zero_grad()
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        exported(torch.ones(2, 4))
    assert observer.summary()["facts"]["parameters"]["never"] == []


def test_models_of_later_folds_are_asked_as_often_as_the_first():
    with watched() as observer:
        for _ in range(3):
            net = torch.nn.Linear(4, 4)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(20):
                optimizer.zero_grad()
                net(torch.ones(2, 4)).sum().backward()
                optimizer.step()
    assert observer.summary()["facts"]["parameters"]["never"] == []
