"""What `export` raises, as PyTorch's classes of these names."""

from __future__ import annotations

from ..core.base import display
from ..graph.errors import UserError

__all__ = ["ConstraintViolationError", "GuardOnDataDependentSymNode", "UserError"]


class ConstraintViolationError(UserError):
    """A size that does not vary as it was said to: PyTorch's `torch.fx.experimental.symbolic_shapes.ConstraintViolationError`.

    >>> from flambeau.export.errors import ConstraintViolationError
    >>> issubclass(ConstraintViolationError, RuntimeError)
    True
    """


class GuardOnDataDependentSymNode(RuntimeError):
    """A program whose way depends on a value of a tensor: PyTorch's class of that name.

    >>> from flambeau.export.errors import GuardOnDataDependentSymNode
    >>> issubclass(GuardOnDataDependentSymNode, RuntimeError)
    True
    """


for _class in (UserError, ConstraintViolationError, GuardOnDataDependentSymNode):
    _class.__module__ = display.public("export.errors")
