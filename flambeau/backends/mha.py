"""The fast path of `nn.MultiheadAttention` and transformer layers, which PyTorch has for inference.

Here training and inference take one path.  The switch says whether `nn.TransformerEncoder` makes zeros of padded places where the fast path
of PyTorch's does.
"""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_state = {"enabled": True}


def get_fastpath_enabled() -> bool:
    """What was set; True at first.

    >>> import flambeau
    >>> flambeau.backends.mha.get_fastpath_enabled()
    True
    """
    return _state["enabled"]


def set_fastpath_enabled(value: bool) -> None:
    """Sets the switch.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.backends.mha.set_fastpath_enabled(True)
    """
    _state["enabled"] = bool(value)
