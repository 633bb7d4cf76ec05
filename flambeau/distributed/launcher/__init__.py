"""Start processes from Python, as `distributed.run` does from the command line."""

from ..._compat.absent import refusing as _refusing
from . import api
from .api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "api", "elastic_launch", "launch_agent"]
__getattr__ = _refusing("distributed.launcher")
