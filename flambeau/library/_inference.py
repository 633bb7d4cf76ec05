"""Schemas from the annotations of functions."""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from types import GenericAlias
from typing import Any, NoReturn

from .._compat.tags import Tag
from .._tensor import Tensor
from ..core.base.dtypes import device, dtype
from ..types import Number
from ._schema import quoted

# (annotation, type in a schema, whether lists of it, lists of it or None, and optional lists may be given)
_PARAMETERS: tuple[tuple[Any, str, bool, bool, bool], ...] = (
    (Tensor, "Tensor", True, True, False),
    (int, "SymInt", True, False, True),
    (float, "float", True, False, True),
    (bool, "bool", True, False, True),
    (str, "str", False, False, False),
    (Number, "Scalar", True, False, False),
    (dtype, "ScalarType", False, False, False),
    (device, "Device", False, False, False),
)
SUPPORTED_RETURN_TYPES: dict[Any, str] = {
    Tensor: "Tensor",
    typing.List[Tensor]: "Tensor[]",  # noqa: UP006
    list[Tensor]: "Tensor[]",
    int: "SymInt",
    float: "float",
    bool: "bool",
    Number: "Scalar",
}


def _lists(element: Any) -> tuple[Any, ...]:
    return (
        typing.Sequence[element],  # noqa: UP006
        typing.List[element],  # noqa: UP006
        GenericAlias(collections.abc.Sequence, (element,)),
        GenericAlias(list, (element,)),
    )


def _parameters() -> dict[Any, str]:
    result: dict[Any, str] = {}
    for kind, name, listed, of_optionals, optional in _PARAMETERS:
        result[kind] = name
        result[typing.Optional[kind]] = f"{name}?"  # noqa: UP045
        if listed:
            result.update((form, f"{name}[]") for form in _lists(kind))
        if of_optionals:
            result.update((form, f"{name}?[]") for form in _lists(typing.Optional[kind]))  # noqa: UP045
        if optional:
            result.update((typing.Optional[form], f"{name}[]?") for form in _lists(kind))  # noqa: UP045
    return result


SUPPORTED_PARAM_TYPES = _parameters()


