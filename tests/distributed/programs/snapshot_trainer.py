"""A trainer with snapshots, started by torchrun: images of ten classes, and training that goes on after a process has died.

torchrun --nproc-per-node N snapshot_trainer.py --folder FOLDER --die-at 2; torchrun --nproc-per-node N snapshot_trainer.py --folder FOLDER
"""

import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Digits(Dataset):
    """Images of 12 x 12 with a bar whose place is the class."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(7)
        self.labels = torch.randint(10, (size,), generator=generator)
        self.images = torch.rand(size, 1, 12, 12, generator=generator) * 0.5
        for image, label in zip(self.images, self.labels.tolist()):
            image[0, 1 + label] += 1

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.fc1 = nn.Linear(16 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


class Trainer:
    def __init__(self, model, loader, optimizer, save_every, snapshot_path, die_at):
        self.rank, self.local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        self.model, self.loader, self.optimizer = model, loader, optimizer
        self.save_every, self.snapshot_path, self.die_at = save_every, snapshot_path, die_at
        self.epochs_run = 0
        if os.path.exists(snapshot_path):
            self.load_snapshot()
        self.model = DDP(self.model)

    def load_snapshot(self):
        snapshot = torch.load(self.snapshot_path, map_location="cpu")
        self.model.load_state_dict(snapshot["MODEL_STATE"])
        self.optimizer.load_state_dict(snapshot["OPTIMIZER_STATE"])
        self.epochs_run = snapshot["EPOCHS_RUN"]
        if self.rank == 0:
            print(f"resuming at epoch {self.epochs_run}", flush=True)

    def save_snapshot(self, epoch):
        snapshot = {
            "MODEL_STATE": self.model.module.state_dict(),
            "OPTIMIZER_STATE": self.optimizer.state_dict(),
            "EPOCHS_RUN": epoch + 1,
        }
        torch.save(snapshot, self.snapshot_path)

    def run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = F.nll_loss(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run_epoch(self, epoch):
        self.loader.sampler.set_epoch(epoch)
        losses = [self.run_batch(source, targets) for source, targets in self.loader]
        total = torch.tensor(losses).mean()
        torch.distributed.all_reduce(total)
        if self.rank == 0:
            print(
                f"epoch {epoch} batches {len(losses)} loss {total.item() / self.world_size:.6f}", flush=True
            )

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
            if epoch == self.die_at and first and self.rank == self.world_size - 1:
                os._exit(3)
            self.run_epoch(epoch)
            if self.rank == 0 and epoch % self.save_every == 0:
                self.save_snapshot(epoch)
            torch.distributed.barrier()


def main():
    parser = argparse.ArgumentParser(description="a trainer with snapshots")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16, help="of all processes together")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--die-at", type=int, default=-1)
    args = parser.parse_args()

    init_process_group(backend="gloo")
    torch.manual_seed(1)
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = Digits(64)
    per_process = args.batch_size // int(os.environ["WORLD_SIZE"])
    loader = DataLoader(data, batch_size=per_process, shuffle=False, sampler=DistributedSampler(data))
    path = os.path.join(args.folder, "snapshot.pt")
    Trainer(model, loader, optimizer, 1, path, args.die_at).train(args.epochs)
    destroy_process_group()


if __name__ == "__main__":
    main()
