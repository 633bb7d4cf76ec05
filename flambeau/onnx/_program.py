"""What `onnx.export` returns: the model, to be saved, looked at, and run by onnxruntime."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..core.base.tensor import TensorBase
from ..core.make.literal import from_numpy
from ..utils._trees import tree_leaves
from ._folding import fold
from ._load import load_model
from ._model import Model
from .errors import OnnxExporterError

if TYPE_CHECKING:
    from onnx import ModelProto

LIMIT = (1 << 31) - (1 << 20)  # bytes of one file of ONNX, with room for the graph beside the weights


class ONNXProgram:
    """An exported model, which `export` makes: called, it runs in onnxruntime.

    Raises:
        ImportError: onnx, or for a call onnxruntime, is not installed

    >>> import flambeau as torch
    >>> program = torch.onnx.export(torch.nn.Softmax(-1), (torch.zeros(1, 2),))
    >>> program.model_proto.graph.node[0].op_type
    'Softmax'
    >>> program(torch.zeros(1, 2))
    (tensor([[0.5000, 0.5000]]),)
    """

    def __init__(self, model: Model, opset: int, names: Sequence[str]) -> None:
        self._model, self._opset, self._names = model, opset, list(names)
        self._session: Any = None

    @property
    def model_proto(self) -> ModelProto:
        """The model as onnx has it, made anew at each call."""
        return self._model.proto(self._opset)

    def save(
        self,
        destination: str | os.PathLike,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model to a file, which is replaced once the whole model is written.

        Args:
            destination: its path.
            include_initializers: with the weights; without, they have to be given where the model runs.
            keep_initializers_as_inputs: weights are named among the inputs, so that others can be given.
            external_data: weights in a file of their own beside it, "NAME.data"; None: where there are 2 GiB and more.

        Raises:
            TypeError: the destination is no path
            OSError: the file cannot be written; nothing is left of it
            ValueError: the model is too large for one file, and external_data is False

        >>> import os, tempfile
        >>> import flambeau as torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "tanh.onnx")
        ...     torch.onnx.export(torch.nn.Tanh(), (torch.zeros(2),)).save(path)
        ...     os.path.exists(path)
        True
        """
        if not isinstance(destination, (str, os.PathLike)):
            raise TypeError(f"save(): destination must be a path, got {type(destination).__name__}")
        large = include_initializers and self._model.bytes_of_weights() > LIMIT
        if large and external_data is False:
            raise ValueError(
                "save(): the model has 2 GiB of weights or more: external_data must not be False"
            )
        path = os.fspath(destination)
        proto = self._model.proto(
            self._opset, initializers=include_initializers, as_inputs=keep_initializers_as_inputs
        )
        if large or external_data:
            _save_apart(proto, path)
        else:
            _replace(path, proto.SerializeToString())

    def _check(self) -> None:
        """onnx's own checker, shapes included, on what is small enough for it."""
        import onnx

        if self._model.bytes_of_weights() <= LIMIT:
            onnx.checker.check_model(self.model_proto, full_check=True)

    # --- running ------------------------------
    def initialize_inference_session(self, initializer: Callable[[bytes], Any] | None = None) -> None:
        """Make the session of onnxruntime that calls run in; `initializer` makes one of the model's bytes."""
        made = _session if initializer is None else initializer
        self._session = made(self.model_proto.SerializeToString())

    def release(self) -> None:
        """Let go of the session."""
        self._session = None

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[TensorBase, ...]:
        """The results that onnxruntime computes of arguments like those that were exported.

        Raises:
            ImportError: onnxruntime is not installed
            ValueError: there are more or fewer tensors than inputs
        """
        if self._session is None:
            self.initialize_inference_session()
        tensors = self._tensors(args, kwargs)
        feeds = {n: t.detach().numpy() for n, t in zip(self._names, tensors)}
        return tuple(from_numpy(np.array(x)) for x in self._session.run(None, feeds))

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[TensorBase, ...]:
        """The results that the model gives when it is read by `load_model` and run here, without onnxruntime.

        >>> import flambeau as torch
        >>> program = torch.onnx.export(torch.nn.Softmax(-1), (torch.zeros(1, 2),))
        >>> program.call_reference(torch.zeros(1, 2))
        (tensor([[0.5000, 0.5000]]),)
        """
        return self.compute_values([v.name for v, _ in self._model.outputs], args, kwargs)

    def compute_values(
        self, value_names: Sequence[str], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> tuple[TensorBase, ...]:
        """The values within the model that have these names, for arguments like those that were exported.

        Raises:
            OnnxLoadError: there is no value of that name, or an operator is none that is read here
            ValueError: there are more or fewer tensors than inputs

        >>> import flambeau as torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.ReLU())
        >>> x = torch.ones(1, 2)
        >>> program = torch.onnx.export(model, (x,))
        >>> first = program.model_proto.graph.node[0].output[0]
        >>> torch.allclose(program.compute_values([first], (x,))[0], model[0](x))
        True
        """
        proto = self.model_proto
        del proto.graph.output[:]
        for name in value_names:
            proto.graph.output.add(name=name)
        module = load_model(proto.SerializeToString())
        with no_grad():
            result = module(*self._tensors(args, kwargs))
        return result if isinstance(result, tuple) else (result,)

    def _tensors(self, args: Any, kwargs: Mapping[str, Any] | None) -> list[TensorBase]:
        """The tensors among arguments, as many as there are inputs."""
        tensors = [t for t in tree_leaves((args, dict(kwargs or {}))) if isinstance(t, TensorBase)]
        if len(tensors) != len(self._names):
            raise ValueError(f"ONNXProgram: {len(self._names)} tensors expected, got {len(tensors)}")
        return tensors

    def _verify(self, model: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]) -> None:
        """OnnxExporterError where onnxruntime gives other results than the model."""
        with no_grad():
            expected = [t for t in tree_leaves(model(*args, **kwargs)) if isinstance(t, TensorBase)]
        for k, (x, y) in enumerate(zip(self(*args, **kwargs), expected, strict=True)):
            if not np.allclose(x.numpy(), y.detach().numpy(), rtol=1e-3, atol=1e-4, equal_nan=True):
                raise OnnxExporterError(f"onnx.export(): result {k} of onnxruntime is not the model's")

    # --- changing and looking ------------------------------
    def optimize(self) -> None:
        """Compute what follows from constants alone, leave out what nobody reads, and make one of what is equal.

        >>> import flambeau as torch
        >>> program = torch.onnx.export(lambda x: x + torch.ones(2).exp(), (torch.ones(2),))
        >>> program.optimize()
        >>> [node.op_type for node in program.model_proto.graph.node]
        ['Add']
        """
        fold(self._model, self._opset)
        self._model.simplify()
        self.release()

    def rename_axes(self, rename_mapping: Mapping[str, str]) -> None:
        """Give sizes that vary other names, in inputs and outputs.

        Raises:
            ValueError: there is no size of that name

        >>> import flambeau as torch
        >>> program = torch.onnx.export(torch.nn.ReLU(), (torch.ones(2, 3),), dynamic_axes={"input": {0: "n"}})
        >>> program.rename_axes({"n": "batch"})
        >>> program.model_proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param
        'batch'
        """
        sides = self._model.inputs, self._model.outputs
        axes = {n for side in sides for _, sizes in side for n in sizes if isinstance(n, str)}
        for name in rename_mapping:
            if str(name) not in axes:
                raise ValueError(f"rename_axes(): there is no size '{name}': {sorted(axes)}")
        names = {str(old): new for old, new in rename_mapping.items()}
        for side in sides:
            side[:] = [(v, [names.get(n, n) for n in sizes]) for v, sizes in side]

    def apply_weights(self, state_dict: Mapping[str, TensorBase]) -> None:
        """Replace weights by others, by their names.

        Raises:
            ValueError: a tensor has another shape than the weight
        """
        for name, t in state_dict.items():
            if name in self._model.weights and name in self._model.constants:
                array = t.detach().contiguous().numpy()
                if array.shape != self._model.constants[name].shape:
                    raise ValueError(
                        f"apply_weights(): '{name}' has shape {self._model.constants[name].shape}, got {array.shape}"
                    )
                self._model.constants[name] = array.astype(self._model.constants[name].dtype)
        self.release()

    def __repr__(self) -> str:
        from onnx import printer

        return f"ONNXProgram(\n{printer.to_text(self._model.proto(self._opset, initializers=False))}\n)"


