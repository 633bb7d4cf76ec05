"""Operations that programs add: functions that become operations as ours are.  The names are imported with the first of them."""

from typing import TYPE_CHECKING

from ..core.base.lazily import on_first_use as _on_first_use

if TYPE_CHECKING:
    from ._names import *  # noqa: F403

__getattr__, __dir__ = _on_first_use(
    "flambeau.library",
    "_names",
    alone=(
        "_aten", "_binding", "_checking", "_definitions", "_fakes", "_inference", "_keys", "_libraries", "_operators", "_packets",
        "_schema", "_tape", "_where",
    ),
)  # fmt: skip
