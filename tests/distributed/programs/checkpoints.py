"""Checkpoints that all ranks write together, of a model that is sharded over them: written, read back, written meanwhile, made one file.

torchrun --nproc-per-node N checkpoints.py
"""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import fully_shard


class AppState(Stateful):
    """What `dcp` asks for the state of a model and its optimizer."""

    def __init__(self, model, optimizer=None):
        self.model, self.optimizer, self.steps = model, optimizer, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optim": optimizer, "steps": self.steps}

    def load_state_dict(self, state_dict):
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state_dict["model"],
            optim_state_dict=state_dict["optim"],
        )
        self.steps = state_dict["steps"]


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(16, 16)
        self.net2 = nn.Linear(16, 8)

    def forward(self, x):
        return self.net2(torch.relu(self.net1(x)))


def made(seed):
    torch.manual_seed(seed)
    model = fully_shard(ToyModel())
    return AppState(model, torch.optim.Adam(model.parameters(), lr=0.05))


def steps(app, rank, size, count, word):
    for _ in range(count):
        generator = torch.Generator().manual_seed(app.steps)
        x, y = torch.randn(8, 16, generator=generator), torch.randn(8, 8, generator=generator)
        app.optimizer.zero_grad()
        loss = nn.functional.mse_loss(app.model(x[rank::size]), y[rank::size])
        loss.backward()
        app.optimizer.step()
        app.steps += 1
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"{word} step {app.steps} loss {mean.item() / size:.6f}", flush=True)


def main():
    dist.init_process_group("cpu:gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    with tempfile.TemporaryDirectory() as own:
        shared = [own]
        dist.broadcast_object_list(shared)
        first, second = os.path.join(shared[0], "first"), os.path.join(shared[0], "second")
        app = made(0)
        steps(app, rank, size, 3, "trained")
        dcp.save({"app": app}, checkpoint_id=first)
        future = dcp.async_save({"app": app}, checkpoint_id=second)
        future.result()
        steps(app, rank, size, 2, "went on")

        for folder in (first, second):
            again = made(1)
            steps(again, rank, size, 1, "other")  # its optimizer has states by now
            dcp.load({"app": again}, checkpoint_id=folder)
            steps(again, rank, size, 2, "resumed")

        dist.barrier()
        if rank == 0:
            names = sorted({os.path.splitext(name)[1] for name in os.listdir(first)})
            print("files", names)
            whole = os.path.join(shared[0], "whole.pt")
            dcp_to_torch_save(first, whole)
            states = torch.load(whole, weights_only=False)["app"]
            print("one file", sorted(states), sorted(states["model"]))
            plain = ToyModel()
            plain.load_state_dict(states["model"])
            print(f"output {plain(torch.ones(1, 16)).sum().item():.5f}")
            torch_save_to_dcp(whole, os.path.join(shared[0], "third"))
            print("and back", ".metadata" in os.listdir(os.path.join(shared[0], "third")))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
