"""Data loaders: who made them and how, their batches, and the time until a batch is there."""

import contextlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

from . import asleep, steps
from .account import DATA, EVALUATION
from .frames import user_line
from .patches import Patches

if TYPE_CHECKING:
    from .observe import Observer

# Batches whose labels are looked at after the first ones: sorted data show in them that the class changes.
SELDOM = 16
# The iterator carries its loader's entry under this name.
MARK = "_netdyno_loader"


def patch(patches: Patches, observer: "Observer") -> None:
    """Construction, beginning of an epoch, and each batch."""
    from torch.utils.data import dataloader

    patches.replace("loader made", dataloader.DataLoader, "__init__", lambda original: _made(observer, original))
    patches.replace("loader begun", dataloader.DataLoader, "__iter__", lambda original: _begun(observer, original))
    patches.replace("batch", dataloader._BaseDataLoaderIter, "__next__", lambda original: _batch(observer, original))


def _made(observer: "Observer", original: Any) -> Any:
    signature = inspect.signature(original)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = observer.guarded("loader arguments", _arguments, signature, (self, *args), kwargs)
        if given is None:
            original(self, *args, **kwargs)
            return
        dataset, arguments = given
        observer.view.explicit["loader"].update(arguments)
        written = dict(arguments)
        for change in observer.view.loader_arguments:
            arguments = change(dataset, arguments)
        if arguments == written:
            original(self, *args, **kwargs)
        else:
            original(self, dataset, **arguments)
        observer.guarded("loader made", observer.facts.loader_made, self, user_line(sys._getframe(1)))

    return __init__


def _arguments(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, dict[str, Any]] | None:
    try:
        bound = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError:  # the script's own mistake: torch will say so
        return None
    bound.pop("self", None)
    return bound.pop("dataset", None), bound


def _begun(observer: "Observer", original: Any) -> Any:
    account = observer.account

    def __iter__(self: Any) -> Any:  # noqa: N807
        if not observer.candidate() or observer.fetching:
            return original(self)
        known = observer.facts.loader(self)
        evaluates = known.evaluates and not known.trains
        if not evaluates:
            observer.events.append(steps.LOADER)
        account.push(EVALUATION if evaluates else DATA)
        # What a loader does within (transforms that are modules, reading its seed) is the loader's own business.
        before, off, observer.inside, observer.off, observer.fetching = observer.inside, observer.off, 1, True, True
        try:
            iterator = original(self)
        finally:
            observer.inside, observer.off, observer.fetching = before, off, False
            account.pop()
        known.begun()
        with contextlib.suppress(AttributeError):  # an iterator of somebody's own, without room
            setattr(iterator, MARK, known)
        return iterator

    return __iter__


def _batch(observer: "Observer", original: Any) -> Any:
    account, sleep = observer.account, observer.sleep

    def __next__(self: Any) -> Any:  # noqa: N807
        if not observer.candidate() or observer.fetching:
            return original(self)
        known = getattr(self, MARK, None)
        if sleep.on and known is not None and known is sleep.loader:
            return asleep.batch(observer, original, self, known)
        evaluates = known is not None and known.evaluates and not known.trains
        if observer.entered and not evaluates:
            observer.leave_forward()
        account.push(EVALUATION if evaluates else DATA)
        before, off, observer.inside, observer.off, observer.fetching = observer.inside, observer.off, 1, True, True
        try:
            batch = original(self)
        finally:
            observer.inside, observer.off, observer.fetching = before, off, False
            account.pop()
        if not evaluates:
            observer.events.append(steps.DATA)
            observer.batches += 1
        if known is not None:
            observer.fetched = known
            known.batches += 1
            if known.batches <= 2 or known.batches == known.first_of_epoch or not known.batches % SELDOM:
                observer.guarded("first batches", known.look, batch, account)
            if observer.vitals is not None:
                observer.vitals.fetched(known, batch)
        if observer.counts_batches:
            observer.finish(-1)
        return batch

    return __next__
