"""safetensors: `safetensors.torch` reads and writes the tensors of a network; its sdist's tests need data that is not in it."""

import tempfile

import safetensors
import safetensors.torch
import torch
from harness import Client, fill, normal
from torch import nn

client = Client("safetensors")
FLOATS = "float64 float32 float16 bfloat16 complex64 float8_e4m3fn float8_e5m2"
DTYPES = f"{FLOATS} int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool".split()


@client.case
def every_dtype():
    tensors = {name: (normal(3, 4).abs() * 4).to(getattr(torch, name)) for name in DTYPES}
    tensors["empty"], tensors["number"] = torch.zeros(0, 3), torch.tensor(2.5)
    with tempfile.TemporaryDirectory() as folder:
        safetensors.torch.save_file(tensors, folder + "/x.safetensors", metadata={"made": "here"})
        read = safetensors.torch.load_file(folder + "/x.safetensors")
        with safetensors.safe_open(folder + "/x.safetensors", framework="pt", device="cpu") as file:
            keys, metadata = sorted(file.keys()), file.metadata()
            row = file.get_slice("float32")[1:, :2]
    again = safetensors.torch.load(safetensors.torch.save(tensors))
    wide = {"complex64": torch.complex64}
    read = {name: x if name in wide else x.double() for name, x in sorted(read.items())}
    return [keys, metadata, row, read, [str(x.dtype) for _, x in sorted(again.items())]]


@client.case
def model():
    network = fill(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
    other = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    network.tied = network[0]
    other.tied = other[0]
    with tempfile.TemporaryDirectory() as folder:
        safetensors.torch.save_model(network, folder + "/m.safetensors")
        missing, unexpected = safetensors.torch.load_model(other, folder + "/m.safetensors")
    return [sorted(missing), sorted(unexpected), other.state_dict()]


@client.case
def shared_memory_is_refused():
    x = normal(4)
    try:
        safetensors.torch.save({"a": x, "b": x.view(2, 2)})
    except RuntimeError as error:
        return str(error)[:60]
