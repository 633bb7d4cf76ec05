"""`onnx.export`: a model's call, recorded and written as ONNX."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.base.tensor import TensorBase
from ..utils._trees import tree_flatten, tree_unflatten
from . import _constants as constants
from ._bodies import express
from ._dims import Axes, axes_of
from ._lower import Lowering, held_value
from ._model import Model
from ._program import ONNXProgram
from ._record import Recorded, in_mode, input_names, others, record
from ._sizes import unified
from ._writer import DATA_TYPES, Value, Writer
from .errors import OnnxExporterError

LEAST_OPSET = 18
_FORMS = (
    "linalg.onnx_forms",
    "linalg.onnx_solvers",
    "moving.onnx_forms",
    "moving.onnx_indexing",
    "moving.onnx_sorting",
    "neural.onnx_forms",
    "neural.onnx_layers",
    "neural.onnx_windows",
    "pointwise.onnx_forms",
    "pointwise.onnx_special",
    "random.onnx_forms",
    "rows.onnx_forms",
    "signal.onnx_forms",
)


def export(
    model: Callable[..., Any],
    args: Any = (),
    f: str | os.PathLike | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    verify: bool = False,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: Any = None,
    do_constant_folding: bool = True,
    optimize: bool = True,
    custom_translation_table: Mapping[Any, Any] | None = None,
    report: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike = ".",
    operator_export_type: Any = None,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: Any = False,
    autograd_inlining: bool = True,
) -> ONNXProgram:
    """The model as ONNX, written to the file `f` where one is given.

    The model runs once on `args`, in eval mode unless `training` says otherwise, and the operations that it calls are written down: the
    model that comes out computes the same on other numbers.  Parameters and buffers are initializers under their names.

    Args:
        model: a module, or a function of tensors.
        args: what it is called with, a tuple; a tensor alone is one argument.  Tensors are inputs, everything else is fixed.
        f: the path of the file; it is replaced once the whole model is written.
        kwargs: arguments by keyword.
        verbose: print the graph.
        input_names, output_names: names in order; those that are missing follow from the model's parameters, or are "output".
        opset_version: of ONNX's operators, 18 to 23 (20).
        dynamo: both of PyTorch's ways give the same file here.
        external_data: weights beside the file where it is larger than 2 GiB, in "NAME.data".
        dynamic_shapes: sizes that may be others where the model runs, as `export.export` takes them: for each argument, a dict or
            tuple of names, `Dim`s or None.
        verify: run the model by onnxruntime on `args`, and compare.
        export_params: with the weights; without, they are inputs.
        keep_initializers_as_inputs: name weights among the inputs, too.
        dynamic_axes: the same by names of inputs and outputs: `{"x": {0: "batch"}}` or `{"x": [0]}`.
        training: True or `TrainingMode.TRAINING` for training mode, `PRESERVE` for the mode that the model is in.
        do_constant_folding, optimize: taken as in PyTorch; what is equal or is not read is left out in any case
            (`ONNXProgram.optimize` computes what follows from constants).
        custom_opsets: versions of domains that registered forms write operators of (1).
        custom_translation_table, report, profile, dump_exported_program, artifacts_dir, operator_export_type,
            export_modules_as_functions, autograd_inlining: PyTorch's exporters' own; only their defaults are taken.

    Raises:
        NotImplementedError: one of these last is not its default
        ImportError: onnx is not installed: `pip install flambeau[onnx]`
        OnnxExporterError: the model looks at values, writes to parameters, returns no tensor, or its graph changes with sizes
        UnsupportedOperatorError: an operation has no form in ONNX; its name and line are said
        ValueError: the version of operators is not known, or names do not fit

    >>> import flambeau as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> program = torch.onnx.export(model, (torch.ones(1, 2),), input_names=["x"], output_names=["y"])
    >>> [node.op_type for node in program.model_proto.graph.node]
    ['Gemm', 'Relu']
    >>> [i.name for i in program.model_proto.graph.initializer]
    ['0.weight', '0.bias']
    """
    _check_own(
        custom_translation_table=custom_translation_table,
        report=report,
        profile=profile,
        dump_exported_program=dump_exported_program,
        export_modules_as_functions=export_modules_as_functions,
        operator_export_type=getattr(operator_export_type, "value", operator_export_type),
    )
    require_onnx()
    _read_forms()
    opset = constants.ONNX_DEFAULT_OPSET if opset_version is None else opset_version
    if not LEAST_OPSET <= opset <= constants.ONNX_MAX_OPSET:
        raise ValueError(
            f"onnx.export(): opset_version must be {LEAST_OPSET} to {constants.ONNX_MAX_OPSET}, got {opset_version}"
        )
    if f is not None:
        _check_path(f)
    called, named = _arguments(args, kwargs, dynamo)
    names = _named(model, called, named, input_names)
    tensors = [t for t in tree_flatten((called, named))[0] if isinstance(t, TensorBase)]
    axes = axes_of(tensors, names, called, named, dynamic_axes, dynamic_shapes, model)
    with in_mode(model, _mode(training)):
        written = _written(model, called, named, names, opset, axes)
    _name_outputs(written, output_names, axes)
    written.own_constants()
    written.domains = dict(custom_opsets or {})
    program = ONNXProgram(written, opset, names)
    program._check()
    if verbose:
        print(program)
    if verify:
        program._verify(model, called, named)
    if f is not None:
        program.save(
            f,
            include_initializers=export_params,
            keep_initializers_as_inputs=keep_initializers_as_inputs or not export_params,
            external_data=None if external_data else False,
        )
    return program


def _check_own(**options: Any) -> None:
    """NotImplementedError for what only PyTorch's exporters do."""
    for name, value in options.items():
        if value:
            raise NotImplementedError(
                f"onnx.export(): {name} is an option of PyTorch's own exporters; register_custom_op_symbolic takes forms of operations"
            )


