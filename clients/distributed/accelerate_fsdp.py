"""accelerate with its plugin for FSDP, both versions of it, and a state that is saved in shards and gone on from.

torchrun --nproc-per-node N accelerate_fsdp.py 1
torchrun --nproc-per-node N accelerate_fsdp.py 2
"""

import os
import sys
import tempfile

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import broadcast_object_list, set_seed
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def train(version, **options):
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=version,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["Block"],
        cpu_ram_efficient_loading=False,
        **options,
    )
    accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
    set_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), Block(16), Block(16), nn.Linear(16, 3))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2))
    rank, size = accelerator.process_index, accelerator.num_processes

    def steps(numbers, word):
        for step in numbers:
            x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step))
            loss = nn.functional.cross_entropy(model(x[rank::size]), x[rank::size, :3].argmax(1))
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            mean = accelerator.gather(loss.detach()).mean().item()
            accelerator.print(f"version {version} {word} step {step} loss {mean:.5f}")

    steps(range(3), "trained")
    folder = broadcast_object_list([tempfile.mkdtemp()])[0]
    accelerator.save_state(folder)
    steps(range(3, 5), "went on")
    accelerator.load_state(folder)
    steps(range(3, 5), "resumed")
    states = accelerator.get_state_dict(model)
    accelerator.print(
        "state dict",
        len(states),
        sorted(name.partition("_")[0] for name in os.listdir(folder) if "random" not in name),
    )
    accelerator.end_training()


if __name__ == "__main__":
    train(int(sys.argv[1]))
