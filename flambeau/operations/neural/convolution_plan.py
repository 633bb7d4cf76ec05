"""Plans of convolutions of two dimensions: which way, cut how, for shapes and layouts; filters laid out once; epilogues of any expression.

>>> import flambeau
>>> from flambeau.codegen import functions as fn
>>> from flambeau.codegen.tiles.epilogues import traced
>>> x, weight = flambeau.ones(1, 2, 4, 4), flambeau.ones(3, 2, 3, 3)
>>> scale, shift = flambeau.tensor([1.0, 2.0, 3.0]), flambeau.tensor([0.0, 0.0, -99.0])
>>> body = lambda sum, scale, shift: fn.maximum(sum * scale + shift, fn.like(sum, 0.0))
>>> epilogue = traced(body, "float32", ("columns", "columns"))
>>> plan = ConvolutionPlan(x, weight, scale, shift, epilogue=epilogue)
>>> plan(x, weight, scale, shift)[0, :, 0, 0]
tensor([18., 36.,  0.])
"""

from __future__ import annotations

from typing import Any

from ...codegen.tiles import register
from ...codegen.tiles.epilogues import Epilogue
from ...core.base.tensor import TensorBase
from .convolution import direct, families
from .convolution import grid as convolution_grid
from .convolution import planes as convolution_planes
from .convolution import winograd as convolution_winograd
from .convolution.convolution import _placed


