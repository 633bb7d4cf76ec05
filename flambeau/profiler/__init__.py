"""Where the time goes: a recording of what ran, as tables, traces and stacks, as `torch.profiler`.

>>> import flambeau
>>> from flambeau.profiler import profile, record_function
>>> with profile(record_shapes=True) as prof:
...     with record_function("model"):
...         y = flambeau.ones(2, 3) @ flambeau.ones(3, 4)
>>> [event.name for event in prof.events()]
['model', 'aten::ones', 'aten::ones', 'aten::matmul']
>>> prof.events()[3].input_shapes
[[2, 3], [3, 4]]
"""

from ..core.base.lazily import lazily as _lazily

_PUBLIC = {
    "DeviceType": "..autograd.profiler_util",
    "ProfilerAction": ".profiler",
    "ProfilerActivity": ".profiler",
    "kineto_available": ".profiler",
    "profile": ".profiler",
    "record_function": "..autograd.profiler",
    "schedule": ".profiler",
    "supported_activities": ".profiler",
    "tensorboard_trace_handler": ".profiler",
}

__all__ = [  # noqa: F822
    "DeviceType",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

__getattr__, __dir__ = _lazily(__name__, submodules=("profiler",), names=_PUBLIC)
