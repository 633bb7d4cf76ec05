"""The function that a user declares a kernel with: parameters are checked, calls traced, errors with file and line."""

from __future__ import annotations

import inspect
import keyword
import types
from collections.abc import Callable, Sequence
from numbers import Number
from pathlib import Path
from typing import Any, NamedTuple

from ..codegen import expr as ex
from ..codegen import indexed as ix
from ..codegen.expr import Expr
from ..core.call.interceptors import Mode
from ..core.call.operation import Op, behind
from ..operations.declare.indexed import At
from ..operations.declare.pointwise import Pointwise
from ._traces import Trace

_PACKAGE = str(Path(__file__).resolve().parents[1])


class Parameters(NamedTuple):
    """What a body takes: operands, then numbers, those without a default first."""

    operands: tuple[str, ...]
    numbers: tuple[str, ...]
    defaults: tuple[float, ...]  # of the last numbers


class Body:
    """A user's function of traced values."""

    def __init__(
        self, kind: str, function: Callable, name: str | None, leading: Sequence[str] = (), free: bool = False
    ):
        if not callable(function) or isinstance(function, Op):
            what = "an operation" if callable(function) else type(function).__name__
            raise TypeError(f"{kind}(): a function of traced values expected, got {what}")
        self.kind, self.function, self.name = kind, function, name or _name_of(function)
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"{kind}(): name must be a Python identifier, got {self.name!r}")
        self.__name__, self.__doc__ = self.name, function.__doc__
        self.file, self.line = place_of(function)
        self.leading = tuple(leading)  # parameters before the operands, which are no operands
        self.parameters = self.read(free)
        self.numbers = _numbers(function)

    @property
    def where(self) -> str:
        """How messages name the function."""
        return f"the {self.kind} kernel {self.name} ({self.file}:{self.line})"

    def read(self, free: bool) -> Parameters:
        """The parameters; TypeError for those that a kernel cannot have.  `free`: numbers may have any default."""
        operands, required, optional = [], [], {}
        for p in inspect.signature(self.function).parameters.values():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise TypeError(
                    f"{self.where} takes {'*' if p.kind is p.VAR_POSITIONAL else '**'}{p.name}: name its arguments"
                )
            if p.kind is not p.KEYWORD_ONLY:
                if p.default is not p.empty:
                    raise TypeError(
                        f"{self.where}: the operand '{p.name}' has a default; numbers with defaults stand after `*`"
                    )
                operands.append(p.name)
            elif p.default is p.empty:
                required.append(p.name)
            elif free or isinstance(p.default, Number):
                optional[p.name] = p.default
            else:
                raise TypeError(
                    f"{self.where}: the default of '{p.name}' must be a number, got {type(p.default).__name__}"
                )
        if tuple(operands[: len(self.leading)]) != self.leading and len(operands) < len(self.leading) + 1:
            raise TypeError(f"{self.where} takes {', '.join(self.leading)} and then its operands")
        operands = operands[len(self.leading) :]
        if not operands:
            raise TypeError(
                f"{self.where} takes no operand: its first parameter stands for an element of a tensor"
            )
        reserved = {"out", "dim", "keepdim", "dtype"} & {*operands, *required, *optional}
        if reserved and not free:
            raise TypeError(
                f"{self.where}: '{min(reserved)}' is what callers say of the call, not a parameter's name"
            )
        return Parameters(tuple(operands), (*required, *optional), tuple(optional.values()))

    def __call__(self, *operands: Any, **numbers: Any) -> tuple:
        """The traced results."""
        self.check_numbers()
        trace = Trace(self.where)
        operands = tuple(self.entered(trace, x) for x in operands)
        numbers = {n: trace.leaf_of(x) for n, x in numbers.items()}
        try:
            with Lifted():
                result = self.function(*operands, **numbers)
        except Exception as error:
            raise self.located(error) from error
        several = isinstance(result, (tuple, list)) and not isinstance(result, ix.Store)
        results = tuple(self.result(r, operands) for r in (result if several else (result,)))
        if not results:
            raise TypeError(f"{self.where} must return traced values, and returns none")
        parts = [(r.value, *r.at) if isinstance(r, ix.Store) else (r,) for r in results]
        roots = trace.returned([e for part in parts for e in part])
        left = iter(roots)
        results = tuple(
            r._replace(value=next(left), at=tuple(next(left) for _ in r.at))
            if isinstance(r, ix.Store)
            else next(left)
            for r in results
        )
        for e in ex.walk(roots):
            if e.op in _ALONG and self.kind not in _ALONG[e.op]:
                raise TypeError(
                    f"{self.where} calls what has a meaning along a row alone ({_CALLED[e.op]}): declare it with "
                    f"`{_ALONG[e.op][0]}`"
                )
        return results

    @staticmethod
    def entered(trace: Trace, operand: Any) -> Any:
        """What the function gets for an operand: a traced value, coordinates, or an array as it is."""
        if hasattr(operand, "belongs_to"):
            return operand.belongs_to(trace)
        if not isinstance(operand, At):
            return trace.leaf_of(operand)
        at = At(map(trace.leaf_of, operand))
        at.integer = operand.integer
        return at

    def result(self, r: Any, operands: Sequence[Any]) -> Any:
        """One result as an expression; a number is one for every element."""
        first = next((x for x in operands if isinstance(x, Expr)), None)
        if isinstance(r, Number) and first is not None:
            return ex.like(first, r)
        if isinstance(r, ix.Store) != (self.kind == "scatter") or not isinstance(r, (Expr, ix.Store)):
            what = "nothing: it ends without `return`" if r is None else f"a {type(r).__name__}"
            wanted = "what `store` gives" if self.kind == "scatter" else "traced values"
            raise TypeError(f"{self.where} must return {wanted}, and returns {what}")
        return r

    def check_numbers(self) -> None:
        """RuntimeError where a number that the function found around it is not what it was when the kernel was declared: kernels
        for other dtypes, and gradients, would be of another function.
        """
        for name, value in _numbers(self.function).items():
            declared = self.numbers.get(name, value)
            if declared != value and not (declared != declared and value != value):
                raise RuntimeError(
                    f"{self.where} reads {name}, which was {declared!r} when it was declared and is {value!r} now: "
                    "make it a parameter after `*`, or declare the kernel again"
                )

    def located(self, error: Exception) -> Exception:
        """The error with the place where the function met it."""
        line, source = _line_of(error)
        place = f"{self.where}, line {line}" if line and line != self.line else self.where
        shown = f"\n    {source}" if source else ""
        if type(error) in (TypeError, AttributeError, ValueError, NotImplementedError):
            text = _plainly(error)
            return type(error)(f"{place}: {text}{shown}{_HINT if isinstance(error, AttributeError) else ''}")
        error.add_note(f"in {place}{shown}")
        return error


