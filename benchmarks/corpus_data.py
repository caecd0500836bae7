"""Stand-ins for the data that public training scripts ask for, each where its script looks for it.

    PYTHON benchmarks/corpus_data.py ROOT [--mnist FOLDER]

PYTHON is the interpreter that runs the scripts. ROOT holds one checkout per repository, as `corpus_list.py` names them. No
script is edited: only files are laid beside it. Images of clothes stand in for digits (same files, same shapes), made-up
graphs, pictures and text for the rest. What is there already is left alone.
"""

import argparse
import gzip
import json
import pickle
import pydoc_data.topics
import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

# Debian's package dataset-fashion-mnist puts its four files here.
FASHION = Path("/usr/share/datasets/fashion-mnist")
SEED = 20
CORA = {"papers": 2708, "words": 1433, "subjects": 7, "citations": 5429}


def words() -> str:
    """The documentation that comes with Python: real English, and everybody has it."""
    return "\n\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))


def mnist(folders: tuple[Path, ...], *, fashion: Path) -> None:
    """The four files in the layout that torchvision's MNIST expects, unpacked."""
    for folder in folders:
        raw = folder / "MNIST" / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        for packed in fashion.glob("*-ubyte.gz"):
            unpacked = raw / packed.stem
            if not unpacked.exists():
                unpacked.write_bytes(gzip.decompress(packed.read_bytes()))


