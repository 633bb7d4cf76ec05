"""Settings of `flambeau.save` and `flambeau.load`, and files of Lua Torch: `load_lua` and `save_lua`."""

from ...core.base.lazily import lazily as _lazily
from . import config

__all__ = [  # noqa: F822
    "LuaFunction",
    "T7Reader",
    "T7ReaderException",
    "T7Writer",
    "Table",
    "TorchObject",
    "config",
    "load_lua",
    "save_lua",
]

__getattr__, __dir__ = _lazily(
    __name__,
    submodules=("read_lua_file", "write_lua_file"),
    names={
        **dict.fromkeys(
            ("LuaFunction", "T7Reader", "T7ReaderException", "Table", "TorchObject", "load_lua"),
            ".read_lua_file",
        ),
        **dict.fromkeys(("T7Writer", "save_lua"), ".write_lua_file"),
    },
)