def _session(model: bytes) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError(
            "ONNXProgram: running models needs the package onnxruntime: pip install 'flambeau[onnx]'"
        ) from error
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def _replace(path: str, data: bytes) -> None:
    """Write a file beside the path, then put it in its place."""
    folder = os.path.dirname(os.path.abspath(path))
    number, beside = tempfile.mkstemp(dir=folder, prefix=".onnx-")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        os.chmod(beside, _rights(path))
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _rights(path: str) -> int:
    """Those of the file that is there, or what new files get."""
    if os.path.exists(path):
        return os.stat(path).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _save_apart(proto: ModelProto, path: str) -> None:
    """The weights in a file of their own, which the model names."""
    from onnx.external_data_helper import set_external_data

    name = f"{os.path.basename(path)}.data"
    parts, at = [], 0
    for tensor in proto.graph.initializer:
        data = tensor.raw_data
        if len(data) < 1024:
            continue
        at += -at % 4096
        set_external_data(tensor, name, at, len(data))
        tensor.ClearField("raw_data")
        parts.append((at, data))
        at += len(data)
    data_bytes = bytearray(at)
    for begin, data in parts:
        data_bytes[begin : begin + len(data)] = data
    _replace(os.path.join(os.path.dirname(os.path.abspath(path)), name), bytes(data_bytes))
    _replace(path, proto.SerializeToString())