class ConvolutionPlan:
    """How `conv2d(x, weight)` is computed, and what is made of the sums: nothing, a bias, or an epilogue.

    Without an epilogue there may be one operand, the bias, and the result has the bits of an eager call.  An epilogue
    (`codegen.tiles.epilogues`) is an expression of the sums and of operands of shape (filters,), read by "columns".

    `laid`: the weight is given as `lay` has laid it out, once for many launches.

    A plan depends on shapes, strides and dtypes alone: equal ones are equal.  Results are not recorded on the tape.

    Raises:
        RuntimeError: shapes that do not fit
        TypeError: dtypes that differ, an epilogue of another dtype
        ValueError: operands that do not fit the epilogue
        NotImplementedError: convolutions that are not computed by register tiles: half types, groups, devices
    """

    def __init__(
        self,
        x: TensorBase,
        weight: TensorBase,
        *operands: TensorBase,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        epilogue: Epilogue | None = None,
        laid: bool = False,
    ):
        self.shape, self.weight, self.epilogue, self.laid = (
            tuple(x.shape),
            tuple(weight.shape),
            epilogue,
            laid,
        )
        self.strides, self.dtype, self.count = tuple(x.stride()), x.dtype, len(operands)
        self._check_dtypes(x, weight, *operands)
        if x.ndim != 4 or weight.ndim != 4 or x.shape[1] != weight.shape[1] or weight.numel() == 0:
            raise RuntimeError(
                f"ConvolutionPlan: an input (N, C, H, W) and a weight (K, C, h, w); got {list(x.shape)} and {list(weight.shape)}"
            )
        reads = 1 if epilogue is None and operands else 0 if epilogue is None else len(epilogue.reads)
        if len(operands) != reads or (epilogue is not None and epilogue.numbers):
            raise ValueError(
                f"ConvolutionPlan: the epilogue takes {reads} operands and no numbers; got {len(operands)}"
            )
        if epilogue is not None and (
            set(epilogue.reads) - {"columns"} or epilogue.root.dtype != x.dtype.name
        ):
            raise TypeError(
                f"ConvolutionPlan: an epilogue of {x.dtype.name} and operands by columns; got {epilogue!r}"
            )
        self._check_operands(operands)
        kernel = self.weight[2:]
        place = _placed.__wrapped__
        self.geometry, self.out = place(
            "ConvolutionPlan", 2, self.shape[2:], kernel, stride, padding, dilation, 1
        )
        self.way = self._way(x, weight)
        self.driver = None if 0 in self.shape else self._driver()

    def _check_dtypes(self, *tensors: TensorBase) -> None:
        for t in tensors:
            if t.device.type != "cpu":
                raise NotImplementedError(f"ConvolutionPlan: tensors on the host; got one on {t.device}")
            if t.dtype != self.dtype:
                raise TypeError(f"ConvolutionPlan: tensors of one dtype; got {self.dtype} and {t.dtype}")

    def _check_operands(self, operands: tuple[TensorBase, ...]) -> None:
        for k, t in enumerate(operands):
            if tuple(t.shape) != self.weight[:1]:
                raise ValueError(
                    f"ConvolutionPlan: operand {k} has shape {list(self.weight[:1])}; got {list(t.shape)}"
                )

    def _way(self, x: TensorBase, weight: TensorBase) -> str:
        operands = families._selection_key(x, weight, self.geometry, self.out)
        way = families._way(*operands, False, families.allowed["winograd"])
        if way.split()[0] in ("winograd", "planes", "direct"):
            return way
        taken = x.dtype.name in families.TILED and 0 not in self.shape and self.epilogue is not None
        if not taken or convolution_grid.sparse(self.shape[2:], self.weight[2:], self.geometry, self.out):
            raise NotImplementedError(
                f"ConvolutionPlan: an input {list(self.shape)} of {x.dtype.name} and a weight {list(self.weight)} are not computed by "
                f"register tiles, but by {way!r}"
            )
        return "direct"

    def _driver(self) -> Any:
        name, filters, epilogue = self.dtype.name, self.weight[0], self.epilogue
        if self.way == "planes":
            if epilogue is not None:  # its tile has filters in rows
                epilogue = Epilogue(epilogue.root, ("rows",) * self.count)
            return convolution_planes.plan(name, self.shape, filters, epilogue)
        if self.way == "direct":
            kernel = self.weight[2:]
            return direct.forward(name, self.shape, filters, kernel, self.geometry, self.out, epilogue)
        m, before = int(self.way[-1]), self.geometry.before
        return convolution_winograd.plan(name, m, self.shape, filters, before, self.out, epilogue)

    def lay(self, weight: TensorBase) -> TensorBase:
        """The weight laid out as a plan made with `laid` reads it.

        Raises:
            ValueError: the plan was not made so, or the weight has another shape or dtype
        """
        if not self.laid:
            raise ValueError("ConvolutionPlan.lay: a plan made with laid=True")
        self._check_weight(weight)
        return self._laid(weight)

    def _check_weight(self, weight: TensorBase) -> None:
        if tuple(weight.shape) != self.weight or weight.dtype != self.dtype or weight.device.type != "cpu":
            raise ValueError(
                f"ConvolutionPlan: weight has shape {list(self.weight)} and dtype {self.dtype}; got {list(weight.shape)} and {weight.dtype}"
            )

    def _laid(self, weight: TensorBase) -> TensorBase:
        """As the driver reads it; of planes it is read where it lies."""
        if self.driver is None or self.way == "planes":
            return weight.contiguous()
        if self.way == "direct":
            return direct.values(weight, self.driver, False)
        return convolution_winograd.values(weight, self.driver, False)

    def __call__(self, x: TensorBase, weight: TensorBase, *operands: TensorBase) -> TensorBase:
        """The result, in the layout of x.

        Raises:
            ValueError: a tensor of another geometry than the plan's
        """
        same = tuple(x.shape) == self.shape and x.dtype == self.dtype and x.device.type == "cpu"
        if not same or tuple(x.stride()) != self.strides:
            raise ValueError(
                f"ConvolutionPlan: x has shape {list(self.shape)}, strides {list(self.strides)} and dtype {self.dtype}; got "
                f"{list(x.shape)}, {list(x.stride())} and {x.dtype}"
            )
        if len(operands) != self.count:
            raise ValueError(f"ConvolutionPlan: {self.count} operands; got {len(operands)}")
        self._check_dtypes(*operands)
        self._check_operands(operands)
        if not self.laid:
            self._check_weight(weight)
        elif self.driver is not None and weight.numel() != self._values():
            raise ValueError("ConvolutionPlan: weight is what `lay` has returned")
        if self.driver is None:
            return x.new_empty((self.shape[0], self.weight[0], *self.out))
        x = families._readable(x, self.way == "planes")
        result = self.new_output(x)
        terms = self._terms(operands)
        if self.way == "direct":
            self.driver.run(x, weight if self.laid else weight.contiguous(), terms, result, False, self.laid)
        else:
            self.driver.run(x, weight if self.laid else self._laid(weight), terms, result)
        return result

    def _values(self) -> int:
        if self.way == "planes":
            return self.weight[0] * self.weight[1]
        return self.driver.values()

    def _terms(self, operands: tuple[TensorBase, ...]) -> TensorBase:
        """The operands one after another, padded to whole vectors where filters are columns of tiles."""
        filters, wide = self.weight[0], self.terms_width()
        if not operands:
            return families._zeros(self.dtype.name, wide)
        result = operands[0].new_zeros((len(operands), wide))
        for k, t in enumerate(operands):
            result[k].narrow(0, 0, filters).copy_(t)
        return result

    def terms_width(self) -> int:
        """Elements of an operand as the driver reads it."""
        filters, lanes = self.weight[0], register.lanes(self.dtype.name)
        return filters if self.way == "planes" else -(-filters // lanes) * lanes

    def reads(self, x: TensorBase) -> bool:
        """Whether images of this geometry are read where they lie."""
        return families._readable(x, self.way == "planes") is x

    def new_output(self, x: TensorBase) -> TensorBase:
        """A tensor for the result of such images, in their layout."""
        return families.empty_result(x, self.weight[0], self.out)

    def key(self) -> tuple:
        """All that the plan depends on."""
        given = (self.shape, self.strides, self.weight, self.count, self.dtype.name)
        return (*given, self.geometry, self.epilogue, self.laid, self.way)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConvolutionPlan) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __repr__(self) -> str:
        made = "" if self.epilogue is None else f", {self.epilogue!r}"
        more = f", operands {self.count}" if self.count else ""
        shapes = f"{self.shape} * {self.weight}"
        return f"ConvolutionPlan({self.dtype} {shapes}{more}{made}, by {self.way}{', laid' if self.laid else ''})"
