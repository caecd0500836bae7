"""A script that compiles its own model gets the graphs that it would get without us."""

import json
import subprocess
import sys
import textwrap

import pytest

# In processes of their own, because the compiler remembers what it found when it was imported: our patches are there
# before it in any script.
SCRIPT = """
    import json, sys
    import torch
    if sys.argv[2] == "watched":
        from netdyno.aboard.config import Config
        from netdyno.aboard.observe import install
        observer = install(Config(folder="", warmup=0))
    import torch.nn.functional as F

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU())
            self.last = torch.nn.Linear(16, 3)

        def forward(self, x, target=None):
            output = self.last(self.inner(x))
            return output if target is None else F.cross_entropy(output, target)

    from torch._dynamo.testing import CompileCounter
    from torch._dynamo.utils import counters
    torch.manual_seed(0)
    counter, net, criterion = CompileCounter(), Net(), torch.nn.CrossEntropyLoss()
    target = torch.tensor([0, 1])
    if sys.argv[1] == "module":
        called = torch.compile(net, backend=counter)
    elif sys.argv[1] == "module with its loss":
        compiled = torch.compile(net, backend=counter)
        called = lambda x: compiled(x, target)
    elif sys.argv[1] == "in place":
        net.compile(backend=counter)
        called = net
    elif sys.argv[1] == "function":
        called = torch.compile(lambda x: criterion(net(x), target), backend=counter)
    else:
        called = torch.compile(lambda x: net(x).sum().item() + net(x).sum(), backend=counter)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        output = called(torch.ones(2, 8))
        loss = output if output.dim() == 0 else criterion(output, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if sys.argv[2] == "watched":
        assert observer.updates == 3 and not observer.troubles, observer.troubles
    breaks = sum(counters["graph_break"].values())
    print(json.dumps([counter.frame_count, counter.op_count, dict(counters["frames"]), breaks, losses]))
"""


def graphs(way, watched):
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), way, watched], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


# One way stands for all in every run: a compiler takes long to start, and it starts twice for each.
@pytest.mark.parametrize(
    "way",
    [
        "module",
        *(pytest.param(way, marks=pytest.mark.slow) for way in ("module with its loss", "in place", "function")),
    ],
)
def test_graphs_are_the_same_with_and_without(way):
    assert graphs(way, "watched") == graphs(way, "alone")


@pytest.mark.slow
def test_a_function_that_reads_a_value_has_the_same_graphs_and_breaks():
    watched, alone = graphs("function that reads", "watched"), graphs("function that reads", "alone")
    # At the break the compiler also looks at a few frames of ours, and finds nothing in them to compile.
    del watched[2], alone[2]
    assert watched == alone
