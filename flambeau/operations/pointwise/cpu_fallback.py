"""Element-wise functions that NumPy or SciPy computes on the CPU, and kernels on devices, with the rules of a pointwise operation.

    @cpu_fallback("special.erfcx", on_device=_kernel("erfcx"))
    def erfcx(x):
        "Scaled complementary error function, exp(x²) · erfc(x)."
        return scipy_special().erfcx(x)

    @erfcx.derivative
    def _(grad, x, result):
        return grad * (2.0 * x * result - 2.0 / math.sqrt(math.pi))

The body sees NumPy arrays of the result's dtype, half types as float32; a body with the keyword `dtype` gets its name.  The
derivative is that of a leaf (`registry.leaf`): it sees the arguments as they were given, and brings gradients to them by `like`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.base.dtypes import dtype, get_default_dtype
from ...core.base.parameters import BY_NAME, MISSING, Parameter, described, parameters, signature
from ...core.base.tensor import TensorBase
from ...core.call.copies import to_dtype
from ...core.call.leaf import LeafOp
from ...core.call.operands import common_dtype
from ...core.make.create import empty_like
from ..declare.dtype_groups import ALL, INTEGRAL
from ..declare.host import Result, computed
from ..declare.registry import leaf
from ..declare.results import category, into, overwrite
from ..declare.shapes import broadcast
from ..on_device import elementwise as there

if TYPE_CHECKING:
    import inspect


class CpuFallback:
    """An element-wise function of arrays with the rules of a pointwise operation around it."""

    def __init__(
        self, name: str, body: Callable, on_device: Callable, *, floating: bool, numbers: bool = False
    ):
        self.on_device = on_device
        self.__name__ = self.__qualname__ = name
        self.__doc__ = body.__doc__
        self.knows_dtype = "dtype" in parameters(body)[1]
        self.body, self.floating, self.numbers = body, floating, numbers

    @functools.cached_property
    def operands(self) -> inspect.Signature:
        """How calls are bound, but for `out`."""
        import inspect

        every = signature(self.body).parameters.values()
        return inspect.Signature([p for p in every if p.kind is not p.KEYWORD_ONLY])

    def describe_parameters(self) -> list[Parameter]:
        every = [p for p in described(self.body) if p[1] != BY_NAME]
        return [*every, ("out", BY_NAME, None, MISSING)]

    @property
    def __signature__(self) -> inspect.Signature:
        """What `inspect.signature` and `help` show."""
        from inspect import Parameter

        out = Parameter("out", Parameter.KEYWORD_ONLY, default=None)
        return self.operands.replace(parameters=[*self.operands.parameters.values(), out])

    def __call__(self, *args: Any, out: TensorBase | None = None, **named: Any) -> TensorBase:
        try:
            given = tuple(self.operands.bind(*args, **named).arguments.values())
        except TypeError as e:
            raise TypeError(f"{self.__name__}(): {e}") from None
        wrong = [k for k, g in enumerate(given) if not isinstance(g, TensorBase)]
        if wrong and (not self.numbers or len(wrong) == len(given)):
            raise TypeError(
                f"{self.__name__}(): argument '{list(self.operands.parameters)[wrong[0]]}' (position {wrong[0] + 1}) must "
                f"be Tensor, not {type(given[wrong[0]]).__name__}"
            )
        kind = working(self.__name__, given, self.floating)
        if not all(g.is_cpu or g.is_meta for g in given if isinstance(g, TensorBase)):
            return into(out, there.applied(self.on_device(), kind, *given), self.__name__)
        body = functools.partial(self.body, dtype=kind.name) if self.knows_dtype else self.body
        return into(out, elementwise(body, kind, *given), self.__name__)


def working(name: str, given: tuple, floating: bool) -> dtype:
    """The dtype of the result: that which all operands have in common, or, of integers where it is to be `floating`, the default one."""
    result = common_dtype(given)
    if result.is_complex or (not floating and category(result) != 1):
        raise NotImplementedError(f"{name}(): \"{name}\" not implemented for '{result.name}'")
    return get_default_dtype() if floating and category(result) < 2 else result


def elementwise(body: Callable, kind: dtype, *operands: Any) -> TensorBase:
    """What `body` makes of the operands' arrays of that dtype, broadcast, with the strides that a pointwise operation's result has."""
    tensors = [to_dtype(x, kind) for x in operands if isinstance(x, TensorBase)]
    if len(tensors) > 1:
        shape = broadcast([tuple(t.shape) for t in tensors])
        tensors = [t.expand(shape) for t in tensors]
    rest = iter(tensors)
    result = computed(
        Result(tensors[0].shape, kind),
        body,
        *(next(rest) if isinstance(x, TensorBase) else x for x in operands),
    )
    if all(t.is_contiguous() for t in tensors):
        return result
    strides = functools.reduce(operator.add, [empty_like(t, device="meta") for t in tensors]).stride()
    return result.new_empty_strided(result.shape, strides).copy_(result)


def like(grad: TensorBase, x: TensorBase) -> TensorBase:
    """A gradient in the shape and the dtype of an argument that was broadcast and converted."""
    return grad.sum_to_size(x.shape).to(x.dtype)


def cpu_fallback(
    *places: str,
    on_device: Callable,
    floating: bool = True,
    in_place: bool = False,
    numbers: bool = False,
    **details: Any,
) -> Callable[[Callable], LeafOp]:
    """Declare an element-wise function from one of NumPy arrays; its public names are `places` (default: the flat
    namespace and a method).  `floating`: integers become the default dtype; else the function is of integers only.
    `numbers`: all operands but one may be Python numbers.  `on_device` gives the kernel (`on_device/`) that devices run, when one is
    first needed.  Without a derivative, backward through it raises.
    """

    def make(body: Callable) -> LeafOp:
        name = details.pop("name", body.__name__)
        function = CpuFallback(name, body, on_device, floating=floating, numbers=numbers)

        def written(self: TensorBase, *others: Any) -> TensorBase:
            return overwrite(self, made, *others)

        written.__name__ = written.__qualname__ = name + "_"
        written.__doc__ = f"`{name}` in place."
        made = leaf(
            "fallback",
            *(places or (name, f"Tensor.{name}")),
            inputs=tuple(parameters(body)[0]),
            underived=True,
            name=name,
            in_place=written if in_place else None,
            dtypes=ALL if floating else INTEGRAL,
            **details,
        )(function)
        return made

    return make
