"""What can be done about a released model that meets another camera: each step is gated, and each can be taken back.

The digits are those of scikit-learn; the second camera takes them hazy and with little contrast.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

from netdyno.aftercare import Reference, bad_cases, batchnorm_recalibration, odd_inputs
from netdyno.aftercare import switchable_batchnorm as switching
from netdyno.aftercare.drift import Counted, Watch, diverged


def digits():
    """Inputs and labels in an order of no meaning."""
    scans = load_digits()
    order = torch.randperm(len(scans.target), generator=torch.Generator().manual_seed(0))
    return torch.tensor(scans.data, dtype=torch.float32)[order] / 16, torch.tensor(scans.target)[order]


def hazy(inputs):
    """What the second camera makes of it."""
    return 0.25 * inputs + 0.8


def trained(inputs, labels):
    """A small network, in eval mode."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(15):
        for at in torch.randperm(len(inputs)).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[at]), labels[at]).backward()
            optimizer.step()
    return model.eval()


def main():
    inputs, labels = digits()
    model = trained(inputs[:600], labels[:600])
    reference = Reference(inputs=(inputs[1200:],), targets=labels[1200:])
    through_haze = Reference(inputs=(hazy(inputs[1200:]),), targets=labels[1200:])

    print("odd inputs")
    score = odd_inputs.fit(model, (inputs[:600],), labels[:600])
    found = odd_inputs.judge(score(model, reference.inputs), score(model, through_haze.inputs))
    print(f"  AUROC {found.auroc.middle:.3f} ({found.auroc.low:.3f} to {found.auroc.high:.3f})")
    alarm = odd_inputs.Trigger().saw(score.odd(score(model, through_haze.inputs)))
    print(f"  {alarm.says if alarm else 'no alarm'}")

    print("drift")
    wrong = [right == 0 for right in reference.scores(model) + through_haze.scores(model)]
    raised = Watch.from_offline(Counted(sum(wrong[:300]), 300)).follow(wrong[300:])
    print(f"  {raised.says if raised else 'nothing raised'}")
    print(f"  {diverged((Counted(80, 1000), Counted(50, 1000)), (Counted(310, 10_000), Counted(570, 10_000))).says}")

    print("a loop in eval mode")
    with batchnorm_recalibration.noticed(model) as loop, torch.no_grad():
        model(hazy(inputs[:600]))
    print(f"  {loop.says[0]}")

    print("statistics for each camera")
    switched = switching.switchable(model, ("clear", "hazy"))
    switching.fill(switched, "hazy", [(hazy(inputs[:1200]),)])
    cameras = {"clear": reference, "hazy": through_haze}
    selector = switching.StatisticsSelector([(inputs[:600],), (hazy(inputs[:600]),)])
    for says in switching.judged(switched, cameras, selector=selector).says:
        print(f"  {says}")

    print("statistics renewed, behind a gate, and taken back")
    renewed = batchnorm_recalibration.recalibrate(model, [(hazy(inputs[:1200]),)], reference=through_haze)
    for says in renewed.says:
        print(f"  {says}")
    renewed.undo(model)

    print("bad cases")
    looked = Reference(inputs=(hazy(inputs[:600]),), targets=labels[:600])
    bad = bad_cases.mine(model, looked)
    print(f"  {bad.says}")
    replay = Reference(inputs=(inputs[600:1200],), targets=labels[600:1200])
    tuned = bad_cases.fine_tune(model, bad.reference, replay=replay, regression=reference, max_drop=0.02, updates=300)
    for says in tuned.says:
        print(f"  {says}")


if __name__ == "__main__":
    main()
