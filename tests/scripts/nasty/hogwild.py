import torch
import torch.multiprocessing as mp


def fit(rank, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    model = torch.nn.Linear(4, 1)
    model.share_memory()
    processes = [mp.Process(target=fit, args=(rank, model)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("tested")
