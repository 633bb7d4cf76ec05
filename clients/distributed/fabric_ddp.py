"""lightning's Fabric on several processes: what it launches, sets up, reduces, gathers, saves.

torchrun --nproc-per-node N fabric_ddp.py N
python fabric_ddp.py N
"""

import os
import sys
import tempfile
import warnings

import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


def main(fabric):
    fabric.seed_everything(7, verbose=False)
    x = torch.randn(48, 6, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=8 // fabric.world_size, shuffle=True)
    loader = fabric.setup_dataloaders(loader)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    model, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters(), lr=0.02))
    for epoch in range(2):
        losses = []
        for number, (inputs, labels) in enumerate(loader):
            accumulating = number % 2 == 0
            with fabric.no_backward_sync(model, enabled=accumulating):
                loss = nn.functional.cross_entropy(model(inputs), labels)
                fabric.backward(loss)
            if not accumulating:
                fabric.clip_gradients(model, optimizer, max_norm=1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(fabric.all_reduce(loss.detach(), reduce_op="mean").item())
        fabric.print(f"epoch {epoch} losses", *(f"{loss:.5f}" for loss in losses))
    gathered = fabric.all_gather(torch.tensor([fabric.global_rank]))
    folder = fabric.broadcast(tempfile.mkdtemp() if fabric.global_rank == 0 else None)
    path = os.path.join(folder, "state.ckpt")
    state = {"model": model, "optimizer": optimizer, "epoch": 2}
    fabric.save(path, state)
    fabric.barrier()
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    fabric.load(path, state)
    total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
    fabric.print("gathered", gathered.reshape(-1).tolist(), f"parameters {total:.4f}")


if __name__ == "__main__":
    fabric = Fabric(accelerator="cpu", devices=int(sys.argv[1]), strategy="ddp")
    fabric.launch()
    main(fabric)
