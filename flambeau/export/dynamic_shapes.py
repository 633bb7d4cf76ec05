"""Which sizes of the inputs may vary: `Dim`, and what `dynamic_shapes` says of each argument."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .._symbols.environment import LEAST, Symbol, Symbols
from .._symbols.expressions import Expr, symbol
from ..core.base import display
from ..core.base.tensor import TensorBase
from ..utils._pytree import MappingKey, SequenceKey, keystr, tree_flatten_with_path
from ._ranges import ValueRanges
from .errors import ConstraintViolationError, UserError

__all__ = ["Constraint", "Dim", "ShapesCollection", "dims"]


class _DimHint:
    """How a dimension may vary, without a name: `Dim.AUTO`, `Dim.DYNAMIC`, `Dim.STATIC`; called with `min` and `max` within a range."""

    def __init__(self, name: str, min: int | None = None, max: int | None = None) -> None:  # noqa: A002
        self.name, self.min, self.max = name, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> _DimHint:  # noqa: A002
        if self.name == "STATIC":
            raise TypeError(f"'{type(self).__name__}' object is not callable")
        if self.min is not None or self.max is not None:
            raise TypeError(f"'{type(self).__name__}' object is not callable")
        for what, end in (("min", min), ("max", max)):
            if end is not None and (type(end) is not int or end < 0):
                raise AssertionError(f"{what} must be non-negative, got {end}")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min must be <= max, got min={min}, max={max}")
        return _DimHint(self.name, min, max)

    def __repr__(self) -> str:
        if self.min is None and self.max is None:
            return f"DimHint({self.name})"
        return f"DimHint({self.name}, min={self.min}, max={self.max})"


class Dim:
    """A size that may vary, by name: dimensions with one name are equal, `2 * n + 1` is another size that follows from it.

    `Dim.AUTO` lets a dimension vary where the program does, `Dim.DYNAMIC` demands that it does, `Dim.STATIC` fixes it.

    Args:
        name: an identifier.
        min, max: the least size (0) and the largest (none).

    Raises:
        AssertionError: `min` is not less than `max`, or the name is no identifier
        NotImplementedError: arithmetic on names that is no a · n + b with whole a > 0 and b

    >>> import flambeau as torch
    >>> from flambeau.export import Dim, export
    >>> batch = Dim("batch", max=64)
    >>> program = export(torch.nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=({0: batch},))
    >>> program.range_constraints
    {s0: VR[0, 64]}
    >>> program.module()(torch.ones(7, 3)).shape
    flambeau.Size([7, 2])
    """

    AUTO = _DimHint("AUTO")
    DYNAMIC = _DimHint("DYNAMIC")
    STATIC = _DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:  # noqa: A002
        low = 0 if min is None else min
        high: float = math.inf if max is None else max
        if not isinstance(name, str) or not name.isidentifier():
            raise AssertionError(f"Dim(): the name must be an identifier, got {name!r}")
        if not high > low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        self.__name__, self.min, self.max = name, low, high

    def _derived(self, factor: int, offset: int) -> Dim:
        return _Derived(self, factor, offset)

    def __add__(self, other: Any) -> Dim:
        return self._derived(1, _integer("add", other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dim:
        return self._derived(1, -_integer("subtract", other))

    def __rsub__(self, other: Any) -> Dim:
        raise NotImplementedError(
            f"Attempted to negate {self.__name__}. The derived dim would be negative for some values, or decreasing."
        )

    def __mul__(self, other: Any) -> Dim:
        factor = _integer("multiply", other)
        if factor <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer was expected. (Only increasing linear "
                "operations with integer coefficients are supported.)"
            )
        return self._derived(factor, 0)

    __rmul__ = __mul__

    def _expr(self) -> Expr:
        return symbol(self.__name__)

    @property
    def root(self) -> Dim:
        """The size that it follows from: itself."""
        return self

    def __repr__(self) -> str:
        parts = [repr(self.__name__)]
        if self.min != 0:
            parts.append(f"min={self.min}")
        if self.max != math.inf:
            parts.append(f"max={self.max}")
        return f"Dim({', '.join(parts)})"


def _integer(what: str, other: Any) -> int:
    if type(other) is not int:
        raise NotImplementedError(
            f"Attempted to {what} {other!r}, where an integer was expected. (Only increasing linear operations with integer coefficients "
            "are supported.)"
        )
    return other


class _Derived(Dim):
    """a · n + b of a `Dim` n."""

    def __init__(self, root: Dim, factor: int, offset: int) -> None:
        self._root, self.factor, self.offset = root, factor, offset
        self.__name__ = str(symbol(root.__name__) * factor + offset)
        self.min = root.min * factor + offset
        self.max = root.max * factor + offset

    def _derived(self, factor: int, offset: int) -> Dim:
        return _Derived(self._root, self.factor * factor, self.offset * factor + offset)

    @property
    def root(self) -> Dim:
        """The size that it follows from."""
        return self._root

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:  # noqa: A002
    """Several `Dim`s with one range.

    Raises:
        AssertionError: `min` is not less than `max`

    >>> from flambeau.export import dims
    >>> dims("batch", "length", max=128)
    (Dim('batch', max=128), Dim('length', max=128))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


