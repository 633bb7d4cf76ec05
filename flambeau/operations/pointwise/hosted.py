"""Element-wise functions that NumPy or SciPy computes on the CPU, with the rules of a pointwise operation around them.

    @hosted("special.erfcx")
    def erfcx(x):
        "Scaled complementary error function, exp(x²) · erfc(x)."
        return scipy_special().erfcx(x)

    @erfcx.derivative
    def _(grad, out, x):
        return grad * (2.0 * x * out - 2.0 / math.sqrt(math.pi))

The body sees NumPy arrays, half types as float32; the derivative sees tensors.  A body with the keyword `dtype` is told the
name of the dtype that the result has.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core import tape
from ...core.base.dtypes import dtype, get_default_dtype
from ...core.base.labels import backward_name
from ...core.base.parameters import BY_NAME, MISSING, Parameter, described, parameters, signature
from ...core.base.tensor import TensorBase
from ...core.call.copies import to_dtype
from ...core.call.operands import common_dtype
from ...core.make.create import empty_like
from ..declare.host import Result, computed
from ..declare.registry import register
from ..declare.results import category, into
from ..declare.shapes import broadcast
from .arithmetic import overwrite

if TYPE_CHECKING:
    import inspect


class Hosted:
    """An element-wise function of arrays with the rules of a pointwise operation around it."""

    def __init__(self, name: str, body: Callable, *, floating: bool, numbers: bool = False):
        self.__name__ = self.__qualname__ = name
        self.__doc__ = body.__doc__
        self.knows_dtype = "dtype" in parameters(body)[1]
        self.body, self.floating, self.numbers = body, floating, numbers
        self.formula: Callable | None = None
        self.reads_out = self.reads_inputs = False

    @functools.cached_property
    def operands(self) -> inspect.Signature:
        """How calls are bound, but for `out`."""
        import inspect

        every = signature(self.body).parameters.values()
        return inspect.Signature([p for p in every if p.kind is not p.KEYWORD_ONLY])

    def late_parameters(self) -> list[Parameter]:
        every = [p for p in described(self.body) if p[1] != BY_NAME]
        return [*every, ("out", BY_NAME, None, MISSING)]

    @property
    def __signature__(self) -> inspect.Signature:
        """What `inspect.signature` and `help` show."""
        from inspect import Parameter

        out = Parameter("out", Parameter.KEYWORD_ONLY, default=None)
        return self.operands.replace(parameters=[*self.operands.parameters.values(), out])

    def derivative(self, formula: Callable) -> Callable:
        """Declare the gradients: `formula(grad, out, *inputs)` gives one for each input (None: it has none).

        Its parameters say what is read, and so what is saved: `out` may be left out, and so may the inputs.
        """
        names = parameters(formula)[0]
        self.formula, self.reads_out = formula, "out" in names
        self.reads_inputs = len(names) > 1 + self.reads_out
        return formula

    def working(self, given: tuple) -> dtype:
        """The dtype of the result."""
        found = common_dtype(given)
        if found.is_complex or (not self.floating and category(found) != 1):
            raise NotImplementedError(
                f"{self.__name__}(): \"{self.__name__}\" not implemented for '{found.name}'"
            )
        return get_default_dtype() if self.floating and category(found) < 2 else found

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
        kind = self.working(given)
        tensors = [to_dtype(g, kind) for g in given if isinstance(g, TensorBase)]
        if len(tensors) > 1:
            shape = broadcast([tuple(t.shape) for t in tensors])
            tensors = [t.expand(shape) for t in tensors]
        rest = iter(tensors)
        operands = [next(rest) if isinstance(g, TensorBase) else g for g in given]
        body = functools.partial(self.body, dtype=kind.name) if self.knows_dtype else self.body
        found = elementwise(body, kind, *operands)
        if tape.recording(*tensors):
            tape.record(
                backward_name(self.__name__),
                self.gradients,
                tuple(tensors),
                found,
                ((found,) if self.reads_out else ()) + (tuple(tensors) if self.reads_inputs else ()),
                (tuple(None if isinstance(g, TensorBase) else g for g in given),),
            )
        return into(out, found, self.__name__)

    def gradients(self, grad: TensorBase, *rest: Any) -> tuple:
        *saved, given = rest
        if self.formula is None:
            raise NotImplementedError(f"the derivative for '{self.__name__}' is not implemented.")
        read = [saved.pop(0)] if self.reads_out else []
        if self.reads_inputs:
            read += [saved.pop(0) if g is None else g for g in given]
        found = self.formula(grad, *read)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(f for f, g in zip(found, given) if g is None)


def elementwise(body: Callable, kind: dtype, *operands: Any) -> TensorBase:
    """What `body` makes of arrays of one shape, with the strides that a pointwise operation's result has."""
    tensors = [x.detach() for x in operands if isinstance(x, TensorBase)]
    found = computed(Result(tensors[0].shape, kind), body, *operands)
    if all(t.is_contiguous() for t in tensors):
        return found
    strides = functools.reduce(operator.add, [empty_like(t, device="meta") for t in tensors]).stride()
    return found.new_empty_strided(found.shape, strides).copy_(found)


def hosted(
    *places: str,
    floating: bool = True,
    in_place: bool = False,
    numbers: bool = False,
    **details: Any,
) -> Callable:
    """Declare an element-wise function from one of NumPy arrays; its public names are `places` (default: the flat
    namespace and a method).  `floating`: integers become the default dtype; else the function is of integers only.
    `numbers`: all operands but one may be Python numbers.
    """

    def make(body: Callable) -> Hosted:
        name = details.pop("name", body.__name__)
        function = Hosted(name, body, floating=floating, numbers=numbers)
        written = None
        if in_place:

            def written(self: TensorBase, *others: Any) -> TensorBase:
                return overwrite(self, function, *others)

            written.__name__ = written.__qualname__ = name + "_"
            written.__doc__ = f"`{name}` in place."
        register(name, "hosted", function, places=places or None, in_place=written, **details)
        return function

    return make
