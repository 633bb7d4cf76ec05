"""Objects that have a state: `Stateful`, which `save` and `load` call `state_dict` and `load_state_dict` of."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """An object with `state_dict` and `load_state_dict`, such as a module, an optimizer or a scheduler.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.stateful import Stateful
    >>> isinstance(flambeau.nn.Linear(1, 1), Stateful), isinstance({}, Stateful)
    (True, False)
    """

    def state_dict(self) -> dict[str, Any]:
        """The state, as a dictionary of tensors and other objects; also called by `load`, which writes into its tensors."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state over."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
