"""What memory is used for, by name; which tensor is what is not listed."""

from __future__ import annotations

from enum import Enum

from .._compat.absent import refusing

__all__ = ["Category"]


class Category(Enum):
    """What memory is used for.

    >>> from flambeau.profiler._memory_profiler import Category
    >>> Category.GRADIENT.value
    4
    """

    INPUT = 1
    TEMPORARY = 2
    ACTIVATION = 3
    GRADIENT = 4
    AUTOGRAD_DETAIL = 5
    PARAMETER = 6
    OPTIMIZER_STATE = 7


_CATEGORY_TO_COLORS = {
    Category.PARAMETER: "darkgreen",
    Category.OPTIMIZER_STATE: "goldenrod",
    Category.INPUT: "black",
    Category.TEMPORARY: "mediumpurple",
    Category.ACTIVATION: "red",
    Category.GRADIENT: "mediumblue",
    Category.AUTOGRAD_DETAIL: "royalblue",
    None: "grey",
}
_CATEGORY_TO_INDEX = {category: k for k, category in enumerate(_CATEGORY_TO_COLORS)}
__getattr__ = refusing("profiler._memory_profiler")
