import pickle

import torch


class Mine:
    pass


if __name__ == "__main__":
    print(pickle.loads(pickle.dumps(Mine())).__class__.__module__, torch.__version__ > "2")
