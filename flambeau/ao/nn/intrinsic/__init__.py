"""Layers that stand together, such as a convolution and the normalisation after it, to become one (`ao.quantization.fuse_modules`)."""

from __future__ import annotations

from typing import ClassVar

from ....core.base.lazily import lazily
from ....nn.modules import activation, batchnorm, container, conv, linear
from ....nn.modules.module import Module

__all__ = [
    "BNReLU2d",
    "BNReLU3d",
    "ConvBn1d",
    "ConvBn2d",
    "ConvBn3d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvBnReLU3d",
    "ConvReLU1d",
    "ConvReLU2d",
    "ConvReLU3d",
    "LinearBn1d",
    "LinearReLU",
]

__getattr__, __dir__ = lazily(__name__, ("qat", "quantized"))


class _FusedModule(container.Sequential):
    """Modules of the classes in `_parts`, one after the other."""

    _parts: ClassVar[tuple[type, ...]]

    def __init__(self, *modules: Module) -> None:
        found = tuple(type(m) for m in modules)
        if found != self._parts:
            wanted, given = (" and ".join(kind.__name__ for kind in kinds) for kinds in (self._parts, found))
            raise AssertionError(
                f"{type(self).__name__}: Incorrect types for input modules: expected {wanted}, got {given}"
            )
        super().__init__(*modules)


class ConvReLU1d(_FusedModule):
    """A `Conv1d` and a `ReLU`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import ConvReLU1d
    >>> len(ConvReLU1d(nn.Conv1d(1, 2, 1), nn.ReLU()))
    2
    """

    _parts = (
        conv.Conv1d,
        activation.ReLU,
    )


class ConvBn1d(_FusedModule):
    """A `Conv1d` and a `BatchNorm1d`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import ConvBn1d
    >>> len(ConvBn1d(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2)))
    2
    """

    _parts = (
        conv.Conv1d,
        batchnorm.BatchNorm1d,
    )


class ConvBnReLU1d(_FusedModule):
    """A `Conv1d`, a `BatchNorm1d` and a `ReLU`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import ConvBnReLU1d
    >>> len(ConvBnReLU1d(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2), nn.ReLU()))
    3
    """

    _parts = (
        conv.Conv1d,
        batchnorm.BatchNorm1d,
        activation.ReLU,
    )


class ConvReLU2d(_FusedModule):
    """A `Conv2d` and a `ReLU`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import ConvReLU2d
    >>> len(ConvReLU2d(nn.Conv2d(1, 2, 1), nn.ReLU()))
    2
    """

    _parts = (
        conv.Conv2d,
        activation.ReLU,
    )


class ConvBn2d(_FusedModule):
    """A `Conv2d` and a `BatchNorm2d`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import ConvBn2d
    >>> len(ConvBn2d(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)))
    2
    """

    _parts = (
        conv.Conv2d,
        batchnorm.BatchNorm2d,
    )


class ConvBnReLU2d(_FusedModule):
    """A `Conv2d`, a `BatchNorm2d` and a `ReLU`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import ConvBnReLU2d
    >>> len(ConvBnReLU2d(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.ReLU()))
    3
    """

    _parts = (
        conv.Conv2d,
        batchnorm.BatchNorm2d,
        activation.ReLU,
    )


class ConvReLU3d(_FusedModule):
    """A `Conv3d` and a `ReLU`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import ConvReLU3d
    >>> len(ConvReLU3d(nn.Conv3d(1, 2, 1), nn.ReLU()))
    2
    """

    _parts = (
        conv.Conv3d,
        activation.ReLU,
    )


class ConvBn3d(_FusedModule):
    """A `Conv3d` and a `BatchNorm3d`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import ConvBn3d
    >>> len(ConvBn3d(nn.Conv3d(1, 2, 1), nn.BatchNorm3d(2)))
    2
    """

    _parts = (
        conv.Conv3d,
        batchnorm.BatchNorm3d,
    )


class ConvBnReLU3d(_FusedModule):
    """A `Conv3d`, a `BatchNorm3d` and a `ReLU`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import ConvBnReLU3d
    >>> len(ConvBnReLU3d(nn.Conv3d(1, 2, 1), nn.BatchNorm3d(2), nn.ReLU()))
    3
    """

    _parts = (
        conv.Conv3d,
        batchnorm.BatchNorm3d,
        activation.ReLU,
    )


class LinearReLU(_FusedModule):
    """A `Linear` and a `ReLU`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import LinearReLU
    >>> len(LinearReLU(nn.Linear(1, 2), nn.ReLU()))
    2
    """

    _parts = (
        linear.Linear,
        activation.ReLU,
    )


class LinearBn1d(_FusedModule):
    """A `Linear` and a `BatchNorm1d`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import LinearBn1d
    >>> len(LinearBn1d(nn.Linear(1, 2), nn.BatchNorm1d(2)))
    2
    """

    _parts = (
        linear.Linear,
        batchnorm.BatchNorm1d,
    )


class BNReLU2d(_FusedModule):
    """A `BatchNorm2d` and a `ReLU`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import BNReLU2d
    >>> len(BNReLU2d(nn.BatchNorm2d(2), nn.ReLU()))
    2
    """

    _parts = (
        batchnorm.BatchNorm2d,
        activation.ReLU,
    )


class BNReLU3d(_FusedModule):
    """A `BatchNorm3d` and a `ReLU`, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import BNReLU3d
    >>> len(BNReLU3d(nn.BatchNorm3d(2), nn.ReLU()))
    2
    """

    _parts = (
        batchnorm.BatchNorm3d,
        activation.ReLU,
    )
