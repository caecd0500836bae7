"""Compute with so many `threads`, whatever the script asks for."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """At once, and at every call of torch.set_num_threads."""
    import torch

    threads = int(settings["threads"])
    original = torch.set_num_threads
    original(threads)
    observer.replacements.replace("set threads", torch, "set_num_threads", lambda inner: lambda _: inner(threads))
