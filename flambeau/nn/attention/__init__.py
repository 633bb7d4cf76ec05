"""How attention is computed, and attention with functions of scores; as `torch.nn.attention`.

`sdpa_kernel` chooses the backend of `scaled_dot_product_attention`, `bias` has masks that are never made, `flex_attention` functions
of scores and masks that become part of the kernels, `varlen` sequences of different lengths in one tensor.
"""

from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager

from ..._compat.absent import refusing as _refusing
from ...operations.neural.attention.backends import SDPBackend
from ...operations.neural.attention.backends import state as _state
from . import bias, flex_attention, varlen

__all__ = ["SDPBackend", "bias", "flex_attention", "sdpa_kernel", "varlen"]


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The backends that may be taken now, in order of priority if requested."""
    return _state.listed(with_priority)


@_contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> _Iterator[dict]:
    """Let `scaled_dot_product_attention` take these backends alone; `set_priority`: in this order.

    `SDPBackend` says what each is.  A call that none of them can serve is a RuntimeError.  The choice is the process's, in all
    threads.  AssertionError for anything but a backend or a list of them.

    >>> import flambeau
    >>> from flambeau.nn.attention import SDPBackend, sdpa_kernel
    >>> x = flambeau.ones(1, 1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    ...     flambeau.nn.functional.scaled_dot_product_attention(x, x, x).shape
    flambeau.Size([1, 1, 2, 4])
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {type(backends).__name__}"
        )
    wanted = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    before = _state.enabled, _state.order
    _state.choose(wanted, set_priority)
    try:
        yield {}
    finally:
        _state.enabled, _state.order = before


__getattr__ = _refusing("nn.attention")
