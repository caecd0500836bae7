import multiprocessing

from model import Training


def fit(_):
    training = Training()
    while True:
        training.step()


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(fit, [0])
