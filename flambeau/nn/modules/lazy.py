"""Layers that learn the sizes of their inputs from the first one."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ..parameter import UninitializedParameter, is_lazy
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, _size_t
from .linear import Linear

__all__ = [
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyLinear",
    "LazyModuleMixin",
]


class LazyModuleMixin:
    """Makes a module lazy: its parameters get their shapes, and their values, at its first call.

    A class derives from this and a Module, registers `UninitializedParameter`s and `UninitializedBuffer`s, and defines
    `initialize_parameters(*inputs)`, which materialises all of them. The module becomes one of the class `cls_to_become`
    then, if that is not None.

    Convert and move a network with lazy modules first, call it once with an input of the right sizes, and use it
    then as any other. Its `state_dict` may be taken, copied and saved at any time; values that are loaded into a
    lazy module give it its shapes.

    Raises:
        TypeError: an argument is given that the class beside it does not take

    >>> import flambeau
    >>> from flambeau import nn
    >>> model = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
    >>> model[0]
    LazyLinear(in_features=0, out_features=3, bias=True)
    >>> model(flambeau.zeros(1, 2)).shape == (1, 3)
    True
    >>> model[0]
    Linear(in_features=2, out_features=3, bias=True)
    """

    cls_to_become: type | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialise every parameter and buffer; called with what the module is called with.

        Raises:
            NotImplementedError: the class does not define it.
        """
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer of the module, not of its children, has no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _infer_parameters(self: Any, module: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        del module._initialize_hook
        module._look_for_hooks()
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )


def _wait_for_weights(module: Any, bias: bool, device: Any, dtype: Any) -> None:
    """Let the weight and, if there is one, the bias wait for their shapes."""
    module.weight = UninitializedParameter(device=device, dtype=dtype)
    if bias:
        module.bias = UninitializedParameter(device=device, dtype=dtype)


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that takes `in_features` from its first input, of shape (*, in_features).

    Raises:
        RuntimeError: the first input has no dimension.

    >>> import flambeau
    >>> layer = flambeau.nn.LazyLinear(4)
    >>> layer(flambeau.zeros(5, 3)).shape == (5, 4), layer.weight.shape == (4, 3)
    (True, True)
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        _wait_for_weights(self, bias, device, dtype)

    def reset_parameters(self) -> None:
        """Draw new parameters, if there are any yet."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Take `in_features` from the input, and draw the parameters if they were not loaded."""
        if input.dim() == 0:
            raise RuntimeError("LazyLinear: expected an input of at least 1 dimension, got shape ()")
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        elif self.in_features == 0:  # its parameters were loaded
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]


class _LazyConvXdMixin(LazyModuleMixin):
    """What the lazy convolutions share."""

    _spatial: int

    def reset_parameters(self: Any) -> None:
        """Draw new parameters, if there are any yet."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take `in_channels` from the input, and draw the parameters if they were not loaded."""
        channels = self._get_in_channels(input)
        if self.has_uninitialized_params():
            if channels % self.groups != 0:
                raise ValueError("in_channels must be divisible by groups")
            self.in_channels = channels
            self.weight.materialize(self._weight_shape())
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()
        elif self.in_channels == 0:  # its parameters were loaded
            self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups

    def _get_in_channels(self, input: Tensor) -> int:
        unbatched = self._spatial + 1
        if input.dim() not in (unbatched, unbatched + 1):
            raise RuntimeError(
                f"Expected {unbatched}D (unbatched) or {unbatched + 1}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {input.shape}"
            )
        return input.shape[-unbatched]


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: _size_t,
        stride: _size_t = 1,
        padding: _size_t | str = 0,
        dilation: _size_t = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self.out_channels = out_channels
        _wait_for_weights(self, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: _size_t,
        stride: _size_t = 1,
        padding: _size_t = 0,
        output_padding: _size_t = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _size_t = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode
        )
        self.out_channels = out_channels
        _wait_for_weights(self, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):  # type: ignore[misc]
    """A `Conv1d` that takes `in_channels` from its first input.

    Raises:
        RuntimeError: the first input is neither (N, C, L) nor (C, L).
        ValueError: `groups` does not divide its channels.

    >>> import flambeau
    >>> layer = flambeau.nn.LazyConv1d(8, 3)
    >>> layer(flambeau.zeros(1, 4, 10)).shape == (1, 8, 8), layer.in_channels
    (True, 4)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):  # type: ignore[misc]
    """A `Conv2d` that takes `in_channels` from its first input.

    Raises:
        RuntimeError: the first input is neither (N, C, H, W) nor (C, H, W).
        ValueError: `groups` does not divide its channels.

    >>> import flambeau
    >>> layer = flambeau.nn.LazyConv2d(8, 3)
    >>> layer(flambeau.zeros(1, 4, 5, 5)).shape == (1, 8, 3, 3), layer.in_channels
    (True, 4)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):  # type: ignore[misc]
    """A `Conv3d` that takes `in_channels` from its first input.

    Raises:
        RuntimeError: the first input is neither (N, C, D, H, W) nor (C, D, H, W).
        ValueError: `groups` does not divide its channels.

    >>> import flambeau
    >>> layer = flambeau.nn.LazyConv3d(8, 3)
    >>> layer(flambeau.zeros(1, 4, 5, 5, 5)).shape == (1, 8, 3, 3, 3), layer.in_channels
    (True, 4)
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):  # type: ignore[misc]
    """A `ConvTranspose1d` that takes `in_channels` from its first input.

    Raises:
        RuntimeError: the first input is neither (N, C, L) nor (C, L).
        ValueError: `groups` does not divide its channels.

    >>> import flambeau
    >>> layer = flambeau.nn.LazyConvTranspose1d(8, 3)
    >>> layer(flambeau.zeros(1, 4, 5)).shape == (1, 8, 7), layer.weight.shape == (4, 8, 3)
    (True, True)
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):  # type: ignore[misc]
    """A `ConvTranspose2d` that takes `in_channels` from its first input.

    Raises:
        RuntimeError: the first input is neither (N, C, H, W) nor (C, H, W).
        ValueError: `groups` does not divide its channels.

    >>> import flambeau
    >>> layer = flambeau.nn.LazyConvTranspose2d(8, 3)
    >>> layer(flambeau.zeros(1, 4, 5, 5)).shape == (1, 8, 7, 7), layer.weight.shape == (4, 8, 3, 3)
    (True, True)
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):  # type: ignore[misc]
    """A `ConvTranspose3d` that takes `in_channels` from its first input.

    Raises:
        RuntimeError: the first input is neither (N, C, D, H, W) nor (C, D, H, W).
        ValueError: `groups` does not divide its channels.

    >>> import flambeau
    >>> layer = flambeau.nn.LazyConvTranspose3d(8, 3)
    >>> layer(flambeau.zeros(1, 4, 2, 2, 2)).shape == (1, 8, 4, 4, 4), layer.weight.shape == (4, 8, 3, 3, 3)
    (True, True)
    """

    cls_to_become = ConvTranspose3d
