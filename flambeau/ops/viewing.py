"""Views and indexing: compiled functions of `core/views.pyx` and `core/indexing.pyx` under their public
names.
"""

from __future__ import annotations

from .._tensor import Tensor
from ..core import views

try:
    from ..core import indexing
except ImportError:
    indexing = None
from .registry import register

_BOTH = (
    "reshape flatten ravel unflatten squeeze unsqueeze transpose swapaxes swapdims t permute movedim moveaxis adjoint narrow select "
    "diagonal as_strided detach split split_with_sizes chunk tensor_split unbind hsplit vsplit dsplit"
)
_METHODS = "view view_as reshape_as expand expand_as unfold detach_ squeeze_ unsqueeze_ t_ transpose_ resize_ resize_as_ set_ is_contiguous"
_FUNCTIONS = "atleast_1d atleast_2d atleast_3d"
_INDEXING = (
    "index_select gather take_along_dim index_put masked_select nonzero index_add index_copy index_fill scatter scatter_add "
    "scatter_reduce take masked_scatter argwhere put"
)

for _name in _BOTH.split():
    if hasattr(views, _name):
        register(_name, "view", getattr(views, _name))
for _name in _METHODS.split():
    if hasattr(views, _name):
        register(_name, "view", getattr(views, _name), places=(f"Tensor.{_name}",))
for _name in _FUNCTIONS.split():
    if hasattr(views, _name):
        register(_name, "view", getattr(views, _name), places=(_name,))
register("broadcast_to", "view", views.broadcast_to)
for _name in _INDEXING.split():
    if hasattr(indexing, _name):
        register(_name, "indexing", getattr(indexing, _name), in_place=getattr(indexing, _name + "_", None))

for _name in ("T", "mT", "H", "mH"):
    setattr(Tensor, _name, property(getattr(views, f"get_{_name}")))
