"""Layers that stand together, such as a convolution and the normalisation after it, to become one (`ao.quantization.fuse_modules`)."""

from __future__ import annotations

from typing import Any, ClassVar

from ....core.base.lazily import lazily
from ....nn.modules import activation, batchnorm, container, conv, linear
from ....nn.modules.module import Module
from .._making import made

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


def _of(name: str, *parts: Any) -> Any:
    """A class of modules of these classes, one after the other."""
    names = [f"`{kind.__name__}`" for kind in parts]
    listed = " and a ".join([", a ".join(names[:-1]), names[-1]])
    features = "1, 2, 1" if parts[0] in _CONVOLUTIONS else "1, 2" if parts[0] is linear.Linear else "2"
    made_of = [f"nn.{parts[0].__name__}({features})"]
    made_of += [f"nn.{kind.__name__}({'' if kind is activation.ReLU else 2})" for kind in parts[1:]]
    text = f"""A {listed}, one after the other.

    Shape:
        input: as of the first; the result: as of the last

    Raises:
        AssertionError: modules of other classes

    >>> from flambeau import nn
    >>> from flambeau.ao.nn.intrinsic import {name}
    >>> len({name}({", ".join(made_of)}))
    {len(parts)}
    """
    return made(__name__, name, (_FusedModule,), text, _parts=parts)


_CONVOLUTIONS = (conv.Conv1d, conv.Conv2d, conv.Conv3d)
_NORMS = (batchnorm.BatchNorm1d, batchnorm.BatchNorm2d, batchnorm.BatchNorm3d)
_BOTH = tuple(enumerate(zip(_CONVOLUTIONS, _NORMS), 1))
ConvReLU1d, ConvReLU2d, ConvReLU3d = (_of(f"ConvReLU{d}d", c, activation.ReLU) for d, (c, _) in _BOTH)
ConvBn1d, ConvBn2d, ConvBn3d = (_of(f"ConvBn{d}d", c, bn) for d, (c, bn) in _BOTH)
ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d = (
    _of(f"ConvBnReLU{d}d", c, bn, activation.ReLU) for d, (c, bn) in _BOTH
)
BNReLU2d, BNReLU3d = (_of(f"BNReLU{d}d", bn, activation.ReLU) for d, (_, bn) in _BOTH[1:])
LinearReLU = _of("LinearReLU", linear.Linear, activation.ReLU)
LinearBn1d = _of("LinearBn1d", linear.Linear, batchnorm.BatchNorm1d)
