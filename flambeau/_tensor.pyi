"""For type checkers: the class with the methods that the registry gives it."""

from . import Tensor as Tensor
