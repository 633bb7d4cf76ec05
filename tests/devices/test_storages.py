"""Storages of another device: the same bytes by the same calls, and what only the CPU's memory can do."""

from __future__ import annotations

import copy
import os
import pickle

import pytest

import flambeau as torch
from flambeau import multiprocessing as mp

TYPE = os.environ.get("FLAMBEAU_TEST_DEVICE", "opencl")
if not getattr(torch, TYPE).is_available():
    pytest.skip(f"no {TYPE} device", allow_module_level=True)

DEVICE = torch.device(TYPE, 0)


def test_bytes_of_a_device():
    x = torch.arange(6, device=DEVICE)
    s = x.untyped_storage()
    assert (s.device, s.get_device(), s.nbytes(), s.is_cuda) == (DEVICE, 0, 48, TYPE == "cuda")
    assert (s[0], s[8], s[-8]) == (0, 1, 5) and s.tolist() == torch.arange(6).untyped_storage().tolist()
    s[8] = 9
    part = s[16:32]
    part.fill_(0)
    assert x.tolist() == [0, 9, 0, 0, 4, 5] and part.device == DEVICE
    s[0:8] = 1
    assert x.tolist()[0] == int.from_bytes(bytes([1] * 8), "little")
    assert s.copy_(torch.arange(6).untyped_storage()) is s and x.tolist() == list(range(6))
    assert (
        s.cpu().tolist() == s.tolist()
        and s.cpu().device.type == "cpu"
        and s.to(device=DEVICE).device == DEVICE
    )
    assert s.resize_(4000).nbytes() == 4000 and x.tolist() == list(range(6))
    assert s.resize_(20).nbytes() == 20 and s.resize_(8000).nbytes() == 8000 and x[:2].tolist() == [0, 1]
    assert torch.UntypedStorage([1, 2], device=DEVICE).tolist() == [1, 2] and s.float().dtype is torch.float32
    assert torch.UntypedStorage(8, device=DEVICE).fill_(3).tolist() == [3] * 8 and s.new().device == DEVICE


def test_copies_of_a_device_s_storage():
    x = torch.arange(3, device=DEVICE)
    s = x.untyped_storage()
    for made in (s.clone(), copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        assert made.device == DEVICE and made.tolist() == s.tolist()
        made.fill_(7)
    assert x.tolist() == [0, 1, 2]


def test_tensors_of_a_device_travel_as_copies():
    ours, theirs = mp.Pipe()
    x = torch.arange(6.0, device=DEVICE).reshape(2, 3).t().requires_grad_()
    ours.send([x, x.untyped_storage()])
    y, s = theirs.recv()
    assert y.device == DEVICE and y.requires_grad and y.stride() == x.stride() and torch.equal(y, x)
    assert s.tolist() == x.untyped_storage().tolist() and s.device == DEVICE


def test_what_only_the_memory_of_the_cpu_can_do():
    s = torch.arange(6, device=DEVICE).untyped_storage()
    assert s.share_memory_() is s and s.is_shared() == (TYPE == "cuda")
    for call, error in (
        (lambda: memoryview(s), BufferError),
        (lambda: s.byteswap(torch.int64), RuntimeError),
        (lambda: s.pin_memory(), TypeError),
        (lambda: s._fd(), RuntimeError),
    ):
        with pytest.raises(error):
            call()
