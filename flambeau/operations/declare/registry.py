"""Every operation there is, once: what the public namespace, the Tensor class, tests and documentation are
drawn from.
"""

from __future__ import annotations

import functools
import math
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...core.base import display
from ...core.base.device import OutOfMemoryError
from ...core.base.tensor import TensorBase
from ...core.call import casting
from ...core.call.copies import clone as copied_by
from ...core.call.function import FunctionOp, on_host
from ...core.call.leaf import LeafOp
from ...core.call.operation import Op
from ...core.make.random import Generator, generator_on
from . import fallbacks
from .dtype_groups import of_kind
from .forms import form_at


class Entry(NamedTuple):
    """An operation and what can be derived from its declaration."""

    name: str
    kind: str  # pointwise, reduction, row, view, library, composite …
    function: Callable  # what users call
    places: tuple[str, ...]  # dotted public names, "Tensor.exp" for methods
    in_place: Callable | None
    body: Callable | None  # the declared scalar function
    reference: str | None  # an independent implementation, as "numpy.exp"
    domain: tuple[float, float]  # where random test inputs are drawn from
    differentiable: bool
    details: dict[str, Any]
    module: str  # where it is declared: its family
    line: int
    batching: str | None  # the rule of `vmap` (func/_rules.py), where it is not that of its kind
    dtypes: (
        frozenset[str] | None
    )  # which its tensors, or those that it makes, may have; None where an inner one does not say it
    gives: Any  # its results, as a schema writes them or the class of their named tuple, where the annotation does not tell
    by_host: str | None  # why tensors of accelerators are taken to the CPU for it; None where they are not


REGISTRY: dict[str, Entry] = {}

COMPILED = type(copied_by)  # the type of functions in Cython

_IN_PLACE = (
    "",
    "Tensor",
    "nn.functional",
)  # where forms that write in place are public, with "_" after the name

# Kinds of which NumPy, SciPy or LAPACK computes leaves on the CPU, in memory that they ask for themselves.
BY_LIBRARIES = frozenset(("fallback", "lapack", "search", "sort", "spectral"))
# Kinds whose Python functions make no tensors of others: views, copies, fillings, answers.
HANDED_ON = frozenset(("view", "copy", "conversion", "creation", "random", "question", "error"))


def guarded(function: Callable) -> Callable:
    """The function with our error for memory that a library did not get on the CPU."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except MemoryError as e:
            raise refused(function.__name__, e, (*args, *kwargs.values())) from None

    return call


def through_host(function: Callable, name: str, why: str) -> Callable:
    """The function for tensors of any device: computed on the CPU, on the tape; a tensor that it writes to is written.

    `fallbacks.py` says what happens at the first call that does so.
    """

    code = getattr(function, "__code__", None)
    named = () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    turn = named.index("generator") if "generator" in named else -1

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        place = None
        if not on_host(args, kwargs):
            place = next((x.device for x in _tensors((*args, *kwargs.values())) if not x.is_cpu), None)
        if place is None or place.type == "meta":  # what runs on the host has a rule for tensors without data
            try:
                return function(*args, **kwargs)
            except MemoryError as e:
                raise refused(function.__name__, e, (*args, *kwargs.values())) from None
        fallbacks.meet(name, place.type, why)
        given: dict[int, tuple[TensorBase, TensorBase]] = {}  # copies made here, and what they are copies of

        def there(x: Any) -> Any:
            if isinstance(x, TensorBase) and not x.is_cpu:
                copied = x.cpu()
                given[id(copied)] = copied, x
                return copied
            return type(x)(map(there, x)) if type(x) in (tuple, list) else x

        def back(x: Any) -> Any:
            if isinstance(x, TensorBase):
                if id(x) not in given:
                    return x.to(place)
                original = given[id(x)][1]
                return (original if original.shape == x.shape else original.resize_(x.shape)).copy_(x)
            if isinstance(x, tuple):
                return type(x)(*map(back, x)) if hasattr(x, "_fields") else tuple(map(back, x))
            return list(map(back, x)) if type(x) is list else x

        if turn < 0:
            return back(function(*map(there, args), **{n: there(x) for n, x in kwargs.items()}))
        before, after = args[:turn], args[turn + 1 :]  # the host draws from the device's stream
        requested = args[turn] if turn < len(args) else kwargs.pop("generator", None)
        own = generator_on(requested, place, function.__name__)
        kwargs.update(dict(zip(named[turn + 1 :], after)), generator=Generator().set_state(own.get_state()))
        try:
            return back(function(*map(there, before), **{n: there(x) for n, x in kwargs.items()}))
        finally:
            own.set_offset(kwargs["generator"].get_offset())

    return call


def refused(name: str, error: MemoryError, args: Iterable) -> OutOfMemoryError:
    """The error for memory that NumPy or SciPy did not get: with the bytes requested where they tell them."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is not None and dtype is not None:
        return OutOfMemoryError(
            f"{name}(): cannot allocate {math.prod(shape) * dtype.itemsize} bytes on the CPU: {error}"
        )
    given = sum(x.nbytes for x in _tensors(args))
    return OutOfMemoryError(f"{name}(): cannot allocate memory on the CPU to work on {given} bytes: {error}")


