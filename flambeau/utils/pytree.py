"""Trees of Python's containers, under a public name: what `utils._pytree` has.

>>> from flambeau.utils import pytree
>>> pytree.tree_map(lambda x: 2 * x, {"a": (1, 2)})
{'a': (2, 4)}
"""

from __future__ import annotations

from ._pytree import *  # noqa: F403
from ._pytree import __all__ as __all__
