"""What programs say of a model beside its configurations, when its graph is quantised."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, ClassVar, Self


class QuantType(IntEnum):
    """Kinds of quantisation, for classes of a program's own.

    Raises nothing.

    >>> from flambeau.ao.quantization import QuantType
    >>> QuantType.STATIC.value
    1
    """

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


class _Config:
    """Attributes that are lists or dicts, empty at first; `_keys` are their names in PyTorch's older dicts."""

    _keys: ClassVar[dict[str, str]]

    def __init__(self) -> None:
        self.preserved_attributes: list[str] = []

    def set_preserved_attributes(self, attributes: list[str]) -> Self:
        """Name attributes that the result has too, though its graph does not use them."""
        self.preserved_attributes = attributes
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({ {k: v for k, v in self.__dict__.items() if v} })"

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any]) -> Self:
        """Of a dict as `to_dict` makes it; ValueError for a key that is not known."""
        made = cls()
        for key, value in config_dict.items():
            if key not in cls._keys:
                raise ValueError(
                    f"{cls.__name__}.from_dict(): expected keys among {list(cls._keys)}, got {key!r}"
                )
            if isinstance(value, dict):
                value = {QuantType[kind.upper()]: pairs for kind, pairs in value.items()}
            setattr(made, cls._keys[key], value)
        return made

    def to_dict(self) -> dict[str, Any]:
        """What is not empty, by PyTorch's keys."""
        result = {}
        for key, attribute in self._keys.items():
            if value := getattr(self, attribute):
                by_name = isinstance(value, dict)
                result[key] = (
                    {kind.name.lower(): pairs for kind, pairs in value.items()} if by_name else value
                )
        return result


class PrepareCustomConfig(_Config):
    """What `prepare_fx` and `prepare_qat_fx` are told beside the configurations.

    Raises:
        ValueError: a kind of quantisation other than STATIC for a class of a program's own, or an unknown key of a dict.

    >>> from flambeau.ao.quantization.fx.custom_config import PrepareCustomConfig
    >>> PrepareCustomConfig().set_input_quantized_indexes([0])
    PrepareCustomConfig({'input_quantized_indexes': [0]})
    """

    _keys: ClassVar[dict[str, str]] = {
        "float_to_observed_custom_module_class": "float_to_observed_mapping",
        "non_traceable_module_name": "non_traceable_module_names",
        "non_traceable_module_class": "non_traceable_module_classes",
        "input_quantized_idxs": "input_quantized_indexes",
        "output_quantized_idxs": "output_quantized_indexes",
        "preserved_attributes": "preserved_attributes",
    }

    def __init__(self) -> None:
        super().__init__()
        self.float_to_observed_mapping: dict[QuantType, dict[type, type]] = {}
        self.non_traceable_module_names: Sequence[str] = []
        self.non_traceable_module_classes: Sequence[type] = []
        self.input_quantized_indexes: Sequence[int] = []
        self.output_quantized_indexes: Sequence[int] = []

    def set_float_to_observed_mapping(
        self, float_class: type, observed_class: type, quant_type: QuantType = QuantType.STATIC
    ) -> Self:
        """Observe modules of a class by one that has a class method `from_float`."""
        if quant_type is not QuantType.STATIC:
            raise ValueError(
                f"set_float_to_observed_mapping(): quant_type must be QuantType.STATIC, got {quant_type!r}"
            )
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self

    def set_non_traceable_module_names(self, module_names: list[str]) -> Self:
        """Keep modules of these dotted names whole, in floats."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes: list[type]) -> Self:
        """Keep modules of these classes whole, in floats."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes: list[int]) -> Self:
        """Say which inputs of the model are quantised tensors."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes: list[int]) -> Self:
        """Say that the model's result stays quantised: [0], for a graph has one result."""
        self.output_quantized_indexes = indexes
        return self


class ConvertCustomConfig(_Config):
    """What `convert_fx` is told beside the configurations.

    Raises:
        ValueError: an unknown key of a dict.

    >>> from flambeau.ao.quantization.fx.custom_config import ConvertCustomConfig
    >>> ConvertCustomConfig().set_preserved_attributes(["version"]).to_dict()
    {'preserved_attributes': ['version']}
    """

    _keys: ClassVar[dict[str, str]] = {
        "observed_to_quantized_custom_module_class": "observed_to_quantized_mapping",
        "preserved_attributes": "preserved_attributes",
    }

    def __init__(self) -> None:
        super().__init__()
        self.observed_to_quantized_mapping: dict[QuantType, dict[type, type]] = {}

    def set_observed_to_quantized_mapping(
        self, observed_class: type, quantized_class: type, quant_type: QuantType = QuantType.STATIC
    ) -> Self:
        """Replace observed modules of a class by one that has a class method `from_observed`."""
        self.observed_to_quantized_mapping.setdefault(quant_type, {})[observed_class] = quantized_class
        return self


class FuseCustomConfig(_Config):
    """What `fuse_fx` is told.

    Raises:
        ValueError: an unknown key of a dict.

    >>> from flambeau.ao.quantization.fx.custom_config import FuseCustomConfig
    >>> FuseCustomConfig.from_dict({"preserved_attributes": ["version"]}).preserved_attributes
    ['version']
    """

    _keys: ClassVar[dict[str, str]] = {"preserved_attributes": "preserved_attributes"}
