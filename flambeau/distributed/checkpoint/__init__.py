"""Checkpoints of several processes: each writes its part, and any number of processes reads them.

>>> import tempfile
>>> import flambeau
>>> import flambeau.distributed as dist
>>> import flambeau.distributed.checkpoint as dcp
>>> dist.init_process_group("fake", rank=0, world_size=1)
>>> net, folder = flambeau.nn.Linear(2, 1), tempfile.mkdtemp()
>>> metadata = dcp.save({"net": net, "epoch": 3}, checkpoint_id=folder)
>>> state = {"net": flambeau.nn.Linear(2, 1), "epoch": 0}
>>> dcp.load(state, checkpoint_id=folder)
>>> state["epoch"], bool((state["net"].weight == net.weight).all())
(3, True)
>>> dist.destroy_process_group()

The files are PyTorch's, `docs/checkpoints.md` is about their use.
"""

from ..._compat.absent import refusing as _refusing
from . import state_dict
from .api import CheckpointException
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from .state_dict_loader import load, load_state_dict
from .state_dict_saver import async_save, save, save_state_dict
from .stateful import Stateful
from .storage import StorageReader, StorageWriter

__all__ = [
    "BytesStorageMetadata",
    "CheckpointException",
    "ChunkStorageMetadata",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "HuggingFaceStorageReader",
    "HuggingFaceStorageWriter",
    "LoadPlan",
    "LoadPlanner",
    "Metadata",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "StorageReader",
    "StorageWriter",
    "Stateful",
    "TensorStorageMetadata",
    "WriteItem",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
    "state_dict",
]

__getattr__ = _refusing("distributed.checkpoint")
