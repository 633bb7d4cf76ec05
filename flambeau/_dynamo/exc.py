"""Errors of the compiler of graphs, for `except`; nothing raises them."""

from __future__ import annotations

from .._compat.absent import refusing


class TorchDynamoException(RuntimeError):
    """Any error of the compiler."""


class Unsupported(TorchDynamoException):
    """A part of Python that it does not compile."""


__getattr__ = refusing("_dynamo.exc")
