"""How attention is computed, and attention with functions of scores; as `torch.nn.attention`.

`sdpa_kernel` chooses the backend of `scaled_dot_product_attention`, `bias` has masks that are never made, `flex_attention` functions
of scores and masks that become part of the kernels, `varlen` sequences of different lengths in one tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..._absent import refusing
from ...operations.neural.backends import SDPBackend, state
from . import bias, flex_attention, varlen

__all__ = ["SDPBackend", "bias", "flex_attention", "sdpa_kernel", "varlen"]


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The backends that may be taken now, in order of priority if asked."""
    return state.listed(with_priority)


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict]:
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
    before = state.enabled, state.order
    state.choose(wanted, set_priority)
    try:
        yield {}
    finally:
        state.enabled, state.order = before


__getattr__ = refusing("nn.attention")
