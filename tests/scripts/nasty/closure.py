import time

try:
    import torch

    model = torch.nn.Linear(4, 1)
    settings = {"max_iter": 10**9, "max_eval": 10**9, "tolerance_grad": 0, "tolerance_change": 0}
    optimizer = torch.optim.LBFGS(model.parameters(), **settings)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        time.sleep(0.01)
        return loss

    while True:
        optimizer.step(closure)
finally:
    print("tidied up")
