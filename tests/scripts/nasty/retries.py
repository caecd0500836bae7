from model import Training


def fit():
    training = Training()
    while True:
        training.step()


while True:
    try:
        fit()
    except BaseException as error:
        print("again", type(error).__name__, flush=True)