def _tensors(values: Iterable) -> Iterable[TensorBase]:
    for x in values:
        if isinstance(x, TensorBase):
            yield x
        elif type(x) in (tuple, list):
            yield from (y for y in x if isinstance(y, TensorBase))


class Leaf(NamedTuple):
    """What a leaf's declaration says of its node on the tape; see `leaf`."""

    results: tuple[str, ...]
    inputs: tuple[str, ...] | None
    underived: bool = False

    def operation(self, name: str, function: Callable, owns: bool, out: bool) -> LeafOp:
        """The operation that the function computes, which may be that of several leaves."""
        made = LeafOp(function, name.rpartition(".")[2], owns=owns, out=out)
        made.describe(self.results, self.inputs)
        if self.underived:
            made.refuse()
        return made


def register(
    name: str,
    kind: str,
    function: Callable,
    *,
    places: tuple[str, ...] | None = None,
    in_place: Callable | None = None,
    body: Callable | None = None,
    reference: str | None = None,
    domain: tuple[float, float] = (-3.0, 3.0),
    differentiable: bool = True,
    forwards: bool = False,
    out: bool = False,
    composite: bool | None = None,
    leaf: Leaf | None = None,
    label: str | None = None,
    autocast: Any = None,
    batching: str | None = None,
    flops: Callable | None = None,
    aten: str | None = None,
    like: bool | str = False,
    elementwise: bool | None = None,
    writes: bool | None = None,
    dtypes: frozenset[str] | None = None,
    gives: Any = None,
    by_host: str | None = None,
    **details: Any,
) -> Callable:
    """Enter an operation; `places` defaults to the flat namespace and a method of Tensor.

    A function becomes a `FunctionOp`.  The results of one in Python are views of its arguments only, unless it is `forwards`:
    then it chooses one operation, and hands on what that one returns.  `out`: it gets the keyword `out=`, for a tensor apart.
    `composite`: it calls operations and nothing else, which modes of the lower level see in its place; so does an entry of that kind
    unless it is a `whole`.  `leaf`: it is one node on the tape.  `label`: the name of its node, where it does not follow from its own.
    `autocast`: what autocast does with it (`core/call/casting.pyx`: "lower", "float32", "widest" …), or two such rules, for the CPU and
    for accelerators, or a function of a call that tells one.  `batching`: the rule of `vmap`, where it is not that of its kind.
    `flops`: how many floating-point operations a call makes (`flops.py`).
    `aten`: what ATen calls it, where that is not its public name.
    `like`: it makes a tensor like its first argument, of which it reads shape, dtype and device alone; "type": dtype and device alone.
    `elementwise`: it works on each element, and on those at the same place of its other operands; what is public of the kinds
    "pointwise" and "fallback" does unless that is said otherwise.
    `details`: facts that some libraries read of some operations, among them these.
    `identity`: what changes nothing where it stands among the elements that are reduced or scanned; infinite ones are the least and the
    greatest value of the dtype, NaN is 0 where there is none.
    `moves`: the elements of its results are elements of its tensor arguments, chosen by the other arguments alone; "view" and "join" do
    unless that is said otherwise.
    `decomposes`: of a leaf, that its function calls operations and nothing else, chosen by geometry alone: graphs hold those in its place.
    `element`: a function of a call's arguments that gives what each element of the result is: the tensor whose element stands at the same
    place, converted, or a number; None where neither does.
    `additive`: f(a + b) = f(a) + f(b).  `loss_of_each`: a loss of `input` and `target` that is a number for each element, or the mean or
    the sum of these.  `product`: a function of a call's arguments that gives the one product that it computes
    (`operations/linalg/products.py`).  `gain`: the factor of initial weights before it (`nn.init.calculate_gain`).
    `of_values`: its elements are values of Python's or of another library's, which a trace keeps as constants.
    `sharding`: the rule of distributed tensors (`distributed/tensor/_rules.py`), where it is not that of its kind.  `partial`: the
    reduction by which what it makes of pieces becomes what it makes of the whole.  `linear`: a sum in these operands, the others as they
    are, gives a sum; "together", one in all of them does.
    `constants`: of an operation for one value of an argument that PyTorch's has, that value by the argument's name, which nodes tell.
    `writes`: it writes to its first argument and returns it; that is what an underscore at the end of a name means in PyTorch, and it is
    read here alone.
    `dtypes`: which its tensors may have, indices and conditions apart, or those that it makes; a public one that does not say it takes
    those of its kind (`dtype_groups.py`).
    `by_host`: why tensors of accelerators are taken to the CPU and the results back; None of what the device computes itself.
    `gives`: its results where the annotation does not tell them: as a schema writes them ("Tensor[]", "bool"), or the class of their
    named tuple.
    """
    if name in REGISTRY:
        raise ValueError(f"the operation {name} is declared twice")
    if places is None:
        places = (name, f"Tensor.{name}")
    if dtypes is None and places:
        dtypes = details["computed_by"].entry.dtypes if "computed_by" in details else of_kind(kind)
    if composite is None:
        composite = kind == "composite" and leaf is None and not details.get("whole")
    if by_host is not None:
        function = through_host(function, (places or (name,))[0], by_host)
    elif kind in BY_LIBRARIES and not composite:
        function = guarded(function)
    owns = isinstance(function, types.FunctionType) and kind not in HANDED_ON and not forwards
    function = (
        as_operation(function, owns, out) if leaf is None else leaf.operation(name, function, owns, out)
    )
    writes_over = isinstance(in_place, types.FunctionType)  # what the operation gives, by operations
    in_place = as_operation(in_place, False)
    if writes_over:
        in_place.composite = in_place.function
    if composite and isinstance(function, FunctionOp):
        function.composite = function.function
    call_as(function, places)
    call_as(in_place, [p + "_" for p in places if p.rpartition(".")[0] in _IN_PLACE])
    if elementwise is None:
        elementwise = kind in ("pointwise", "fallback") and any("._" not in f".{p}" for p in places)
    where, line = declaring()
    entry = Entry(
        name,
        kind,
        function,
        places,
        in_place,
        body,
        reference,
        domain,
        differentiable,
        details,
        where,
        line,
        batching,
        dtypes,
        gives,
        by_host,
    )
    REGISTRY[name] = entry
    for op in (function, in_place):
        if isinstance(op, Op):
            op.writes = op is in_place or (
                name.endswith("_") and not name.endswith("__") if writes is None else writes
            )
            op.entry = op.entry or entry  # the first, where it is entered under other names again
            if label is not None:
                op.label = label
            if op.entry is entry:
                op.like, op.elementwise = like, elementwise
            if flops is not None:
                op.flops = flops
            if aten is not None:
                op.aten = aten + "_" if op is in_place else aten
    if autocast is not None:
        casting.declare(function, autocast)
    _published.clear()
    return function


