"""The classes through which a framework is told what it makes itself: recognised where they are called literally."""

import libcst as cst

from netdyno.edits._tree import Code, only


def hugging(name: str | None) -> bool:
    """Training arguments of transformers, or of the package built on it."""
    return _of(name, "transformers", "trl") and str(name).endswith(("TrainingArguments", "SFTConfig"))


def skorch(name: str | None) -> bool:
    return _of(name, "skorch") and "NeuralNet" in str(name)


def lightning(name: str | None) -> bool:
    """Lightning's trainer, and the smaller Fabric, which takes `precision` in the same words."""
    kinds = (".Trainer", ".Fabric")
    return _of(name, "lightning", "pytorch_lightning", "lightning_fabric") and str(name).endswith(kinds)


def accelerator(name: str | None) -> bool:
    return _of(name, "accelerate") and str(name).endswith(".Accelerator")


def fastai(name: str | None) -> bool:
    return _of(name, "fastai")


def _of(name: str | None, *packages: str) -> bool:
    return name is not None and name.partition(".")[0] in packages


def told(code: Code) -> cst.Call | None:
    """The one call that tells transformers or skorch about optimizer and loader; None when there is none."""
    return only(code, hugging) or only(code, skorch)