def picture(generator: np.random.Generator, side: int) -> Image.Image:
    """A picture with soft shapes: it packs and unpacks like a photograph, not like noise."""
    small = generator.integers(0, 255, size=(8, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC)


def pictures(folder: Path, *, count: int, side: int, name: str = "{}.jpg") -> Iterator[tuple[Path, Image.Image]]:
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(SEED)
    for number in range(count):
        image = picture(generator, side)
        path = folder / name.format(number)
        image.save(path, quality=90)
        yield path, image


def image_classes(folder: Path, *, classes: int, each: int, side: int) -> None:
    """One folder per class for training and for validation."""
    for part in ("train", "val"):
        for number in range(classes):
            list(pictures(folder / part / f"class{number}", count=each, side=side))


def images_and_masks(folder: Path, *, count: int, side: int) -> None:
    """Pictures with the mask that says where they are bright, in the folders of a segmentation script."""
    masks = folder / "masks"
    masks.mkdir(parents=True, exist_ok=True)
    for path, image in pictures(folder / "imgs", count=count, side=side):
        Image.fromarray(np.where(np.asarray(image.convert("L")) > 128, 255, 0).astype(np.uint8)).save(
            masks / f"{path.stem}_mask.gif"
        )


def cora(folder: Path) -> None:
    """A made-up citation graph in the files of the Cora data set, and the same as its archive."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(SEED)
    subjects = generator.integers(0, CORA["subjects"], CORA["papers"])
    favourites = generator.random((CORA["subjects"], CORA["words"])) ** 8
    with (folder / "cora.content").open("w") as content:
        for paper, subject in enumerate(subjects):
            has = (generator.random(CORA["words"]) < favourites[subject] * 0.15).astype(int)
            content.write("\t".join([str(paper + 1), *map(str, has), f"Subject_{subject}"]) + "\n")
    pairs = generator.integers(1, CORA["papers"] + 1, size=(CORA["citations"], 2))
    np.savetxt(folder / "cora.cites", pairs, fmt="%d", delimiter="\t")


def requests_offline(shims: Path, graph: Path) -> None:
    """A module named `requests` that hands out the made-up graph, for the script that downloads it every time."""
    package = shims / "requests"
    package.mkdir(parents=True, exist_ok=True)
    with tarfile.open(package / "cora.tgz", "w:gz") as archive:
        archive.add(graph, arcname="cora")
    (package / "__init__.py").write_text(OFFLINE)


OFFLINE = '''"""Answers every request with the one archive that lies beside this file."""
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace


@contextmanager
def get(url, **settings):
    with (Path(__file__).parent / "cora.tgz").open("rb") as archive:
        yield SimpleNamespace(raw=archive, status_code=200)
'''


def wikitext(folder: Path, *, ending: str = "txt") -> None:
    """Words in lines, three parts."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line for line in words().splitlines() if line.strip()]
    for part, chosen in (("train", lines), ("valid", lines[::20]), ("test", lines[1::20])):
        path = folder / f"{part}.{ending}"
        if not path.exists():
            path.write_text("\n".join(chosen) + "\n", encoding="utf8")


def characters(folder: Path) -> None:
    """Characters as numbers of two bytes, with their dictionary."""
    text = words()
    alphabet = sorted(set(text))
    number = {character: place for place, character in enumerate(alphabet)}
    numbers = np.array([number[character] for character in text], dtype=np.uint16)
    folder.mkdir(parents=True, exist_ok=True)
    cut = len(numbers) * 9 // 10
    numbers[:cut].tofile(folder / "train.bin")
    numbers[cut:].tofile(folder / "val.bin")
    meta = {"vocab_size": len(alphabet), "itos": dict(enumerate(alphabet)), "stoi": number}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def enwik8(path: Path) -> None:
    """A hundred million bytes of text, packed; the text repeats."""
    text = words().encode("ascii", "ignore")
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb", compresslevel=1) as packed:
        for _ in range(100_000_000 // len(text) + 1):
            packed.write(text)


def sine_waves(path: Path) -> None:
    """A hundred sine waves of a thousand points, each with its own phase."""
    import torch

    generator = np.random.default_rng(SEED)
    phases = generator.integers(-80, 80, size=(100, 1))
    torch.save(np.sin((np.arange(1000) + phases) / 20.0), path)


def tiny_language_model(folder: Path) -> None:
    """A GPT-2 of two small layers with random weights, and a tokenizer trained on the same text."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator([words()], vocab_size=1000, special_tokens=["<|endoftext|>"], show_progress=False)
    bpe.save_model(str(folder))
    tokenizer = GPT2TokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"), pad_token="<|endoftext|>")
    tokenizer.save_pretrained(folder)
    config = GPT2Config(
        vocab_size=1000, n_positions=256, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    GPT2LMHeadModel(config).save_pretrained(folder)


def conversations(folder: Path, *, count: int) -> None:
    """Questions and answers: headings of the documentation and what stands under them."""
    folder.mkdir(parents=True, exist_ok=True)
    topics = sorted(pydoc_data.topics.topics.items())
    chance = random.Random(SEED)
    with (folder / "train.jsonl").open("w") as rows:
        for _ in range(count):
            name, text = chance.choice(topics)
            start = chance.randrange(max(len(text) - 400, 1))
            rows.write(json.dumps({"prompt": f"What is {name}?", "completion": text[start : start + 400]}) + "\n")


def once(path: Path, make: Callable[[], None]) -> None:
    """Make it unless it is there; say what is missing instead of leaving half a file behind."""
    if path.exists():
        return
    print(f"making {path}", flush=True)
    try:
        make()
    except (ImportError, OSError, ValueError) as trouble:
        print(f"  left out: {type(trouble).__name__}: {trouble}", flush=True)


def prepare(root: Path, *, fashion: Path) -> None:
    """Lay every stand-in where its script looks for it."""
    examples, lightning = root / "examples", root / "lightning" / "examples"
    once(
        root / "PyTorch-GAN/data/mnist/MNIST/raw",
        lambda: mnist(
            (
                examples / "data",
                examples / "mnist_forward_forward" / "data",
                root / "PyTorch-GAN" / "data" / "mnist",
                lightning / "Datasets",
                root / "lightning" / "Datasets",
                lightning / "pytorch" / "basics" / "data",
            ),
            fashion=fashion,
        ),
    )
    once(examples / "gcn/cora", lambda: cora(examples / "gcn/cora"))
    once(examples / "gat/cora", lambda: cora(examples / "gat/cora"))
    once(root / "shims/requests", lambda: requests_offline(root / "shims", examples / "gcn/cora"))
    once(
        examples / "word_language_model/data/wikitext-2/train.txt",
        lambda: wikitext(examples / "word_language_model/data/wikitext-2"),
    )
    once(
        root / "skorch/examples/word_language_model/data/penn/train.txt",
        lambda: wikitext(root / "skorch/examples/word_language_model/data/penn"),
    )
    once(
        examples / "time_sequence_prediction/traindata.pt",
        lambda: sine_waves(examples / "time_sequence_prediction/traindata.pt"),
    )
    bsds = examples / "super_resolution/dataset/BSDS300/images"
    once(bsds / "train", lambda: pictures_all(bsds / "train", count=200, side=321))
    once(bsds / "test", lambda: pictures_all(bsds / "test", count=100, side=321))
    text = words()
    once(root / "minGPT/input.txt", lambda: (root / "minGPT/input.txt").write_text(text) and None)
    once(root / "nanoGPT/data/pydoc", lambda: characters(root / "nanoGPT/data/pydoc"))
    once(root / "x-transformers/data/enwik8.gz", lambda: enwik8(root / "x-transformers/data/enwik8.gz"))
    once(
        root / "Pytorch-UNet/data/imgs/0.jpg", lambda: images_and_masks(root / "Pytorch-UNet/data", count=40, side=256)
    )
    once(root / "images", lambda: image_classes(root / "images", classes=4, each=40, side=128))
    for part in ("fabric/language_model", "pytorch/basics"):
        path = lightning / part / "data" / "wikitext-2.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        once(path, lambda path=path: path.write_text(text, encoding="utf8") and None)
    once(root / "tiny-gpt2", lambda: tiny_language_model(root / "tiny-gpt2"))
    once(root / "conversations", lambda: conversations(root / "conversations", count=400))


def pictures_all(folder: Path, *, count: int, side: int) -> None:
    for _ in pictures(folder, count=count, side=side):
        pass


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="the folder that holds one checkout per repository")
    parser.add_argument(
        "--mnist", type=Path, default=FASHION, help="a folder with the four packed files of Fashion-MNIST"
    )
    options = parser.parse_args()
    prepare(options.root.resolve(), fashion=options.mnist)


if __name__ == "__main__":
    main()
