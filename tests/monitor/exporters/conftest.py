import pytest

from netdyno.store.journal import Journal, Run, new_info

ALERT = {
    "cause": "exploding-gradients", "severity": "trip", "says": "the gradient norm is 1100", "update": 3, "seconds": 0.3,
    "fix": "halve the learning rate",
}  # fmt: skip


@pytest.fixture
def journal(tmp_path):
    """Makes a journal with `updates` losses and a few other things; with `live`, one that is still written."""
    made = []

    def make(updates=5, live=False):
        info = new_info("digits", tags={"stage": "optim"}, settings={"lr": 0.1, "batch": 16, "note": None})
        writes = Journal.create(tmp_path / "store", info, flush_s=60.0)
        for update in range(1, updates + 1):
            writes.point("loss", update, 1.0 / update, update / 10)
        writes.point("gradient_norm/layers[0]", 2, 3.5, 0.2)
        writes.point("gradient_norm/layers[0]", 3, float("nan"), 0.3)
        writes.event("histogram", 4, of="output", at=4, edges=[-1.0, 0.0, 2.0], counts=[3, 5], not_finite=0)
        writes.event("histogram", 4, of="broken", at=4, edges=[0.0], counts=[3, 5])
        writes.event("alert", 3, alert=ALERT)
        writes.event("alert", 3, alert={"cause": "half an alert"})
        writes.flush()
        run = Run(writes.folder)
        if not live:
            writes.close("ended", updates)
            return run
        made.append(writes)
        return run, writes

    yield make
    for writes in made:
        writes.close("ended", 1)