def declaring() -> tuple[str, int]:
    """The module and the line that declare the operation that is entered: the nearest caller's outside of this package."""
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__")).startswith(__package__) and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")), frame.f_lineno


def as_operation(function: Any, owns: bool, out: bool = False) -> Any:
    """The operation that a function in Python or Cython computes; what is none stays what it is."""
    if isinstance(function, (types.FunctionType, COMPILED)):
        return FunctionOp(function, owns=owns, out=out)
    return function


def operation(function: Callable | None = None, *, flops: Callable | None = None) -> Any:
    """A function that modes see as one call, but that stands in no list: of a module that is imported when it is requested.

    `flops` is as of `register`.
    """
    if function is None:
        return functools.partial(operation, flops=flops)
    op = as_operation(function, True)
    op.flops = flops
    return op


def call_as(function: Callable | None, places: Sequence[str]) -> None:
    """Name an operation by the first place where users find it, and so does pickle: itself, not a form of it, where there is such a
    place.
    """
    if not places or not isinstance(function, (types.FunctionType, Op)):
        return
    bare = [place for place in places if form_at(function, place) is function]
    if not bare:
        function.form = form_at(function, places[0])
    place = (bare or places)[0]
    head, _, name = place.rpartition(".")
    if name.startswith("_"):
        return
    function.__module__ = display.NAME if head in ("", "Tensor") else display.public(head)
    public = place if head == "Tensor" else name
    if isinstance(function, Op):
        function.public_name = public
    else:
        function.__qualname__ = public


