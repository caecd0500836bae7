import torch

from monitor.gauges.rides import aboard, network, one, train


def test_each_groups_rate_is_told_when_it_changes():
    model = network()
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters(), "lr": 0.01, "name": "head"}]
    )
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, gamma=0.5)
    with aboard(one("learning-rate")) as told:
        for _ in range(10):
            train(model, optimizer, updates=1)
            schedule.step()
    assert told.points["learning_rate/0"] == [0.1, 0.05, 0.025]
    assert told.updates["learning_rate/0"] == [1, 5, 9]
    assert told.points["learning_rate/head"] == [0.01, 0.005, 0.0025]


def test_a_rate_that_is_a_tensor_is_read_at_looks():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.25), foreach=False)
    with aboard(one("learning-rate")) as told:
        train(model, optimizer, updates=3)
    assert set(told.points["learning_rate/0"]) == {0.25}
