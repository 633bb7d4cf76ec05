"""Views and indexing: the compiled functions of `core/views.pyx`, `indexing.pyx` and `scatter.pyx` under public names."""

from __future__ import annotations

from .._tensor import Tensor
from ..core import indexing, scatter, views
from .registry import register

_BOTH = """
    reshape flatten ravel unflatten squeeze unsqueeze transpose swapaxes swapdims t permute movedim moveaxis adjoint narrow
    select diagonal as_strided detach split split_with_sizes chunk tensor_split unbind hsplit vsplit dsplit
"""
_METHODS = """
    view view_as reshape_as expand expand_as unfold detach_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_
    resize_ resize_as_ set_ is_contiguous
"""
_INDEXING = """
    index_select index_put masked_select nonzero index_add index_copy index_fill take masked_scatter argwhere put
"""
_SCATTER = "gather take_along_dim scatter scatter_add scatter_reduce index_reduce"

for _name in _BOTH.split():
    register(_name, "view", getattr(views, _name))
for _name in _METHODS.split():
    register(_name, "view", getattr(views, _name), places=(f"Tensor.{_name}",))
for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    register(_name, "view", getattr(views, _name), places=(_name,))
register("broadcast_to", "view", views.broadcast_to)
for _module, _names in ((indexing, _INDEXING), (scatter, _SCATTER)):
    for _name in _names.split():
        register(_name, "indexing", getattr(_module, _name), in_place=getattr(_module, _name + "_", None))

for _name in ("T", "mT", "H", "mH"):
    setattr(Tensor, _name, property(getattr(views, f"get_{_name}")))
