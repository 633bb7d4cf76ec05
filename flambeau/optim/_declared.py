"""Optimisers as declarations: a rule, its options and its state.

    class Adagrad(Declared):
        options = dict(lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10)
        flags = "foreach, *, maximize, differentiable, fused"
        entries = dict(step=scalar(), sum=like(start="initial_accumulator_value"))

        @staticmethod
        def rule(p, g, sum, *, step, lr, lr_decay, eps):
            sum = sum + g * g
            return p - lr / (1 + (step - 1) * lr_decay) * g / (sqrt(sum) + eps), sum

Everything else follows: the constructor and its checks, the state, checkpoints, one fused kernel for each
combination of what is on and off, complex parameters, and the rule as ordinary operations where its steps are to
be differentiated or captured.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..autograd.grad_mode import set_grad_enabled
from ..codegen import expr as ex
from ..codegen.expr import Expr
from ..core.base.dtypes import by_name, get_default_dtype
from ..core.base.spelling import hint
from ..core.base.tensor import TensorBase
from ..core.call.interceptors import has_interceptors, has_recorder
from ..core.make.create import full, zeros_like
from ..core.views.views import view_as_real
from ._fused import Fused, Leaf, which_are_off
from ._once import once, value_of
from .optimizer import Group, Optimizer, Params

# The options that all optimisers share, where they have them, and what they are by default.
FLAGS: dict[str, Any] = dict(foreach=None, maximize=False, capturable=False, differentiable=False, fused=None)


class Option(NamedTuple):
    """An option's default and what it must be."""

    default: Any
    holds: Callable[[Any], bool]
    wanted: str
    complaint: str = ""  # what its error says, with {} for the value, where it is not "Invalid … value: {}"


def anything(default: Any) -> Option:
    """An option of any value."""
    return Option(default, lambda value: True, "")


def _option(value: Any) -> Option:
    """What a default alone says: numbers are not negative, pairs are fractions, flags are as they are."""
    if isinstance(value, Option):
        return value
    if value is None or isinstance(value, bool):
        return anything(value)
    if isinstance(value, tuple):
        return Option(value, lambda given: all(0.0 <= x < 1.0 for x in given), "numbers in [0, 1)")
    return Option(value, lambda x: bool(0.0 <= x), "a number >= 0")


def _complaint(option: str, value: Any) -> str:
    """What PyTorch's error says of an option out of its range."""
    if option == "betas":
        index = 0 if not 0.0 <= value[0] < 1.0 else 1
        return f"Invalid beta parameter at index {index}: {value[index]}"
    names = {"lr": "learning rate", "eps": "epsilon value"}
    return f"Invalid {names.get(option, f'{option} value')}: {{}}"


class Entry(NamedTuple):
    """What `state[p]` has under one name; made by `like` or `scalar`."""

    start: float | str | Callable[[Any], Any]
    when: str = ""
    is_scalar: bool = False
    is_taped: bool = False
    is_plain: bool = False


def like(start: float | str | Callable[[Any], Any] = 0.0, when: str = "") -> Entry:
    """A tensor like the parameter, while the option `when` is on.

    It starts as a number, as the value of the option of that name, or as what a function makes of the parameter
    (None for no such entry).
    """
    return Entry(start, when)


def scalar(start: float | str = 0.0, taped: bool = False, plain: bool = False) -> Entry:
    """One number, in a 0-dim tensor or, `plain`, as Python has it.

    `taped`: a step that is differentiable computes with the tensor, as PyTorch's.
    """
    return Entry(start, is_scalar=True, is_taped=taped, is_plain=plain)