class Constraint(NamedTuple):
    """A dimension of an input that was said to vary: where it is, and how."""

    source: str
    spec: Any
    hint: int


class ShapesCollection:
    """What varies of each tensor, by the tensor itself: for arguments in deep structures.

    Raises:
        AssertionError: a key is neither a tensor nor an int in a list, or is given twice with other sizes

    >>> import flambeau as torch
    >>> from flambeau.export import Dim, ShapesCollection, export
    >>> x = torch.ones(4, 2)
    >>> shapes = ShapesCollection()
    >>> shapes[x] = (Dim("n"), None)
    >>> class Inner(torch.nn.Module):
    ...     def forward(self, d):
    ...         return d["x"] * 2
    >>> shapes.dynamic_shapes(Inner(), ({"x": x},))
    {'d': {'x': (Dim('n'), None)}}
    """

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        if not isinstance(t, (TensorBase, int)):
            raise AssertionError(f"Cannot assign shape to non-tensor or int type {type(t)}")
        entry = self._shapes.get(id(t))
        if entry is not None and entry[1] != shape:
            raise AssertionError(
                f"Shapes assigned to tensor do not match, existing: {entry[1]}, new: {shape}"
            )
        self._shapes[id(t)] = t, shape

    def __getitem__(self, t: Any) -> Any:
        if id(t) not in self._shapes:
            self._shapes[id(t)] = t, {}
        return self._shapes[id(t)][1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> Any:
        """What `export` takes for these arguments; ValueError for a tensor that is not among them."""
        left = set(self._shapes)

        def one(x: Any) -> Any:
            if isinstance(x, Mapping):
                return {k: one(v) for k, v in x.items()}
            if isinstance(x, (list, tuple)):
                return type(x)(map(one, x))
            left.discard(id(x))
            return self._shapes[id(x)][1] if id(x) in self._shapes else None

        result = {name: one(value) for name, value in combined(m, args, kwargs or {}).items()}
        if left:
            raise ValueError(
                f"Some tensors that were assigned shapes were not found in args: {len(left)} of them"
            )
        return result


# --- what is said of arguments ------------------------------
def combined(module: Any, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by parameter, in order; those of `*args` as one tuple, of `**kwargs` by their own names."""
    signature = inspect.signature(module.forward if hasattr(module, "forward") else module)
    bound = signature.bind(*args, **kwargs).arguments
    result: dict[str, Any] = {}
    for name, value in bound.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            result.update(value)
        else:
            result[name] = value
    return result


class Place(NamedTuple):
    """A leaf of the arguments: its path in words, its value, and what was said of it."""

    source: str
    value: Any
    spec: Any


def places(arguments: Mapping[str, Any], said: Any) -> list[Place]:
    """The leaves of the arguments in order, with what `dynamic_shapes` says of each; UserError where the two do not fit."""
    by_name: dict[str, Any]
    if said is None or len(said) == 0:
        by_name = dict.fromkeys(arguments)
    elif isinstance(said, Mapping):
        if set(said) != set(arguments):
            raise UserError(
                f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names {list(arguments)} of `inputs`, "
                f"but here they are {list(said)}. Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` "
                "as a list/tuple matching `inputs`."
            )
        by_name = {name: said[name] for name in arguments}
    elif isinstance(said, (list, tuple)):
        if len(said) != len(arguments):
            raise UserError(
                f"Expected `dynamic_shapes` to have {len(arguments)} items, one for each of {list(arguments)}, got {len(said)}"
            )
        by_name = dict(zip(arguments, said))
    else:
        raise UserError(f"Expected `dynamic_shapes` to be a dict, list or tuple, got {type(said).__name__}")
    result: list[Place] = []
    for name, value in arguments.items():
        for path, leaf in tree_flatten_with_path(value)[0]:
            spec = _at(by_name[name], path, name)
            result.append(
                Place(f"L['{name}']{keystr(path)}", leaf, _leaf_spec(spec, leaf, name + keystr(path)))
            )
    return result


def _at(spec: Any, path: Sequence[Any], name: str) -> Any:
    description = name
    for key in path:
        if spec is None:
            return None
        at: Any = (
            key.key
            if isinstance(key, MappingKey)
            else key.idx
            if isinstance(key, SequenceKey)
            else getattr(key, "name", None)
        )
        description += str(key)
        try:
            spec = spec[at] if isinstance(spec, (Mapping, list, tuple)) else getattr(spec, str(at))
        except (KeyError, IndexError, AttributeError):
            raise UserError(
                f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs{description}` is there, and "
                "`dynamic_shapes` says nothing of it (None says that nothing varies)"
            ) from None
    return spec


def _leaf_spec(spec: Any, leaf: Any, path: str) -> Any:
    """What is said of a leaf: a dict by dimension for a tensor, a `Dim` or hint for an int."""
    if spec is None:
        return {}
    if not isinstance(leaf, TensorBase):
        if isinstance(spec, (Dim, _DimHint)) and type(leaf) is int:
            return spec
        if isinstance(spec, (Dim, _DimHint)) or spec:
            raise UserError(
                f"Cannot associate shape {spec} specified at `dynamic_shapes['{path}']` to non-tensor type {type(leaf).__name__} at "
                f"`inputs['{path}']`"
            )
        return {}
    if isinstance(spec, (list, tuple)):
        if len(spec) != leaf.dim():
            raise UserError(
                f"Expected dynamic shape spec {spec} specified at `dynamic_shapes['{path}']` to have the same length as the actual tensor "
                f"shape {tuple(leaf.shape)}: {leaf.dim()}, got {len(spec)}"
            )
        spec = dict(enumerate(spec))
    if not isinstance(spec, Mapping):
        raise UserError(
            f"Unexpected input tensor shape {spec!r} at `dynamic_shapes['{path}']`: expected a dict or tuple of Dim, int or None"
        )
    result = {}
    for d, what in spec.items():
        if type(d) is not int or not -leaf.dim() <= d < leaf.dim():
            raise UserError(
                f"`dynamic_shapes['{path}']` names dimension {d!r} of a tensor of shape {tuple(leaf.shape)}"
            )
        size = int(leaf.shape[d])
        if type(what) is int:
            if what != size:
                raise UserError(
                    f"`inputs['{path}'].shape[{d}]` is {size}, and `dynamic_shapes` says that it is {what}"
                )
            continue
        if what is None or isinstance(what, _DimHint) and what.name == "STATIC":
            continue
        if not isinstance(what, (Dim, _DimHint)):
            raise UserError(
                f"Unexpected dimension {what!r} in `dynamic_shapes['{path}']`: expected Dim, Dim.AUTO, Dim.STATIC, int or None"
            )
        result[d % leaf.dim()] = what
    return result


# --- symbols ------------------------------
class Declared(NamedTuple):
    """The symbols of the arguments: by leaf the expressions of its dimensions (or of an int), and what the user demands of each."""

    sizes: list[dict[int, Expr]]
    constraints: dict[str, Constraint]  # by symbol


def declare(symbols: Symbols, leaves: Sequence[Place]) -> Declared:
    """Symbols for all that may vary, in order."""
    roots: dict[str, str] = {}  # names of `Dim`s to symbols
    constraints: dict[str, Constraint] = {}
    sizes: list[dict[int, Expr]] = []
    for place in leaves:
        for _, spec, hint, source in _dims_of(place):
            if isinstance(spec, Dim) and not isinstance(spec, _Derived):
                _enter_named(symbols, roots, constraints, spec, hint, source)
    for place in leaves:
        own: dict[int, Expr] = {}
        for d, spec, hint, source in _dims_of(place):
            e = _size(symbols, roots, constraints, spec, hint, source)
            if e is not None:
                own[d] = e
        sizes.append(own)
    return Declared(sizes, constraints)


def _dims_of(place: Place) -> Iterator[tuple[int, Any, int, str]]:
    if isinstance(place.spec, (Dim, _DimHint)):
        if not (isinstance(place.spec, _DimHint) and place.spec.name == "STATIC"):
            yield 0, place.spec, int(place.value), place.source
        return
    for d, spec in sorted(place.spec.items()):
        yield d, spec, int(place.value.shape[d]), f"{place.source}.size()[{d}]"


def _enter_named(
    symbols: Symbols,
    roots: dict[str, str],
    constraints: dict[str, Constraint],
    spec: Dim,
    hint: int,
    source: str,
) -> None:
    if spec.__name__ in roots:
        symbol = symbols.symbols[roots[spec.__name__]]
        if symbol.hint != hint:
            raise ConstraintViolationError(
                f"Constraints violated ({spec.__name__})!\n  - The values of {spec.__name__} = {source} and {spec.__name__} = "
                f"{symbol.source} must always be equal, and are {hint} and {symbol.hint} in the example"
            )
        if (symbol.low, symbol.high) != (spec.min, spec.max):
            raise UserError(
                f"Found different definitions Dim('{spec.__name__}', min={symbol.low}, max={symbol.high}) and {spec!r} for the same "
                "symbolic dimension"
            )
        return
    if hint < spec.min or hint > spec.max:
        raise ConstraintViolationError(
            f"{source} is {hint}, not in the range [{spec.min}, {spec.max}] of Dim('{spec.__name__}')"
        )
    if hint < LEAST:
        raise ConstraintViolationError(
            f"Constraints violated ({spec.__name__})!\n  - You marked {spec.__name__} as dynamic but your code specialized it to be a "
            f"constant ({hint}): sizes of 0 and 1 are programs of their own. Export with an example of {source} >= {LEAST}.\n"
            f"Suggested fixes:\n  {spec.__name__} = {hint}"
        )
    name = roots[spec.__name__] = f"s{len(symbols.symbols)}"
    symbols.add(Symbol(name, hint, source, int(spec.min), spec.max, spec.__name__, True))
    constraints[name] = Constraint(source, spec, hint)


def _size(
    symbols: Symbols,
    roots: dict[str, str],
    constraints: dict[str, Constraint],
    spec: Any,
    hint: int,
    source: str,
) -> Expr | None:
    if isinstance(spec, _Derived):
        root = spec.root
        if root.__name__ not in roots:
            of, rest = divmod(hint - spec.offset, spec.factor)
            if rest:
                raise ConstraintViolationError(
                    f"Constraints violated ({spec.__name__})!\n  - {source} is {hint}, which is no {spec.__name__} of a whole "
                    f"{root.__name__}"
                )
            _enter_named(symbols, roots, constraints, root, of, f"{source} (as {spec.__name__})")
        e = symbol(roots[root.__name__]) * spec.factor + spec.offset
        if e.value(symbols.hints()) != hint:
            raise ConstraintViolationError(
                f"Constraints violated ({spec.__name__})!\n  - Expected {source} to be {spec.__name__} = "
                f"{e.value(symbols.hints())}, got {hint}"
            )
        return e
    if isinstance(spec, Dim):
        return symbol(roots[spec.__name__])
    low, high = spec.min or 0, math.inf if spec.max is None else spec.max
    if not low <= hint <= high:
        raise ConstraintViolationError(f"{source} is {hint}, not in the range [{low}, {high}] of {spec!r}")
    if hint < LEAST:
        if spec.name == "DYNAMIC":
            raise ValueError(
                f"Found the following conflicts between user-specified ranges and inferred ranges from model tracing:\n- Received "
                f"user-specified dim hint Dim.DYNAMIC(min={spec.min}, max={spec.max}), but export 0/1 specialized due to hint of {hint} "
                f"for dimension {source}."
            )
        return None
    name = f"s{len(symbols.symbols)}"
    symbols.add(Symbol(name, hint, source, low, high, None, spec.name == "DYNAMIC"))
    if spec.name == "DYNAMIC":
        constraints[name] = Constraint(source, spec, hint)
    return symbol(name)


def settle(symbols: Symbols, e: Expr | int) -> Any:
    """An expression in free symbols, a number where none is left."""
    if not isinstance(e, Expr):
        return e
    result = symbols.settled(e)
    c = result.constant()
    return result if c is None else c


def check(symbols: Symbols, constraints: Mapping[str, Constraint]) -> None:
    """ConstraintViolationError where the program wants other sizes than the user said, with the lines that want it."""
    path: list[str] = []
    names: list[str] = []
    fixes: list[str] = []
    for name, of in constraints.items():
        label = of.spec.__name__ if isinstance(of.spec, Dim) else of.source
        before = len(path)
        if name in symbols.replaced:
            by, why = symbols.replaced[name]
            c = by.constant()
            if c is not None:
                path.append(
                    f"You marked {label} as dynamic but your code specialized it to be a constant ({c}): {why}. If you're using "
                    "Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO."
                )
                fixes.append(f"{label} = {c}")
            elif isinstance(of.spec, Dim):
                other = _in_labels(symbols, by)
                path.append(f"The values of {label} = {of.source} and {other} must always be equal: {why}.")
                fixes.append(f"{label} = {other}")
        elif isinstance(of.spec, Dim):
            low, high = symbols.ranges[name]
            if low > max(symbols.symbols[name].low, LEAST) or high < symbols.symbols[name].high:
                path.append(
                    f"Not all values of {label} = {of.source} in the specified range satisfy the generated guard {low} <= {of.source} <= "
                    f"{'IntInfinity()' if math.isinf(high) else high}: {'; '.join(symbols.reasons.get(name, ()))}."
                )
                ends = [f"min={low}"] if low > LEAST else []
                ends += [f"max={high}"] if not math.isinf(high) else []
                fixes.append(f"{label} = Dim('{label}'{''.join(', ' + e for e in ends)})")
        if len(path) > before:
            names.append(label)
    for guard in symbols.guards:
        wanted = [
            n for n in guard.expr.symbols() if n in constraints and isinstance(constraints[n].spec, Dim)
        ]
        if (
            wanted
            and guard.relation != "ne"
            and not any(symbols.symbols[n].unbacked for n in guard.expr.symbols())
        ):
            label = constraints[wanted[0]].spec.__name__
            names.append(label)
            path.append(f"Not all values of {label} satisfy the generated guard {guard}: {guard.why}.")
            fixes += _multiples(label, guard)
    if path:
        listed = "\n".join(f"  - {t}" for t in dict.fromkeys(path))
        fixed = "\n".join(f"  {f}" for f in dict.fromkeys(fixes))
        raise ConstraintViolationError(
            f"Constraints violated ({', '.join(dict.fromkeys(names))})!\n{listed}\nSuggested fixes:\n{fixed}"
        )


def _multiples(label: str, guard: Any) -> list[str]:
    """How a size is said to be a multiple of a number."""
    if guard.relation == "eq" and len(guard.expr.terms) == 1:
        product, _ = guard.expr.terms[0]
        if len(product) == 1 and getattr(product[0], "kind", "") == "mod":
            k = product[0].args[1].constant()
            return [f"_{label} = Dim('_{label}')", f"{label} = {k}*_{label}"]
    return [f"{label} = Dim.AUTO"]


def _in_labels(symbols: Symbols, e: Expr) -> str:
    return str(
        e.replaced({n: symbol(symbols.symbols[n].label or symbols.symbols[n].source) for n in e.symbols()})
    )


def ranges(symbols: Symbols) -> dict[Expr, ValueRanges]:
    """The ranges of the symbols that are left, as the user said them where the program wants no less."""
    result = {}
    for name in symbols.free():
        low, high = symbols.ranges[name]
        s = symbols.symbols[name]
        if s.strict and low == LEAST and s.low < LEAST and isinstance(s.label, str):
            low = s.low
        result[symbol(name)] = ValueRanges(low, high)
    return result


for _class in (Dim, ShapesCollection):
    _class.__module__ = display.public("export.dynamic_shapes")
