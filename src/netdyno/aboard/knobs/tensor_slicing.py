"""Cut a whole batch from the tensors that hold the data set, instead of stacking it sample by sample.

The loader and its sampler stay, so this saves less than a program that has no loader at all.
"""

from typing import Any, NamedTuple

from ._base import Settings, kept_randomness
from ._samples import StandIn, cannot_stand_in, cut_from_memory, other_loaders, same, spread, stream, tensors_behind

WHEN = "toggle"
STAGE = 3
PROBED = 16  # samples that are put together in both ways before it is believed that the two are the same
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


class Cut(NamedTuple):
    """A finished batch on its way through the collating function."""

    batch: Any


def refuses(view: Any, settings: Settings) -> str | None:
    if settings.get("where", "host") != "host":
        return "aboard a script rows stay where they are, on the host"
    if not view.loaders:
        return "no DataLoader feeds the training"
    reasons = [_unfit(loader) for loader in view.loaders]
    return reasons[0] if all(reasons) else None


def _unfit(loader: Any) -> str | None:
    from torch.utils.data import default_collate

    dataset = loader.dataset
    if stream(dataset):
        return "the data set is a stream: its samples have no numbers to cut by"
    if not cut_from_memory(dataset) or not len(dataset):
        return "samples are not rows of tensors that are in memory"
    if loader.batch_sampler is None:
        return "the script already asks for whole batches"
    if loader.num_workers:
        return "loader workers read from copies of the data set, made when they started"
    if loader.collate_fn is not default_collate:
        return "the script puts batches together with a function of its own"
    if any(each.collate_fn is not default_collate or each.num_workers for each in other_loaders(loader)):
        return "another loader reads the same data set in a way of its own"
    if any(tensor.device.type != "cpu" for tensor in tensors_behind(dataset) or ()):
        return "the rows are on a device"
    return cannot_stand_in(dataset) or _different(dataset)


def _different(dataset: Any) -> str | None:
    from torch.utils.data import default_collate

    chosen = spread(len(dataset), PROBED)[::-1]
    with kept_randomness():
        stacked = default_collate([dataset[index] for index in chosen])
        cut = _cutting(dataset)(chosen)
    if not same(stacked, cut):
        return "a batch cut from the tensors is not laid out as the script's own"
    return None


def _cutting(dataset: Any) -> Any:
    import torch

    columns = tensors_behind(dataset) or ()

    def cut(indices: Any) -> Any:
        chosen = torch.as_tensor(indices)
        return [column.index_select(0, chosen) for column in columns]

    return cut


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._view = view
        self._standing: dict[int, StandIn] | None = None

    def on(self) -> None:
        from torch.utils.data._utils.collate import default_collate_fn_map

        if self._standing is None:
            datasets = {id(each.dataset): each.dataset for each in self._view.loaders if _unfit(each) is None}
            self._standing = {key: _sliced(dataset) for key, dataset in datasets.items()}
        default_collate_fn_map[Cut] = _whole
        for standing in self._standing.values():
            standing.on()

    def off(self) -> None:
        from torch.utils.data._utils.collate import default_collate_fn_map

        for standing in (self._standing or {}).values():
            standing.off()
        default_collate_fn_map.pop(Cut, None)


def _sliced(dataset: Any) -> StandIn:
    cut = _cutting(dataset)

    def several(self: Any, indices: Any) -> Any:
        return [Cut(cut(indices))]

    return StandIn(dataset, __getitems__=several)


def _whole(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return batch[0].batch
