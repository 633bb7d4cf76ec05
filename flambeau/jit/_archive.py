"""Archives of `jit.save`, here or in PyTorch, read: code as text, the module's attributes by an unpickler that runs nothing."""

from __future__ import annotations

import os
from pickle import UnpicklingError
from typing import Any

from .._files import locations
from .._files.archive import Archive, Source
from .._files.errors import Damaged
from .._files.reading import Zip
from .._files.unpickling import Unpickler
from .._tensor import Tensor
from ..core.base import display
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ._interpreter import Program
from ._modules import RecursiveScriptModule
from ._objects import Enumeration, ScriptClass, ScriptObject, construct
from ._parser import Refused

MOST_CODE = 1 << 28  # bytes of all code in an archive
_TAKEN = (frozenset(vars(Module())) | {"script_class", "_attributes"}) - {
    "training",
    "_is_full_backward_hook",
}
_LISTS = ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist")


def _holds_unmade(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(isinstance(v, _Made) for v in x)
    return isinstance(x, (_Made, _Helper, ScriptClass, Enumeration, type))


class _Made:
    """An object of a class of the archive, until its state comes."""

    def __init__(self, kind: ScriptClass) -> None:
        self.kind = kind


class _Helper:
    """A function of `torch.jit._pickle`."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Objects(Unpickler):
    """An unpickler that knows the classes of an archive, and makes modules and objects of them."""

    def __init__(self, data: Any, program: Program, loader: Any) -> None:
        super().__init__(data, persistent_load=loader)
        self.program = program
        self.parameters: dict[
            int, tuple[Parameter, Tensor]
        ] = {}  # by the tensor of the pickle, which is kept for its identity

    def find(self, module: str, name: str) -> Any:
        if module == "__torch__" or module.startswith("__torch__."):
            result = self.program.find([*module.split("."), name])
            if not isinstance(result, (ScriptClass, Enumeration)):
                raise UnpicklingError(f"the archive's code has no class {module}.{name}")
            return result
        if module == "torch.jit._pickle":
            if name not in (*_LISTS, "restore_type_tag"):
                raise UnpicklingError(f"{module}.{name} is not read")
            return _Helper(name)
        return super().find(module, name)

    def call(self, function: Any, args: Any) -> Any:
        if isinstance(function, Enumeration):  # whose members are pickled as a call with the value alone
            return construct(function, list(args) if type(args) is tuple else [args], {})
        if type(args) is not tuple:
            raise UnpicklingError(f"a call with a {type(args).__name__} in place of arguments")
        if isinstance(function, _Helper):
            if not args or type(args[0]) not in (list, dict, tuple):
                raise UnpicklingError(f"{function.name} of something else than a list or a dictionary")
            return args[0]
        if isinstance(function, ScriptClass) and function.tuple_class is not None:
            return construct(function, list(args), {})
        return super().call(function, args)

    def new(self, cls: Any, args: Any, keywords: Any) -> Any:
        if isinstance(cls, ScriptClass):
            if args or keywords or cls.tuple_class is not None:
                raise UnpicklingError(f"an object of {cls.name} is made of arguments")
            return _Made(cls)
        return super().new(cls, args, keywords)

    def build(self, made: Any, state: Any) -> Any:
        if not isinstance(made, _Made):
            return super().build(made, state)
        kind = made.kind
        if "__setstate__" in kind.methods:
            raise UnpicklingError(
                f"{kind.name} has a __setstate__, which would be run to load it: that is not done"
            )
        if type(state) is not dict or any(type(k) is not str for k in state):
            raise UnpicklingError(f"the attributes of {kind.name} are no dictionary of names")
        for name in state:
            if name not in kind.annotations:
                raise UnpicklingError(f"{kind.name} declares no attribute {name[:60]!r}")
            if name in _TAKEN or name.startswith("__") or "." in name or not name:
                raise UnpicklingError(
                    f"{kind.name} has an attribute of the name {name[:60]!r}, which modules keep for themselves"
                )
            if _holds_unmade(state[name]):
                raise UnpicklingError(f"attribute {name!r} of {kind.name} is an object that holds itself")
        self.charge(state)
        if not kind.is_module:
            result = ScriptObject(kind)
            result.values.update(state)
            return result
        owned = kind.lists.get("__parameters__", ())
        return RecursiveScriptModule._of(kind, {k: self._owned(v, k in owned) for k, v in state.items()})

    def _owned(self, value: Any, is_parameter: bool) -> Any:
        """A tensor as a parameter, the same for the same tensor; anything else as it is."""
        if not is_parameter or not isinstance(value, Tensor):
            return value
        entry = self.parameters.get(id(value))
        if entry is None:
            entry = self.parameters[id(value)] = Parameter(value.detach(), value.requires_grad), value
        return entry[0]

    def with_parameters(self, value: Any) -> Any:
        """An attribute with the parameters in place of the tensors that they were made of."""
        if isinstance(value, Tensor):
            return self.parameters[id(value)][0] if id(value) in self.parameters else value
        if isinstance(value, list):
            return [self.with_parameters(v) for v in value]
        if isinstance(value, dict):
            return {k: self.with_parameters(v) for k, v in value.items()}
        return tuple(self.with_parameters(v) for v in value) if type(value) is tuple else value


def load(file: Any, map_location: Any, extra_files: dict[str, Any] | None) -> RecursiveScriptModule:
    """The module of an archive in a binary file; RuntimeError or UnpicklingError for one that is damaged or hostile."""
    source = Source(file)
    if source.size == 0:
        raise EOFError("Ran out of input")
    if source.read(0, min(4, source.size)) != b"PK\3\4":
        raise Damaged("this is no zip archive, so no program that jit.save wrote")
    archive = Archive(source, inflating=True)
    root = _root(archive)
    program = Program(_sources(archive, root), ())
    constants = _reader(archive, root, "constants", program, map_location).load()
    if type(constants) is not tuple:
        raise Damaged(f"constants.pkl holds a {type(constants).__name__}, not a tuple")
    program.constants = constants
    reader = _reader(archive, root, "data", program, map_location)
    made = reader.load()
    if not isinstance(made, RecursiveScriptModule):
        raise Damaged(f"data.pkl holds a {type(made).__name__}, not a module")
    for module in made.modules():
        if isinstance(module, RecursiveScriptModule):
            for method in module.script_class.methods.values():
                method.compile()
            own = module.__dict__["_attributes"]
            own.update((name, reader.with_parameters(value)) for name, value in own.items())
    _read_extra(archive, root, extra_files)
    return made


def _root(archive: Archive) -> str:
    result = [n for n in archive.entries if n.endswith("/constants.pkl") and n.count("/") == 1]
    if len(result) != 1:
        if any(n.endswith(("/model.json", "/attributes.pkl")) for n in archive.entries):
            raise Damaged("the archive is of PyTorch before 1.4, whose programs are not read")
        raise Damaged(
            "the archive has no constants.pkl: it is no program that jit.save wrote (load reads what save wrote)"
        )
    root = result[0].rpartition("/")[0]
    if f"{root}/data.pkl" not in archive.entries:
        raise Damaged("the archive has no data.pkl")
    return root


def _sources(archive: Archive, root: str) -> dict[str, str]:
    """The files of code by their paths below `code/`."""
    result: dict[str, str] = {}
    before, remaining = f"{root}/code/", MOST_CODE
    for name, entry in archive.entries.items():
        if not name.startswith(before) or not name.endswith(".py"):
            continue
        remaining -= entry.size
        if remaining < 0:
            raise Damaged(f"the archive has more than {MOST_CODE} bytes of code")
        try:
            result[name.removeprefix(before)] = archive.read(name).decode()
        except UnicodeDecodeError as error:
            raise Damaged(f"{name} is no text: {error}") from error
    return result


def _reader(archive: Archive, root: str, what: str, program: Program, map_location: Any) -> _Objects:
    data = archive.read(f"{root}/{what}.pkl")
    loader = Zip(archive, root, map_location, None, folder=what)
    return _Objects(data, program, loader.persistent_load)


def _read_extra(archive: Archive, root: str, wanted: dict[str, Any] | None) -> None:
    """Fill the values of a dictionary by the records of its names."""
    for name in wanted or ():
        record = f"{root}/extra/{name}"
        if wanted is not None and record in archive.entries:
            data = archive.read(record)
            try:
                wanted[name] = data.decode()
            except UnicodeDecodeError:
                wanted[name] = data


def load_from(f: Any, map_location: Any, extra_files: dict[str, Any] | None) -> RecursiveScriptModule:
    """`jit.load`: of a path or a binary file; errors name it."""
    named = not hasattr(f, "read")
    who = f"{display.NAME}.jit.load: " + (f"{os.fspath(f)!r}: " if named else "")
    locations.restorer(map_location)  # an unknown place is an error before anything is read
    try:
        if not named:
            return load(f, map_location, extra_files)
        with open(f, "rb") as file:
            return load(file, map_location, extra_files)
    except (Refused, Damaged) as error:
        raise RuntimeError(f"{who}{error}") from None
    except UnpicklingError as error:
        raise RuntimeError(f"{who}{error}") from None
    except EOFError as error:
        raise EOFError(f"{who}{error}") from None