def require_onnx() -> None:
    """ImportError, which names what to install, where onnx is not there."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "onnx.export(): writing models needs the package onnx: pip install 'flambeau[onnx]'"
        ) from error


def _read_forms() -> None:
    """The forms of operations, which their families declare in modules of their own."""
    for module in _FORMS:
        importlib.import_module(f"...operations.{module}", __name__)


def _check_path(f: Any) -> None:
    if not isinstance(f, (str, os.PathLike)):
        raise TypeError(f"onnx.export(): f must be the path of a file, got {type(f).__name__}")
    folder = os.path.dirname(os.path.abspath(os.fspath(f)))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"onnx.export(): there is no folder {folder}")


def _arguments(args: Any, kwargs: Mapping[str, Any] | None, dynamo: bool) -> tuple[tuple, dict[str, Any]]:
    if isinstance(args, TensorBase):
        args = (args,)
    if isinstance(args, list):
        args = tuple(args)
    if not isinstance(args, tuple):
        raise TypeError(f"onnx.export(): args must be a tuple of arguments, got {type(args).__name__}")
    named = dict(kwargs or {})
    if not dynamo and args and isinstance(args[-1], dict) and all(isinstance(k, str) for k in args[-1]):
        named, args = {**args[-1], **named}, args[:-1]  # as the older way takes keywords
    return args, named


def _named(model: Any, args: tuple, kwargs: dict[str, Any], chosen: Sequence[str] | None) -> list[str]:
    """The names of inputs: those given, then those that follow."""
    names = input_names(model, args, kwargs)
    if chosen is not None:
        if len(chosen) > len(names):
            raise ValueError(
                f"onnx.export(): {len(chosen)} input_names for {len(names)} tensors among the arguments"
            )
        names[: len(chosen)] = chosen
    if len(set(names)) != len(names):
        raise ValueError(f"onnx.export(): input names must differ, got {names}")
    return names


def _mode(training: Any) -> bool | None:
    if training is None or training is False:
        return False
    if training is True:
        return True
    name = getattr(training, "name", str(training))
    if name not in ("EVAL", "PRESERVE", "TRAINING"):
        raise ValueError(f"onnx.export(): training must be a TrainingMode, got {training!r}")
    return {"EVAL": False, "TRAINING": True, "PRESERVE": None}[name]


def _written(
    model: Any, args: tuple, kwargs: dict[str, Any], names: Sequence[str], opset: int, axes: Axes
) -> Model:
    """The model written: once, or for several sizes, which are then made names."""
    if not axes.dims:
        return _once(record(model, args, kwargs), names, opset, False)
    leaves, spec = tree_flatten((args, kwargs))
    tensors = [t for t in leaves if isinstance(t, TensorBase)]

    def at(sizes: Mapping[str, int]) -> Model:
        made = iter(others(tensors, axes.sizes(tensors, sizes)))
        changed = [next(made) if isinstance(x, TensorBase) else x for x in leaves]
        again, by_name = tree_unflatten(changed, spec)
        return _once(record(model, again, by_name), names, opset, True)

    return unified(at, axes, tensors, names)


def _once(recorded: Recorded, names: Sequence[str], opset: int, varying: bool) -> Model:
    """What was recorded, in ONNX's operators."""
    g = Writer(opset, varying)
    g.expressed = express
    inputs = []
    for name, t in zip(names, recorded.tensors, strict=True):
        if t.dtype.name not in DATA_TYPES:
            raise OnnxExporterError(
                f"onnx.export(): input '{name}' is {t.dtype}, which ONNX's runtimes do not take"
            )
        inputs.append(Value(name, t.dtype.name, tuple(t.shape)))
        g.dtypes[name] = t.dtype.name
    taken, weights = set(names), []
    for name, t in recorded.weights.items():
        unique = name if name not in taken else f"{name}_weight"
        taken.add(unique)
        weights.append(_held_weight(g, t, unique))
    written = Lowering(g, recorded.graph, [*inputs, *weights], recorded.lines)
    outputs = [written.read(p).of(p.shape) for p in written.outputs]
    for k, v in enumerate(outputs):
        if v.dtype not in DATA_TYPES:
            raise OnnxExporterError(
                f"onnx.export(): result {k} is {v.dtype}, which ONNX's runtimes do not give: return view_as_real of it"
            )
    return Model(
        g.nodes,
        g.constants,
        g.dtypes,
        [(v, list(v.shape or ())) for v in inputs],
        [(v, list(v.shape or ())) for v in outputs],
        [v.name for v in weights],
        g.shapes,
    )


