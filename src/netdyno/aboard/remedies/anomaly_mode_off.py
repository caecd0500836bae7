"""Leave autograd's anomaly mode off, whoever switches it on."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.autograd's switch and contexts."""
    import torch
    from torch.autograd import anomaly_mode

    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **kwargs)
            torch.set_anomaly_enabled(False)  # type: ignore[no-untyped-call]

        return __init__

    def enter(original: Any) -> Any:
        def __enter__(self: Any) -> Any:  # noqa: N807
            entered = original(self)
            torch.set_anomaly_enabled(False)  # type: ignore[no-untyped-call]
            return entered

        return __enter__

    observer.replacements.replace("anomaly off", anomaly_mode.set_detect_anomaly, "__init__", make)
    observer.replacements.replace("anomaly off", anomaly_mode.detect_anomaly, "__enter__", enter)
