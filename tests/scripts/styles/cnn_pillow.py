"""A small convolutional network on images that its Dataset decodes with Pillow, one by one."""

import io
import random

import numpy as np
import torch
from PIL import Image, ImageOps
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class DigitFiles(Dataset):
    """Digits as packed PNG files, as they would lie on a disk."""

    def __init__(self, size=24, augment=False):
        digits = load_digits()
        self.labels = digits.target
        self.size = size
        self.augment = augment
        self.files = []
        for pixels in digits.images:
            image = Image.fromarray((pixels * 15).astype(np.uint8)).resize((32, 32))
            packed = io.BytesIO()
            image.save(packed, "PNG")
            self.files.append(packed.getvalue())

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = Image.open(io.BytesIO(self.files[index])).convert("L").resize((self.size, self.size))
        if self.augment and random.random() < 0.5:
            image = ImageOps.autocontrast(image)
        pixels = torch.from_numpy(np.array(image, dtype=np.float32)).unsqueeze(0) / 255
        return (pixels - 0.3) / 0.35, int(self.labels[index])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.head = nn.Linear(32 * 6 * 6, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.head(x.flatten(1))


def main():
    random.seed(3)
    torch.manual_seed(3)
    loader = DataLoader(DigitFiles(augment=True), batch_size=32, shuffle=True, num_workers=0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for step, (images, labels) in enumerate(loader):
        out = model(images)
        loss = F.cross_entropy(out, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