def library(kind: str, *places: str, **details: Any) -> Callable[[Callable], Callable]:
    """Enter a Python function as an operation at those dotted names (by default its own name and the method)."""

    def enter(function: Callable) -> Callable:
        name = details.pop("name", function.__name__)
        return register(name, kind, function, places=places or None, **details)

    return enter


def leaf(
    kind: str,
    *places: str,
    results: Sequence[str] = ("result",),
    inputs: Sequence[str] | None = None,
    label: str | None = None,
    underived: bool = False,
    **details: Any,
) -> Callable[[Callable], LeafOp]:
    """Enter a function as a leaf: one node on the tape, whose derivative `@name.derivative` declares.

    The function computes with the tape off, by whatever means.  The formula calls operations and nothing else; its parameters name
    what it reads (core/call/leaf.pyx): `grad`, `needs`, arguments, and results by the names in `results`.

        @leaf("lapack", results=("L", "info"))
        def cholesky_factor(A: TensorBase) -> tuple[TensorBase, TensorBase]:
            …

        @cholesky_factor.derivative
        def _(grad, L):
            …

    Args:
        kind, places, details: as of `library`; without places it is public nowhere, and seen by modes all the same.
        results: names of the results, in order; none of one that returns any number of them.
        inputs: the parameters that gradients are returned for, in order; those that take tensors.
        label: the name of its node, which follows from the operation's.
        underived: it has no derivative, and backward through it raises NotImplementedError, which names it.
    """
    given = Leaf(tuple(results), None if inputs is None else tuple(inputs), underived)

    def enter(function: Callable) -> Any:
        name = details.pop("name", function.__name__)
        return register(name, kind, function, places=places, leaf=given, label=label, **details)

    return enter


def published(prefix: str) -> Mapping[str, Callable]:
    """What is public of operations at `prefix` ("" the flat namespace, "Tensor.", "nn.functional."), those that write in place
    included.
    """
    if prefix in _published:
        return _published[prefix]
    result: dict[str, Callable] = {}
    for entry in REGISTRY.values():
        for place in entry.places:
            head, _, name = place.rpartition(".")
            if head != prefix.rstrip(".") or (name.startswith("_") and not name.startswith("__")):
                continue
            result[name] = form_at(entry.function, place)
            if entry.in_place is not None and head in _IN_PLACE:
                result[name + "_"] = form_at(entry.in_place, place + "_")
    _published[prefix] = types.MappingProxyType(result)
    return _published[prefix]


_published: dict[str, Mapping[str, Callable]] = {}  # by prefix, until another operation is entered