class _Inference:
    """One function's schema in the making."""

    def __init__(self, function: Callable, mutates: Any, tags: tuple) -> None:
        self.function = function
        self.signature = inspect.signature(function)
        self.mutates = mutates if isinstance(mutates, str) else tuple(mutates)
        self.in_place, self.out = Tag.inplace in tags, Tag.out in tags

    def refuse(self, why: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {why} Got func with signature {self.signature})")

    def meant(self, annotation: Any) -> Any:
        """An annotation, with strings in it evaluated where the function was defined."""
        if isinstance(annotation, str):
            try:
                return eval(annotation, getattr(self.function, "__globals__", {}), None)
            except NameError as e:
                self.refuse(
                    f"Unsupported type annotation {annotation}. It is not a type. ({e}). If you are using 'from __future__ import "
                    "annotations', note that annotations are evaluated lazily as strings; make sure all types referenced in "
                    "annotations are importable at module scope, not only inside a local function."
                )
            except Exception as e:
                self.refuse(
                    f"Unsupported type annotation {annotation}. It is not a type. ({type(e).__name__}: {e})"
                )
        origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is not None and any(isinstance(a, str | typing.ForwardRef) for a in inner):
            declared = (a.__forward_arg__ if isinstance(a, typing.ForwardRef) else a for a in inner)
            meant = tuple(self.meant(a) for a in declared)
            return typing.Union[meant] if origin is typing.Union else GenericAlias(origin, meant)  # noqa: UP007
        return annotation

    def type_of(self, name: str, parameter: inspect.Parameter) -> str:
        if parameter.annotation is parameter.empty:
            self.refuse(f"Parameter {name} must have a type annotation.")
        meant = self.meant(parameter.annotation)
        try:
            return SUPPORTED_PARAM_TYPES[meant]
        except (KeyError, TypeError):
            pass
        valid = f"The valid types are: {SUPPORTED_PARAM_TYPES.keys()}."
        if typing.get_origin(meant) is tuple:
            inner = tuple(a for a in typing.get_args(meant) if a is not Ellipsis)
            instead = list[typing.Union[inner]] if inner else list  # type: ignore[valid-type]  # noqa: UP007
            example = f"For example, {instead}.\n\n" if instead in SUPPORTED_PARAM_TYPES else "\n\n"
            self.refuse(
                f"Parameter {name} has unsupported type {parameter.annotation}. We do not support Tuple inputs in schema. As a "
                f"workaround, please try to use List instead. {example}{valid}"
            )
        self.refuse(f"Parameter {name} has unsupported type {parameter.annotation}. {valid}")

    def default(self, name: str, value: Any) -> str:
        if value is None or isinstance(value, int | float):
            return str(value)
        if isinstance(value, str | device):
            return quoted(str(value))
        if isinstance(value, dtype):
            return str(value).rpartition(".")[2]
        self.refuse(f"Parameter {name} has an unsupported default value type {type(value)}.")

    def returned(self) -> str:
        meant = self.signature.return_annotation
        meant = self.meant(meant) if meant is not inspect.Signature.empty else meant
        if meant is None or meant is type(None):
            return "()"
        if meant is inspect.Signature.empty:
            self.refuse("No return type annotation was provided. Please add one.")
        many = typing.get_origin(meant) is tuple
        for one in typing.get_args(meant) if many else (meant,):
            if one not in SUPPORTED_RETURN_TYPES:
                self.refuse(
                    f"Return has unsupported type {meant}. The valid types are: {SUPPORTED_RETURN_TYPES}."
                )
        if not many:
            return SUPPORTED_RETURN_TYPES[meant]
        text = ", ".join(SUPPORTED_RETURN_TYPES[a] for a in typing.get_args(meant))
        return f"(({text}))" if len(typing.get_args(meant)) == 1 else f"({text})"

    def schema(self) -> str:
        words: list[str] = []
        types: dict[str, str] = {}
        outs: list[tuple[str, str]] = []  # (name, letter) of what is written to under Tag.out
        for k, (name, parameter) in enumerate(self.signature.parameters.items()):
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                self.refuse("We do not support positional-only args, varargs, or varkwargs.")
            if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
                words.append("*")
            kind = types[name] = self.type_of(name, parameter)
            if self.writes_to(name, kind):
                kind = f"Tensor(a{k}!){kind[len('Tensor') :]}"
                if self.out:
                    self.check_out(parameter, kind == f"Tensor(a{k}!)")
                    outs.append((name, f"a{k}"))
            default = (
                "" if parameter.default is parameter.empty else f"={self.default(name, parameter.default)}"
            )
            words.append(f"{kind} {name}{default}")
        self.check_mutates(types)
        return f"({', '.join(words)}) -> {self.result(types, outs)}"

    def writes_to(self, name: str, kind: str) -> bool:
        if isinstance(self.mutates, str):
            if self.mutates != "unknown":
                raise ValueError(
                    "mutates_args must either be a sequence of the names of the arguments that are mutated or the string 'unknown'. "
                )
            return kind.startswith("Tensor")
        if name in self.mutates and not kind.startswith("Tensor"):
            self.refuse(
                f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated"
            )
        return name in self.mutates

    def check_out(self, parameter: inspect.Parameter, one_tensor: bool) -> None:
        if parameter.kind is not parameter.KEYWORD_ONLY:
            self.refuse("torch.Tag.out requires mutable arguments to be keyword-only.")
        if not one_tensor:
            self.refuse("torch.Tag.out only supports mutable keyword-only Tensor arguments.")

    def check_mutates(self, types: dict[str, str]) -> None:
        unknown = set() if isinstance(self.mutates, str) else set(self.mutates) - set(types)
        if unknown:
            self.refuse(
                f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args should contain the names of all "
                "args that the custom op mutates, or just the string 'unknown' if you don't know."
            )

    def result(self, types: dict[str, str], outs: list[tuple[str, str]]) -> str:
        if self.out:
            return self.out_result(outs)
        inferred = self.returned()
        if not self.in_place:
            return inferred
        first = next(iter(self.signature.parameters.values()), None)
        if first is None or first.kind is first.KEYWORD_ONLY:
            self.refuse("torch.Tag.inplace requires a positional Tensor argument.")
        if types[first.name] != "Tensor":
            self.refuse("torch.Tag.inplace requires the first positional argument to be a Tensor.")
        if isinstance(self.mutates, str) or set(self.mutates) != {first.name}:
            self.refuse(
                f"torch.Tag.inplace requires mutates_args to contain exactly the first positional argument, got {self.mutates}."
            )
        if inferred != "Tensor":
            self.refuse("torch.Tag.inplace requires the return annotation to be torch.Tensor.")
        return "Tensor(a0!)"

    def out_result(self, outs: list[tuple[str, str]]) -> str:
        if not outs:
            self.refuse("torch.Tag.out requires at least one mutable keyword-only Tensor argument.")
        meant = self.meant(self.signature.return_annotation)
        wanted = Tensor if len(outs) == 1 else tuple[(Tensor,) * len(outs)]  # type: ignore[misc]
        if meant is not wanted and (typing.get_origin(meant), typing.get_args(meant)) != (
            tuple,
            (Tensor,) * len(outs),
        ):
            names = tuple(name for name, _ in outs)
            self.refuse(
                f"torch.Tag.out requires the return annotation to match the mutable keyword-only Tensor arguments {names}."
            )
        text = ", ".join(f"Tensor({letter}!)" for _, letter in outs)
        return text if len(outs) == 1 else f"({text})"


def as_tags(tags: Tag | Sequence[Tag] | None) -> tuple[Tag, ...]:
    """Tags as they may be given, as a tuple without doubles."""
    return (tags,) if isinstance(tags, Tag) else tuple(dict.fromkeys(tags or ()))


def infer_schema(
    prototype_function: Callable,
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Tag | Sequence[Tag] | None = (),
) -> str:
    """The schema that a function's annotations say; ValueError where a parameter has none, or one that no schema knows.

    >>> import flambeau
    >>> def scale(x: flambeau.Tensor, by: float = 2.0, *, dims: list[int] | None = None) -> flambeau.Tensor: ...
    >>> flambeau.library.infer_schema(scale, op_name="scale", mutates_args={})
    'scale(Tensor x, float by=2.0, *, SymInt[]? dims=None) -> Tensor'
    """
    tag_set = as_tags(tags)
    if Tag.inplace in tag_set and Tag.out in tag_set:
        raise AssertionError("torch.Tag.inplace and torch.Tag.out are mutually exclusive")
    return (op_name or "") + _Inference(prototype_function, mutates_args, tag_set).schema()
