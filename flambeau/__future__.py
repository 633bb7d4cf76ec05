"""How `Module.to` and its kin, and `load_state_dict`, replace a module's parameters."""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether conversions give a module new parameters, rather than new data to the parameters that it has (the default).

    An optimiser that was made before a conversion then updates parameters that the module no longer has.

    >>> import flambeau
    >>> flambeau.__future__.set_overwrite_module_params_on_conversion(True)
    >>> layer = flambeau.nn.Linear(2, 1)
    >>> before = layer.weight
    >>> layer.double().weight is before
    False
    >>> flambeau.__future__.set_overwrite_module_params_on_conversion(False)
    """
    global _overwrite
    _overwrite = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions give a module new parameters; False by default."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether conversions and `load_state_dict` use `utils.swap_tensors`: parameters stay the same objects, also where their class changes.

    Graphs recorded before such a conversion raise RuntimeError in backward.

    >>> import flambeau
    >>> flambeau.__future__.set_swap_module_params_on_conversion(True)
    >>> layer = flambeau.nn.Linear(2, 1)
    >>> before = layer.weight
    >>> layer.double().weight is before
    True
    >>> flambeau.__future__.set_swap_module_params_on_conversion(False)
    """
    global _swap
    _swap = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """Whether conversions and `load_state_dict` swap tensors; False by default."""
    return _swap