class Declared(Optimizer):
    """The base of the optimisers that are a rule.  A subclass says:

    `options`: their defaults, in the order of the constructor.  Numbers must not be negative and pairs must be
    fractions in [0, 1), unless an `Option` says otherwise.
    `flags`: what the constructor takes after them, of `FLAGS` and of the options; behind `*` by keyword alone.
    `fixed`: options that groups have and the constructor does not take.
    `entries`: the state of a parameter.  `step` counts its steps.
    `rule(p, g, *tensors, *, …)`: the new parameter, then the new tensors and scalars in the order of `entries`,
    without `step`.  `maximize` is in `g` already, and `weight_decay` in `p` or `g` unless the rule asks for it.  By
    keyword the rule asks for scalars, options, and `first` (whether the state is new).  An entry whose option is off
    is None, and so is its result.
    `elementwise`: whether each element is by itself; else the rule sees whole tensors, which it may write in place.
    `takes_complex`: whether parameters may be complex; they are pairs of real ones then.
    `takes_sparse`: whether gradients may be sparse.  The rule steps the elements that they list, where `_by_rows` says so,
    else all.  `takes_dense`: whether they may be dense.
    `decoupled`: whether `weight_decay` shrinks p by lr·weight_decay in place of entering the gradient; an option
    `decoupled_weight_decay` may say it, too.
    `at_once`: whether the constructor makes the state.
    """

    options: ClassVar[dict[str, Any]] = {}
    flags: ClassVar[str] = ""
    fixed: ClassVar[dict[str, Any]] = {}
    entries: ClassVar[dict[str, Entry]] = {}
    rule: ClassVar[Callable[..., Any]]
    elementwise: ClassVar[bool] = True
    takes_complex: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = False
    takes_dense: ClassVar[bool] = True
    decoupled: ClassVar[bool] = False
    at_once: ClassVar[bool] = False

    if TYPE_CHECKING:  # each class has one with its own signature

        def __init__(self, params: Params, *options: Any, **more: Any) -> None: ...

    # What follows from these.
    _checks: ClassVar[dict[str, Option]] = {}
    _tensors: ClassVar[dict[str, Entry]] = {}
    _scalars: ClassVar[list[str]] = []
    _rule_options: ClassVar[list[str]] = []
    _switches: ClassVar[list[str]] = []  # the options that choose a kernel by being on or off, or not zero
    _key: ClassVar[Any]  # of a group: which of these are off
    _kernels: ClassVar[
        tuple[dict[tuple[bool, ...], Fused], ...]
    ]  # of later steps and of the first, by `_key`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._kernels = ({}, {})
        cls._checks = {name: _option(value) for name, value in cls.options.items()}
        for name in cls._flag_names():
            cls._checks.setdefault(name, _option(FLAGS.get(name)))
        cls._tensors = {name: e for name, e in cls.entries.items() if not e.is_scalar}
        cls._scalars = cls._counts = [name for name, e in cls.entries.items() if e.is_scalar]
        cls._rule_options = [
            n for n, p in inspect.signature(cls.rule).parameters.items() if p.kind is p.KEYWORD_ONLY
        ]
        known = {*cls._checks, *cls.fixed}
        switches: list[str] = [
            n for n in ("maximize", "weight_decay", "decoupled_weight_decay") if n in known
        ]
        switches += [e.when for e in cls._tensors.values() if e.when]
        switches += [
            n for n in cls._rule_options if n in cls._checks and isinstance(cls._checks[n].default, bool)
        ]
        cls._switches = list(dict.fromkeys(switches))
        cls._key = staticmethod(which_are_off(cls._switches))
        if "options" in vars(cls):
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]

    @classmethod
    def _flag_names(cls) -> list[str]:
        return [name for name in cls.flags.replace(",", " ").split() if name != "*"]

    @classmethod
    def _check(cls, options: dict[str, Any]) -> None:
        """Raises ValueError for options that do not go together."""

    @staticmethod
    def _by_rows(group: Group) -> bool:
        """Whether an element without gradient stands still."""
        return True

    def _check_options(self, options: dict[str, Any]) -> None:
        name = type(self).__name__
        for option, (_, holds, wanted, complaint) in self._checks.items():
            value = options[option]
            if isinstance(value, (tuple, list)):
                if len({isinstance(x, TensorBase) for x in value}) > 1:
                    raise ValueError(
                        f"{name}: {option} must be either both floats or both Tensors, got {value}"
                    )
                value = options[option] = _squeezed(tuple(value))
            for x in value if isinstance(value, tuple) else (value,):
                if isinstance(x, TensorBase) and x.numel() != 1:
                    raise ValueError(
                        f"{name}: Tensor {option} must be 1-element, got one of {x.numel()} elements"
                    )
            if not holds(value):
                said = (complaint or _complaint(option, value)).format(value)
                raise ValueError(f"{name}: {said}, wanted {wanted}")
        self._check(options)
        if options.get("fused"):
            for other in ("differentiable", "foreach"):
                if options.get(other):
                    raise RuntimeError(f"{name}: `fused` and `{other}` cannot be `True` together")

    def _complete_all(self) -> None:
        """Makes the entries of all parameters, where they are there from the start."""
        if self.at_once:
            for group in self.param_groups:
                for p in group["params"]:
                    self._complete(group, p)

    def _misfit(self, p: Any, state: Any) -> str | None:
        for name, entry in self._tensors.items():
            value = state.get(name)
            if isinstance(value, TensorBase):
                model = entry.start(p) if callable(entry.start) else p
                if model is None or value.shape != model.shape:
                    return (
                        f"{name!r} has the shape {tuple(value.shape)}, wanted "
                        f"{'none' if model is None else tuple(model.shape)} for a parameter of shape {tuple(p.shape)}"
                    )
        return None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As the base's; options and entries that earlier versions did not have, or kept otherwise, are mended."""
        super().__setstate__(state)
        for group in state.get("param_groups", ()):
            for option, check in self._checks.items():
                group.setdefault(option, check.default)
            group.update(self.fixed)
            for p in group["params"]:
                entries = self.state.get(p, {})
                for name in [n for n, value in entries.items() if value is None and n in self.entries]:
                    del entries[name]
                for name in self._scalars:
                    if name in entries and not (
                        self.entries[name].is_plain or isinstance(entries[name], TensorBase)
                    ):
                        entries[name] = _number(entries[name], group, p)

    # --- state ---
    def _complete(self, group: Group, p: Any) -> bool:
        """Makes the entries that a parameter has not yet; whether there were any."""
        made = False
        for name, entry in self.entries.items():
            if (not entry.when or group[entry.when]) and name not in self.state.get(p, ()):
                start = _squeezed(group[entry.start]) if isinstance(entry.start, str) else entry.start
                if entry.is_scalar:
                    value = start if entry.is_plain else _number(start, group, p)
                else:
                    value = _tensor_like(p, start)
                if value is not None:
                    self.state[p][name], made = value, True
        return made

    # --- steps ---
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns the closure's loss, if there is a closure."""
        loss = None if closure is None else self._loss(closure)
        for group in self.param_groups:
            params = group["params"]
            grads = [g for p in params if (g := p.grad) is not None]
            if len(grads) != len(params):
                params = [p for p in params if p.grad is not None]
            self._step_group(group, params, grads)
        return loss

    def _step_group(self, group: Group, params: list[Any], grads: list[Any]) -> None:
        """A step of these parameters of a group by these gradients."""
        self._refuse(group, params)
        if has_interceptors() or not self.takes_dense:  # else no tensors but plain ones are in use
            params, grads = self._step_sparse(group, params, grads)
        if not params:
            return
        whole = (
            not self.elementwise or has_recorder()
        )  # a recording has no numbers that change from step to step
        if whole or self.defaults.get("differentiable") or group.get("capturable"):
            self._step_by_operations(group, params, grads)
        else:
            self._fused_step(group, params, grads)

    def _refuse(self, group: Group, params: list[Any]) -> None:
        """Raises for parameters that the group's options or the rule do not take."""
        where = f"{type(self).__name__}.step"
        if group.get("fused"):
            for p in params:
                if not p.is_floating_point():
                    raise RuntimeError(
                        f"{where}: fused=True requires all the params to be floating point tensors, got {p.dtype}"
                    )
        if group.get("capturable"):
            for p in params:
                if p.device.type == "cpu":
                    raise AssertionError(
                        f"{where}: capturable=True takes parameters on accelerators, got one on {p.device}"
                    )
        if not self.takes_complex and any(map(TensorBase.is_complex, params)):
            raise RuntimeError(f"{where}: {type(self).__name__} does not support complex parameters")

    def _step_sparse(self, group: Group, params: list[Any], grads: list[Any]) -> tuple[list[Any], list[Any]]:
        """Steps by the gradients that are sparse; the other parameters and gradients."""
        are_sparse, name = [g.is_sparse for g in grads], type(self).__name__
        if not self.takes_dense and not all(are_sparse):
            raise RuntimeError(f"{name} does not support dense gradients, please consider Adam instead")
        if not any(are_sparse):
            return params, grads
        if not self.takes_sparse:
            raise RuntimeError(
                f"{name} does not support sparse gradients, please consider SparseAdam instead"
            )
        if group.get("weight_decay"):
            raise RuntimeError(f"{name}: weight_decay option is not compatible with sparse gradients")
        if group.get("differentiable") or not self._by_rows(group):
            return params, [g.to_dense() for g in grads]
        for p, g in _chosen((list(zip(params, grads)),), are_sparse, True)[0]:
            self._step_rows(group, p, g.coalesce())
        return tuple(_chosen((params, grads), are_sparse, False))  # type: ignore[return-value]

    def _step_rows(self, group: Group, p: Any, g: Any) -> None:
        """The rule on the elements that a coalesced sparse gradient lists, and on their state."""
        kernel = self._kernel(group, self._complete(group, p))
        state, at = self.state[p], tuple(g.indices())
        with set_grad_enabled(False):
            written = [p, *(get(state) for get in kernel.tensors)]
            rows = [[x[at]] for x in written]
            numbers, after = kernel.numbers(group, *(float(get(state)) for get in kernel.scalars))
            kernel.op.foreach([rows[0], [g.values()], *rows[1:]], out=rows, **numbers)
            for whole, (part,) in zip(written, rows):
                whole[at] = part
        for name, value in zip(self._scalars, after):
            _write(state, name, value)

    def _fused_step(self, group: Group, params: list[Any], grads: list[Any], first: bool = False) -> None:
        """One run of a kernel for all parameters whose scalars are the same."""
        kernel = self._kernel(group, first)
        lists: list[list[Any]] = [params, grads]
        scalars: list[list[Any]] = []
        if kernel.reads:
            states = list(map(self.state.__getitem__, params))
            try:
                for get in kernel.tensors:
                    lists.append(list(map(get, states)))
                for get in kernel.scalars:
                    scalars.append(list(map(get, states)))
            except KeyError:
                new = [self._complete(group, p) for p in params]
                for is_new in dict.fromkeys(new):
                    chosen, their_grads = _chosen((params, grads), new, is_new)
                    self._fused_step(group, chosen, their_grads, is_new)
                return
        if has_interceptors():  # distributed tensors may be among them
            lists = [[_piece(x, p) for x, p in zip(tensors, params)] for tensors in lists]
        if any(map(TensorBase.is_complex, params)):
            lists = [[_real(x) for x in tensors] for tensors in lists]
        now = []
        for column in scalars:
            values = list(map(float, column))
            if values.count(values[0]) != len(values):
                return self._steps_apart(kernel, group, lists, scalars)
            now.append(values[0])
        kernel.run(group, lists, scalars, now)

    def _kernel(self, group: Group, first: bool) -> Fused:
        """The kernel for a group's options, of a parameter's first step or of later ones."""
        kernels, key = self._kernels[first], self._key(group)
        kernel = kernels.get(key)
        if kernel is None:
            kernel = kernels[key] = self._traced(group, first)
        return kernel

    def _steps_apart(
        self, kernel: Fused, group: Group, lists: list[list[Any]], scalars: list[list[Any]]
    ) -> None:
        """A run for each tuple of scalars."""
        keys = list(zip(*(map(float, column) for column in scalars)))
        for now in dict.fromkeys(keys):
            kernel.run(group, _chosen(lists, keys, now), _chosen(scalars, keys, now), now)

    def _traced(self, group: Group, first: bool) -> Fused:
        """The kernel of the rule where the options of `_switches` are on and off as in the group."""
        on = {name: bool(group[name]) for name in self._switches}
        leaves: dict[Expr, Leaf] = {}

        def leaf(name: str, statement: str = "") -> Expr:
            made = ex.make("parameter", (), "float64", name)
            leaves[made] = Leaf(name, statement)
            return made

        def number(name: str) -> Any:
            if name == "first":
                return first
            if name in self._scalars:
                return leaf(name)
            default = self._checks[name].default
            if isinstance(default, bool):
                return on[name]
            if not isinstance(default, tuple):
                return leaf(name, f"{name} = float(group[{name!r}])")
            parts = [f"{name}{k}" for k in range(len(default))]
            return tuple(leaf(part, f"{', '.join(parts)} = map(float, group[{name!r}])") for part in parts)

        p, g, *inputs = (ex.input(k, "float64") for k in range(2 + len(self._tensors)))
        names = [n for n, e in self._tensors.items() if not e.when or on[e.when]]
        wanted = {*self._rule_options, *({"lr", "weight_decay"} & {*self._checks})}
        numbers = {name: number(name) for name in wanted}
        results, updates = self._applied(p, g, dict(zip(names, inputs)), numbers, on)
        return Fused(type(self).__name__, results, updates, names, self._scalars, leaves)

    def _applied(
        self, p: Any, g: Any, state: dict[str, Any], numbers: Mapping[str, Any], on: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The new parameter and the new tensors of `state`; the new scalars, but for `step`."""
        if on.get("maximize"):
            g = -g
        if on.get("weight_decay") and "weight_decay" not in self._rule_options:
            decay = numbers["weight_decay"]
            if on.get("decoupled_weight_decay", self.decoupled):
                p = p * (1 - numbers["lr"] * decay)
            else:
                g = g + decay * p
        tensors = [state.get(name) for name in self._tensors]
        results = self.rule(p, g, *tensors, **{name: numbers[name] for name in self._rule_options})
        new, *rest = results if isinstance(results, tuple) else (results,)
        names = [name for name in self.entries if name != "step"]
        if len(rest) != len(names):
            raise TypeError(
                f"{type(self).__name__}.rule returns {1 + len(rest)} values, wanted the parameter and {names}"
            )
        after = dict(zip(names, rest))
        return [new, *(after[name] for name in state)], {
            name: after[name] for name in self._scalars if name != "step"
        }

    def _step_by_operations(self, group: Group, params: list[Any], grads: list[Any]) -> None:
        """The rule on tensors, one parameter after the other; recorded where the step is differentiable."""
        differentiable = bool(self.defaults.get("differentiable"))
        on = {name: bool(group[name]) for name in self._switches}
        options: dict[Any, dict[str, Any]] = {}  # on each device
        with set_grad_enabled(differentiable):
            for p, g in zip(params, grads):
                if p.device not in options:
                    options[p.device] = self._options_on(group, p.device)
                first = self._complete(group, p)
                self._step_one(p, g, {**options[p.device], "first": first}, on, differentiable)

    def _options_on(self, group: Group, device: Any) -> dict[str, Any]:
        """What a rule on tensors reads of a group: numbers and tensors; of whole tensors numbers alone."""
        names = {*self._rule_options, "lr", "weight_decay", "capturable"} & {*self._checks}
        result = {name: _squeezed(group[name], device) for name in names}
        if not self.elementwise:
            result = {name: x.item() if isinstance(x, TensorBase) else x for name, x in result.items()}
        return result

    def _step_one(
        self, p: Any, g: Any, numbers: dict[str, Any], on: Mapping[str, Any], differentiable: bool
    ) -> None:
        state = self.state.get(p, {})
        names = [name for name in self._tensors if name in state]
        written = [_real(x) for x in (p, *map(state.__getitem__, names))]
        # What the tape saves must not be written over: the rule sees copies then.
        seen = [x.clone() for x in written] if differentiable else written
        scalars: dict[str, Any] = {}
        for name in self._scalars:
            beside = numbers.get("capturable") or (differentiable and self.entries[name].is_taped)
            if has_recorder() and not beside and not self.entries[name].is_plain:
                scalars[name] = state[name].double()  # in the precision of Python's numbers
            else:
                scalars[name] = state[name].to(p.device) if beside else float(state[name])
        if "step" in scalars:
            scalars["step"] = scalars["step"] + 1
        numbers |= scalars
        operands = [*seen, _real(g)]
        if has_recorder() and self.elementwise and not differentiable:
            operands = [once(x) for x in operands]
        results, updates = self._applied(
            operands[0], operands[-1], dict(zip(names, operands[1:])), numbers, on
        )
        for old, new in zip(written, [value_of(x) for x in results]):
            if new is not old:
                old.copy_(new)
        scalars |= updates
        for name, value in scalars.items():
            _write(state, name, value)


def _constructor(cls: type[Declared]) -> Callable[..., None]:
    """`__init__` with the signature that `options` and `flags` say."""
    flags = cls._flag_names()
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in ("self", "params")]
    first = [name for name in cls.options if name not in flags and name not in cls.fixed]
    for name in (*first, *cls.flags.replace(",", " ").split()):
        if name == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
        else:
            parameters.append(inspect.Parameter(name, kind, default=cls._checks[name].default))
    signature = inspect.Signature(parameters)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            unknown = next(
                (hint(name, signature.parameters) for name in kwargs if name not in signature.parameters), ""
            )
            raise TypeError(f"{cls.__name__}.__init__(): {error}{unknown}") from None
        bound.apply_defaults()
        _, params, *_ = bound.args
        options = {name: value for name, value in bound.arguments.items() if name not in ("self", "params")}
        options |= cls.fixed
        self._check_options(options)
        super(Declared, self).__init__(params, options)
        self._complete_all()

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


def _number(value: Any, group: Group, p: Any) -> Any:
    """A 0-dim tensor for an entry of the state of `p`, where PyTorch has it."""
    wide = get_default_dtype().name == "float64" and not group.get("fused")
    device = p.device if group.get("capturable") or group.get("fused") else "cpu"
    return full((), float(value), dtype=by_name["float64" if wide else "float32"], device=device)


def _write(state: dict[str, Any], name: str, value: Any) -> None:
    """A new scalar in the place of the old one."""
    old = state[name]
    if isinstance(value, TensorBase):
        old.copy_(value)
    elif isinstance(old, TensorBase):
        old.fill_(value)
    else:
        state[name] = type(old)(value)


def _tensor_like(p: Any, start: Any) -> Any:
    if callable(start):
        return start(p)
    made = zeros_like(p, requires_grad=False)
    if start != 0:
        _real(made).fill_(start)
    return made


def _piece(x: Any, p: Any) -> Any:
    """What this process has of a distributed tensor, placed as its parameter is: a rule of elements runs on pieces."""
    placements = getattr(p, "placements", None)
    if placements is None or not hasattr(x, "_local_tensor"):
        return x
    return (x if x.placements == placements else x.redistribute(placements=placements))._local_tensor


def _real(x: Any) -> Any:
    """Complex parameters are optimised as pairs of real numbers."""
    return view_as_real(x) if x.is_complex() else x


def _squeezed(option: Any, device: Any = None) -> Any:
    """An option as a number or a 0-dim tensor; of pairs, each."""
    if isinstance(option, tuple):
        return tuple(_squeezed(x, device) for x in option)
    if isinstance(option, TensorBase):
        option = option.squeeze() if option.dim() else option
        return option if device is None else option.to(device)
    return option


def _chosen(lists: Sequence[list[Any]], keys: list[Any], key: Any) -> list[list[Any]]:
    """The members of each list whose key is this."""
    chosen = [k == key for k in keys]
    return [list(compress(members, chosen)) for members in lists]
