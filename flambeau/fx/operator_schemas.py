"""Signatures of what nodes call: arguments by position or by name, with defaults filled in."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from ..core.call.operation import Op, behind
from ..nn.modules.module import Module

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(
    op: Callable[..., Any], return_schemas: bool = False
) -> list[inspect.Signature] | tuple | None:
    """The signatures of an operation in a list, which here is of one; None for what is no operation.

    `return_schemas` returns a pair of these and of their schemas.

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.operator_schemas import get_signature_for_torch_op
    >>> list(get_signature_for_torch_op(torch.nn.functional.linear)[0].parameters)
    ['input', 'weight', 'bias']
    """
    signatures = schemas = None
    if isinstance(op, Op):
        try:
            signatures, schemas = [inspect.signature(op)], [behind(op)._schema]
        except (TypeError, ValueError):
            signatures = schemas = None
    return (signatures, schemas) if return_schemas else signatures


def _normalized(
    signature: inspect.Signature, args: tuple, kwargs: dict[str, Any], only_names: bool
) -> ArgsKwargsPair | None:
    """Arguments bound to a signature; None where they do not fit it, or where only names are wanted and some have none."""
    kinds = {p.kind for p in signature.parameters.values()}
    if only_names and kinds & {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for k, (name, parameter) in enumerate(signature.parameters.items()):
        value = bound.arguments[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional.extend(value)
        elif only_names or k >= len(args):
            named[name] = value
        else:
            positional.append(value)
    return ArgsKwargsPair(tuple(positional), named)


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of an operation or a Python function with defaults filled in; None where its signature does not take them.

    `arg_types` and `kwarg_types` choose between overloads, of which an operation has one here.

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.operator_schemas import normalize_function
    >>> normalize_function(torch.nn.functional.relu, (1,), normalize_to_only_use_kwargs=True)
    ArgsKwargsPair(args=(), kwargs={'input': 1, 'inplace': False})
    """
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return None
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a submodule's `forward` with defaults filled in; RuntimeError where `root` has no such submodule.

    >>> import flambeau as torch
    >>> from flambeau.fx.operator_schemas import normalize_module
    >>> normalize_module(torch.nn.Sequential(torch.nn.ReLU()), "0", (1,), normalize_to_only_use_kwargs=True).kwargs
    {'input': 1}
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as e:
        raise RuntimeError(
            f"Tried to normalize arguments for module target {target} but root did not have that target!"
        ) from e
    return _normalized(inspect.signature(module.forward), args, kwargs or {}, normalize_to_only_use_kwargs)


def check_for_mutable_operation(target: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
    """RuntimeError for an operation that writes to its arguments, which a trace with `check_mutable_operations` refuses.

    >>> import flambeau as torch
    >>> from flambeau.fx.operator_schemas import check_for_mutable_operation
    >>> check_for_mutable_operation(torch.relu, (torch.ones(1),), {})
    """
    op = behind(target)
    if (isinstance(op, Op) and op.writes) or "out" in kwargs:
        raise RuntimeError(
            f"Tried to trace mutable operation {op.__name__}. FX only supports functional code, so operations that mutate operands "
            "in-place (e.g. via `out` arguments) are not supported"
        )


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether a value of one annotated type may be given where a signature says another.

    Raises nothing.

    >>> from flambeau.fx.operator_schemas import type_matches
    >>> type_matches(float, int), type_matches(int, str)
    (True, False)
    """
    if signature_type is argument_type or signature_type is Any:
        return True
    origin, inner = typing.get_origin(signature_type), typing.get_args(signature_type)
    if argument_type is None:
        argument_type = type(None)
    if origin is typing.Union or type(signature_type).__name__ == "UnionType":
        return any(type_matches(each, argument_type) for each in inner)
    if origin in (list, tuple):
        argument_origin, members = typing.get_origin(argument_type), typing.get_args(argument_type)
        if argument_origin is None:
            return origin is list and type_matches(inner[0], argument_type) and inner[0] is int
        return argument_origin in (list, tuple) and all(
            type_matches(inner[0], m) for m in members if m is not ...
        )
    if signature_type is float and argument_type is int:
        return True
    if isinstance(signature_type, type) and isinstance(argument_type, type):
        return issubclass(argument_type, signature_type)
    return False


def create_type_hint(x: Any) -> Any:
    """A list or tuple of types as an annotation: `List[int]` of `[int, int]`; anything else as it is.

    Raises nothing.

    >>> from flambeau.fx.operator_schemas import create_type_hint
    >>> create_type_hint([int, int])
    typing.List[int]
    """
    if not isinstance(x, list | tuple):
        return x
    members = list(x)
    common: Any = members[0] if members and all(m is members[0] for m in members) else Any
    return typing.List[common] if isinstance(x, list) else typing.Tuple[common, ...]  # noqa: UP006
