"""A script that compiles its own model gets the graphs that it would get without us."""

import pytest
import torch
from aboard import specimens

from netdyno.aboard.config import Config
from netdyno.aboard.observe import install

pytestmark = pytest.mark.slow


def graphs(way):
    from torch._dynamo.testing import CompileCounter
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    counter = CompileCounter()
    net = specimens.model()
    criterion = torch.nn.CrossEntropyLoss()
    target = torch.tensor([0, 1])
    losses = []
    if way == "module":
        called = torch.compile(net, backend=counter)
    elif way == "in place":
        net.compile(backend=counter)
        called = net
    else:
        called = torch.compile(lambda x: criterion(net(x), target).item() + net(x).sum(), backend=counter)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        output = called(torch.ones(2, 8))
        loss = output if way == "function" else criterion(output, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    breaks = sum(counters["graph_break"].values())
    return counter.frame_count, counter.op_count, dict(counters["frames"]), breaks, losses


@pytest.mark.parametrize("way", ["module", "in place", "function"])
def test_graphs_are_the_same_with_and_without(way):
    alone = graphs(way)
    observer = install(Config(folder="", hz=0, warmup=0))
    try:
        together = graphs(way)
    finally:
        observer.close()
    assert together == alone
    assert observer.updates == 3
    assert observer.troubles == []