def _held_weight(g: Writer, t: TensorBase, name: str) -> Value:
    if t.dtype.name not in DATA_TYPES:
        return Value(name, t.dtype.name, tuple(t.shape))  # an error where it is read
    return held_value(g, t, name)


def _name_outputs(model: Model, output_names: Sequence[str] | None, axes: Axes) -> None:
    count = len(model.outputs)
    names = ["output"] if count == 1 else [f"output_{k}" for k in range(count)]
    if output_names is not None:
        if len(output_names) > count:
            raise ValueError(f"onnx.export(): {len(output_names)} output_names for {count} results")
        names[: len(output_names)] = output_names
    taken = {v.name for v, _ in model.inputs}
    for name in names:
        if name in taken or names.count(name) > 1:
            raise ValueError(f"onnx.export(): the name '{name}' is given to several inputs or outputs")
    model.simplify()
    inner = {n for node in model.nodes for n in node.outputs} | set(model.constants)
    if inner.intersection(names):
        model.prefix_values("value_", set(names))
    model.name_outputs(names)
    for (name, axis), label in axes.named.items():
        if name not in names:
            labels = sorted({*names, *taken})
            warnings.warn(
                f"onnx.export(): dynamic_axes names '{name}', which is no input or output: {labels}",
                stacklevel=3,
            )
            continue
        sizes = model.outputs[names.index(name)][1]
        if isinstance(sizes[axis], str) and not any(sizes[axis] == labels for labels in axes.dims):
            sizes[axis] = label
