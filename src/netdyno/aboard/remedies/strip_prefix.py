"""Load a checkpoint under names without a `prefix` that the model's own do not have."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In modules' load_state_dict; a prefix that the model has and the checkpoint lacks is put in front."""
    import torch

    prefix = str(settings["prefix"])

    def make(original: Any) -> Any:
        def load_state_dict(self: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
            own = set(self.state_dict())
            renamed = {
                next((each for each in (name, name.removeprefix(prefix), prefix + name) if each in own), name): value
                for name, value in state.items()
            }
            return original(self, renamed, *args, **kwargs)

        return load_state_dict

    observer.replacements.replace("strip prefix", torch.nn.Module, "load_state_dict", make)