# Which kinds of kernels hold what goes along a row, and what calls it.
_ALONG = {
    "fold": ("row", "reduction"),
    "length": ("row", "reduction"),
    "index": ("row", "reduction", "scan"),
    "prefix": ("scan",),
}
_CALLED = {
    "fold": "sum, max, fold …",
    "length": "length",
    "index": "position",
    "prefix": "running_sum, prefix …",
}
_HINT = "\n    (a traced value has operators and no methods; what bodies may call stands in `kernels.vocabulary()`)"


def _plainly(error: Exception) -> str:
    return str(error).replace("'Expr' object", "a traced value")


def _name_of(function: Callable) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda_" if name == "<lambda>" else f"{name}_" if keyword.iskeyword(name) else name


def place_of(function: Callable) -> tuple[str, int]:
    """File and line, of a function or of the call of a callable object."""
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    if code is None:
        code = getattr(vars(type(inner)).get("__call__"), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else ("?", 0)


def _line_of(error: BaseException) -> tuple[int, str]:
    """The innermost line of the user's own that the error went through."""
    import linecache

    line, source, at = 0, "", error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if not file.startswith(_PACKAGE) and not file.endswith(".pyx"):
            line, source = at.tb_lineno, linecache.getline(file, at.tb_lineno).strip()
        at = at.tb_next
    return line, source


def _numbers(function: Any, seen: set[int] | None = None) -> dict[str, Any]:
    """The numbers that a function, and those that it calls, find around them, by name."""
    seen = set() if seen is None else seen
    inner = inspect.unwrap(function)
    if not isinstance(inner, types.FunctionType) or id(inner) in seen or _module_is_ours(inner):
        return {}
    seen.add(id(inner))
    try:
        around = inspect.getclosurevars(inner)
    except ValueError:  # it is named in its own body, and the name is not bound yet
        return {}
    result: dict[str, Any] = {}
    for name, value in {**around.globals, **around.nonlocals}.items():
        if isinstance(value, Number):
            result[name] = value
        elif isinstance(value, types.FunctionType):
            result.update({f"{name}.{n}" if "." not in n else n: v for n, v in _numbers(value, seen).items()})
    return result


def _module_is_ours(function: types.FunctionType) -> bool:
    return function.__code__.co_filename.startswith(_PACKAGE)


# --- the library's own operations on traced values ------------------------------
class Lifted(Mode):
    """While a body is traced, pointwise operations of the library take traced values, too."""

    def handle(self, operation: Any, types: tuple, args: tuple, kwargs: dict) -> Any:
        if not any(isinstance(x, Expr) for x in (*args, *kwargs.values())):
            return operation(*args, **kwargs)
        operation = behind(operation)
        name = getattr(operation, "__name__", str(operation))
        if name == "where" and len(args) == 3 and not kwargs:
            return ex.where(*args)
        declared = vars(operation).get("declared") or getattr(operation, "declaration", None)
        if not isinstance(declared, Pointwise):
            raise TypeError(
                f"{name}() takes tensors, not traced values; what bodies may call stands in `kernels.vocabulary()`"
            )
        with self:
            return with_rank(declared, args, kwargs)


def with_rank(declared: Pointwise, args: tuple, kwargs: dict) -> Any:
    """The expression that a declaration makes of traced values and numbers."""
    names = (*declared.operands, *declared.params)
    if len(args) > len(names):
        raise TypeError(f"{declared.name}() takes {len(names)} arguments, got {len(args)}")
    bound = {**dict(zip(names, args)), **kwargs}
    strange = [n for n in bound if n not in names]
    missing = [n for n in declared.operands if n not in bound]
    if strange or missing:
        raise TypeError(
            f"{declared.name}() of traced values takes {', '.join(names)}; "
            + (f"'{strange[0]}' is none of them" if strange else f"'{missing[0]}' is missing")
        )
    operands = [bound[n] for n in declared.operands]
    typed = [x for x, n in zip(operands, declared.operands) if isinstance(x, Expr) and n not in declared.raw]
    common = next((x.dtype for x in typed if ex.is_smooth(x.dtype)), (typed or operands)[0].dtype)
    if declared.int_to_float and not ex.is_smooth(common):
        common = "float32"
    inputs = []
    for x, n in zip(operands, declared.operands):
        if isinstance(x, Expr):
            inputs.append(x if n in declared.raw else ex.cast(x, common))
        else:
            inputs.append(ex.like(ex.const(0, common), x))
    parameters = inspect.signature(declared.op).parameters if declared.params else {}  # type: ignore[arg-type]
    params = [bound.get(n, parameters[n].default if n in parameters else None) for n in declared.params]
    results = declared.trace(inputs, [ex.like(ex.const(0, ex.part(common)), p) for p in params])
    return results[0] if len(results) == 1 else results
