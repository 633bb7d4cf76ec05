"""Kernels of one's own: a few lines of Python become an operation with gradients, for every device, as the library's own are.

    from flambeau import kernels

    @kernels.pointwise
    def squareplus(x, *, b=4.0):
        return (x + kernels.sqrt(x * x + b)) * 0.5

`pointwise`, `row`, `reduction`, `scan`, `indexed` and `scatter` declare; `vocabulary()` lists what bodies may call; `check` tests.
`docs/extending.md` has the whole story.  The package is a shell, which is filled when a program first names something in it.

>>> import flambeau
>>> from flambeau import kernels
>>> @kernels.pointwise
... def squareplus(x, *, b=4.0):
...     return (x + kernels.sqrt(x * x + b)) * 0.5
>>> squareplus(flambeau.tensor([0.0, 1.5]), b=1.0)
tensor([0.5000, 1.6514])
"""

from typing import TYPE_CHECKING

from ..core.base.lazily import on_first_use as _on_first_use

if TYPE_CHECKING:
    from ._public import *  # noqa: F403

__getattr__, __dir__ = _on_first_use(__name__, "_public")
