from contextlib import contextmanager

import torch
import torch.nn.functional as F

from aboard import specimens
from netdyno.aboard.config import Config
from netdyno.aboard.observe import install


@contextmanager
def watched(**settings):
    observer = install(Config(**({"folder": "", "hz": 0, "warmup": 0} | settings)))
    try:
        yield observer
    finally:
        observer.close()
    assert observer.troubles == []


def test_what_is_around_a_forward_holds_the_loss_and_not_the_backward_pass():
    seen = []

    @contextmanager
    def around():
        seen.append("in")
        yield
        seen.append("out")

    net = specimens.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as observer:
        observer.view.around_forward.append(around)
        output = net(torch.ones(2, 8))
        seen.append("loss")
        loss = F.cross_entropy(output, torch.tensor([0, 1]))
        loss.register_hook(lambda _: seen.append("backward"))
        loss.backward()
        optimizer.step()
    assert seen == ["in", "loss", "out", "backward"]


def test_autocast_can_be_put_around_a_forward():
    net = specimens.model()
    with watched() as observer:
        observer.view.around_forward.append(lambda: torch.autocast("cpu", torch.bfloat16))
        output = net(torch.ones(2, 8))
        assert output.dtype == torch.bfloat16
        output.sum().backward()
        assert not torch.is_autocast_enabled("cpu")
        with torch.no_grad():
            assert net(torch.ones(2, 8)).dtype == torch.float32


def test_arguments_and_forwards_can_be_replaced():
    net = specimens.model()
    with watched() as observer:
        observer.view.inputs.append(lambda args, kwargs: ((args[0] * 2,), kwargs))
        observer.view.calls[id(net)] = lambda x: x
        assert torch.equal(net(torch.ones(2, 8)), torch.full((2, 8), 2.0))
        with torch.no_grad():
            assert torch.equal(net(torch.ones(2, 8)), torch.full((2, 8), 2.0))
        observer.view.calls.clear()
        observer.view.inputs.clear()
        assert net(torch.ones(2, 8)).shape == (2, 3)


def test_evaluation_can_be_put_into_inference_mode():
    net = specimens.model()
    with watched() as observer:
        observer.view.around_evaluation.append(torch.inference_mode)
        with torch.no_grad():
            assert net(torch.ones(2, 8)).is_inference()
        assert not net(torch.ones(2, 8)).is_inference()


def test_loaders_and_optimizers_can_be_made_otherwise_and_the_authors_wishes_are_known():
    with watched() as observer:
        observer.view.loader_arguments.append(lambda dataset, wishes: wishes | {"batch_size": 4})
        observer.view.optimizer_arguments.append(lambda kind, wishes: wishes | {"foreach": False})
        loader = specimens.data(batch=8)
        optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    assert loader.batch_size == 4
    assert optimizer.defaults["foreach"] is False
    assert observer.view.explicit == {"loader": {"batch_size", "shuffle"}, "optimizer": {"lr"}}


def test_what_trains_is_listed():
    with watched() as observer:
        specimens.evaluating()
    assert [type(model).__name__ for model in observer.view.models] == ["Sequential"]
    assert [type(optimizer).__name__ for optimizer in observer.view.optimizers] == ["SGD"]
    assert len(observer.view.loaders) == 1


def test_weights_are_nudged_once_before_the_first_training_forward():
    net = torch.nn.Linear(2, 2)
    before = net.weight.detach().clone()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with watched(nudge=1):
        for _ in range(2):
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert torch.equal(net.weight, torch.nextafter(before, torch.full((), float("inf"))))
