"""Lines that read values back: found at their line, and only the user's."""

import sys

import pytest
import torch
from torch import nn

from netdyno.measure.stopwatch import Reading
from netdyno.probes.sync_sites import collect
from netdyno.targets.workload import Workload


def subject(forward, *, loss=None, log=None, optimizer=None):
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return Workload(
        model=lambda: nn.Linear(4, 2),
        train=lambda: (data, (data.sum(1) > 0).long()),
        forward=lambda model, batch: forward(model(batch[0])),
        loss=loss,
        log=log,
        optimizer=optimizer,
        batch_size=8,
        name="w",
    ).fresh(0)


def line():
    return sys._getframe(1).f_lineno


READS = {
    ".item()": lambda output: output.sum().item(),
    "float(tensor)": lambda output: float(output.sum().detach()),
    "int(tensor)": lambda output: int(output.sum().detach()),
    "bool(tensor)": lambda output: bool(output.sum() > 0),
    ".tolist()": lambda output: output.tolist(),
    ".numpy()": lambda output: output.detach().numpy(),
    "nonzero": lambda output: output.nonzero(),
    "masked_select": lambda output: output.masked_select(output > 0),
    "equal": lambda output: torch.equal(output, output),
}


@pytest.mark.parametrize("call", READS)
def test_every_way_of_reading_a_value_is_found(call):
    def forward(output):
        READS[call](output)
        return output

    (site,) = collect(subject(forward), steps=2).sites
    assert (site.call, site.per_step) == (call, 1.0)
    assert site.where.file == __file__


def test_a_read_has_its_file_and_line():
    at = []

    def forward(output):
        at.append(line() + 1)
        output.sum().item()
        return output

    (site,) = collect(subject(forward), steps=2).sites
    assert (site.where.file, site.where.line) == (__file__, at[0])


def test_picking_by_a_mask_is_found_and_picking_by_numbers_is_no_read():
    def by_mask(output):
        output[output > 0]
        return output

    def by_numbers(output):
        output[torch.tensor([0, 1])]
        return output

    (site,) = collect(subject(by_mask), steps=2).sites
    assert site.call == "tensor[mask]"
    assert collect(subject(by_numbers), steps=2).sites == ()


def test_reads_are_counted_per_step():
    def forward(output):
        for row in output:
            row.sum().item()
        return output

    (site,) = collect(subject(forward), steps=3).sites
    assert site.per_step == 8.0


def test_a_model_that_reads_nothing_has_no_sites():
    assert collect(subject(lambda output: output * 2), steps=2).sites == ()


def test_what_torch_reads_for_itself_is_not_the_users():
    adam = lambda parameters: torch.optim.Adam(parameters, lr=0.1, foreach=False)
    assert collect(subject(lambda output: output, optimizer=adam), steps=2).sites == ()


def test_a_call_of_torch_that_reads_is_put_down_to_the_line_that_called_it():
    at = []
    leaf = nn.Parameter(torch.ones(3))
    leaf.grad = torch.ones(3)

    def forward(output):
        at.append(line() + 1)
        nn.utils.clip_grad_norm_([leaf], 1.0, error_if_nonfinite=True)
        return output

    sites = collect(subject(forward), steps=2).sites
    assert sites
    assert {(site.where.file, site.where.line) for site in sites} == {(__file__, at[0])}


def test_the_log_reads_the_loss():
    def log(model, loss):
        pass

    (site,) = collect(subject(lambda output: output, log=log), steps=2).sites
    assert (site.where.file, site.where.line) == (__file__, log.__code__.co_firstlineno)
    assert site.call == "float(loss) for the log"


def test_the_seconds_of_reads_are_those_inside_of_them():
    now = [0]

    def clock():
        now[0] += 1_000_000
        return Reading(now[0], now[0], 0)

    def forward(output):
        output.sum().item(), output.sum().item()
        return output

    assert collect(subject(forward), steps=2, clock=clock).seconds_per_step == pytest.approx(0.002)
