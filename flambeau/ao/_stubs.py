"""Where a model that is converted will take and give codes."""

from __future__ import annotations

from typing import Any

from ..nn.modules.module import Module


class QuantStub(Module):
    """Where a model that is converted takes floats; until then the identity.

    Shape:
        input: any; the result has the same

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.ao.quantization import QuantStub
    >>> QuantStub()(flambeau.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        return x


class DeQuantStub(QuantStub):
    """Where a model that is converted gives floats; until then the identity.

    Shape:
        input: any; the result has the same

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.ao.quantization import DeQuantStub
    >>> DeQuantStub()(flambeau.ones(2))
    tensor([1., 1.])
    """


class QuantWrapper(Module):
    """A module between a `QuantStub` and a `DeQuantStub`, which are `quant` and `dequant`.

    Shape:
        input and result: as of the module

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.ao.quantization import QuantWrapper
    >>> QuantWrapper(flambeau.nn.ReLU())(flambeau.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.quant, self.dequant, self.module = QuantStub(qconfig), DeQuantStub(qconfig), module
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        return self.dequant(self.module(self.quant(X)))
