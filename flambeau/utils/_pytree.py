"""Trees of Python's containers, under the name that PyTorch has them: `_trees`, and descriptions as text."""

from __future__ import annotations

from . import _trees, _treespecs
from ._trees import *  # noqa: F403
from ._trees import _broadcast_to_and_flatten, _deregister_pytree_node, _register_namedtuple  # noqa: F401
from ._treespecs import *  # noqa: F403

_register_pytree_node = _trees.register_pytree_node

__all__ = [*_trees.__all__, *_treespecs.__all__]
