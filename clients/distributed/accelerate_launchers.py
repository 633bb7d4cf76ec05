"""accelerate's launchers inside of one program: `debug_launcher`, and `notebook_launcher` as notebooks call it.

python accelerate_launchers.py N
"""

import os
import sys

import torch
from accelerate import Accelerator, debug_launcher, notebook_launcher
from torch import nn


def train(word):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = accelerator.prepare(nn.Linear(4, 1))
    optimizer = accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1))
    rank, size = accelerator.process_index, accelerator.num_processes
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    for step in range(3):
        optimizer.zero_grad()
        loss = model(x[rank::size]).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        mean = accelerator.gather(loss.detach()).mean().item()
        if accelerator.is_main_process:
            print(f"{word} step {step} of {size} loss {mean:.6f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    processes = int(sys.argv[1])
    debug_launcher(train, args=("debug",), num_processes=processes)
    os.environ["ACCELERATE_USE_CPU"] = "true"
    notebook_launcher(
        train, args=("notebook",), num_processes=processes, use_port=os.environ.get("MASTER_PORT", "29515")
    )
