# Written by `python tools/interface.py` from the compiled module.
from typing import Any as _Any

from flambeau import Generator as Generator

_generator_at: _Any
_host_uint32: _Any
_philox: _Any
_reserve: _Any
_reserve_there: _Any
advance: _Any
begin_capture: _Any
cpu_device: _Any
default_generator: _Any
default_of_device: _Any
device: _Any
device_states: _Any
display: _Any
end_capture: _Any
generator_on: _Any
get_rng_state: _Any
get_stream: _Any
initial_seed: _Any
manual_seed: _Any
os: _Any
randperm: _Any
seed: _Any
seed_devices: _Any
set_device_states: _Any
set_rng_state: _Any
set_stream: _Any
settings: _Any
