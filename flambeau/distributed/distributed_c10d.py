"""PyTorch's own file of process groups, from which programs take what stands in `distributed` here."""

from __future__ import annotations

from .._compat.absent import refusing
from . import *  # noqa: F403
from . import __all__ as _public
from . import _coalescing_manager, _make_nccl_premul_sum  # noqa: F401
from ._flight import _dump_fr_trace, _dump_fr_trace_json  # noqa: F401
from ._groups import default_group as _get_default_group  # noqa: F401
from ._groups import get_default_store as _get_default_store  # noqa: F401
from ._groups import named as _resolve_process_group  # noqa: F401
from ._groups import rank_not_in_group as _rank_not_in_group  # noqa: F401
from ._groups import set_timeout as _set_pg_timeout  # noqa: F401
from ._groups import warn_not_in_group as _warn_not_in_group  # noqa: F401
from .constants import default_pg_nccl_timeout, default_pg_timeout

__all__ = [*_public, "default_pg_nccl_timeout", "default_pg_timeout"]

__getattr__ = refusing("distributed.distributed_c10d")
