"""accelerate on several processes: what it prepares and gathers, accumulation, states saved and gone on from.

accelerate launch --num_processes N --cpu accelerate_loop.py
torchrun --nproc-per-node N accelerate_loop.py
"""

import os
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object, pad_across_processes, reduce, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def data(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 6, generator=generator)
    return TensorDataset(x, x[:, :3].argmax(1))


def parts(accelerator):
    set_seed(3)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=60)
    loader = DataLoader(data(48), batch_size=8 // accelerator.num_processes, shuffle=True)
    held_out = DataLoader(data(19, seed=1), batch_size=4)
    return accelerator.prepare(model, optimizer, loader, schedule, held_out)


def epoch(accelerator, model, optimizer, loader, schedule):
    losses = []
    for x, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
    return losses


@torch.no_grad()
def evaluate(accelerator, model, held_out):
    model.eval()
    right, seen = 0, 0
    for x, labels in held_out:
        scores, labels = accelerator.gather_for_metrics((model(x), labels))
        right += (scores.argmax(1) == labels).sum().item()
        seen += len(labels)
    model.train()
    return right, seen


def train(**options):
    accelerator = Accelerator(cpu=True, **options)
    model, optimizer, loader, schedule, held_out = parts(accelerator)
    say = accelerator.print
    for number in range(2):
        losses = epoch(accelerator, model, optimizer, loader, schedule)
        say(f"epoch {number} losses", *(f"{loss:.5f}" for loss in losses))
    say("evaluated", *evaluate(accelerator, model, held_out), f"rate {optimizer.param_groups[0]['lr']:.6f}")
    return accelerator, (model, optimizer, loader, schedule), held_out


def resumed():
    accelerator, training, _ = train()
    shared = [tempfile.mkdtemp() if accelerator.is_main_process else None]
    folder = broadcast_object_list(shared)[0]
    accelerator.save_state(folder)
    first = epoch(accelerator, *training)
    accelerator.load_state(folder)
    again = epoch(accelerator, *training)
    accelerator.wait_for_everyone()
    accelerator.print("files", sorted(name for name in os.listdir(folder) if "random" not in name))
    accelerator.print("went on", *(f"{loss:.5f}" for loss in first))
    accelerator.print("resumed", *(f"{loss:.5f}" for loss in again))
    unwrapped = accelerator.unwrap_model(training[0])
    accelerator.save_model(unwrapped, os.path.join(folder, "model"))
    accelerator.wait_for_everyone()
    accelerator.print("saved", sorted(os.listdir(os.path.join(folder, "model"))), type(unwrapped).__name__)


def gathered():
    accelerator = Accelerator(cpu=True)
    rank, size = accelerator.process_index, accelerator.num_processes
    mine = torch.full((rank + 1, 2), float(rank))
    padded = accelerator.gather(pad_across_processes(mine, dim=0, pad_index=-1))
    total = reduce(torch.tensor([1.0 + rank]), reduction="sum")
    said = gather_object([f"rank {rank}"])
    with accelerator.split_between_processes(list(range(size * 2))) as numbers:
        share = len(numbers)
    accelerator.print(tuple(padded.shape), total.item(), said, share, accelerator.distributed_type)
    with accelerator.main_process_first():
        pass
    trigger = accelerator.check_trigger()
    if rank == size - 1:
        accelerator.set_trigger()
    accelerator.print("trigger", trigger, accelerator.check_trigger())
    accelerator.end_training()


if __name__ == "__main__":
    train(gradient_accumulation_steps=2)
    resumed()
    gathered()
