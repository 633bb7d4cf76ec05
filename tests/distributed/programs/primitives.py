"""Messages and collectives one by one, an all-reduce made by hand around a ring, and training that averages gradients itself.

torchrun --nproc-per-node N primitives.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def say(rank, *words):
    """Rank 0 prints what each rank has to say, in the order of ranks."""
    said = [None] * dist.get_world_size()
    dist.all_gather_object(said, " ".join(map(str, words)))
    if rank == 0:
        for number, line in enumerate(said):
            print(f"rank {number}: {line}", flush=True)


def point_to_point(rank, size):
    """A tensor that goes from rank to rank, and comes back."""
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        if size > 1:
            dist.send(tensor=tensor, dst=1)
            dist.recv(tensor=tensor, src=size - 1)
    else:
        dist.recv(tensor=tensor, src=rank - 1)
        tensor *= 2
        dist.send(tensor=tensor, dst=(rank + 1) % size)
    say(rank, "passed on", tensor[0].item())


def immediate(rank, size):
    """Sent and received while other things are done."""
    if size == 1:
        return
    mine, theirs = torch.full((3,), float(rank)), torch.empty(3)
    requests = [dist.isend(mine, (rank + 1) % size), dist.irecv(theirs, (rank - 1) % size)]
    for request in requests:
        request.wait()
    operations = [
        dist.P2POp(dist.isend, mine * 10, (rank - 1) % size),
        dist.P2POp(dist.irecv, again := torch.empty(3), (rank + 1) % size),
    ]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    say(rank, "received", theirs.tolist(), again.tolist())


def collectives(rank, size):
    group = dist.new_group(list(range(size)))
    tensor = torch.arange(4.0) + rank
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=group)
    largest = torch.tensor(float(rank))
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    parts = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(parts, torch.tensor([rank, rank + 0.5]))
    received = torch.zeros(2)
    dist.scatter(received, [torch.full((2,), float(i)) for i in range(size)] if rank == 0 else None, src=0)
    at_root = [torch.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.tensor([rank * 3.0]), at_root, dst=0)
    root_sum = torch.ones(2) * (rank + 1)
    dist.reduce(root_sum, dst=0, op=dist.ReduceOp.SUM)
    shared = torch.tensor([42.0]) if rank == 0 else torch.zeros(1)
    dist.broadcast(shared, src=0)
    objects = [{"rank": 0, "list": [1, 2]}] if rank == 0 else [None]
    dist.broadcast_object_list(objects, src=0)
    say(rank, tensor.tolist(), largest.item(), [p.tolist() for p in parts], received.tolist())
    say(rank, [t.item() for t in at_root] if at_root else None, shared.item(), objects[0]["list"])
    if rank == 0:
        print("reduced", root_sum.tolist())


def ring_allreduce(send, recv):
    """The sum over all ranks, by messages to the right neighbour alone."""
    rank, size = dist.get_rank(), dist.get_world_size()
    here, there = send.clone(), send.clone()
    accumulated = send.clone()
    left, right = (rank - 1) % size, (rank + 1) % size
    for step in range(size - 1):
        out, into = (here, there) if step % 2 == 0 else (there, here)
        request = dist.isend(out, right)
        dist.recv(into, left)
        accumulated += into
        request.wait()
    recv[:] = accumulated


def ring(rank, size):
    torch.manual_seed(rank)
    x, by_hand = torch.randn(50), torch.zeros(50)
    ring_allreduce(x, by_hand)
    dist.all_reduce(x)
    say(rank, "ring agrees", torch.allclose(x, by_hand, atol=1e-6))


class Partition:
    """Some items of a data set."""

    def __init__(self, data, index):
        self.data, self.index = data, index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, index):
        return self.data[self.index[index]]


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def sgd_by_hand(rank, size):
    torch.manual_seed(1234)
    inputs = torch.randn(48, 6)
    data = list(zip(inputs, inputs[:, :3].argmax(1)))
    mine = Partition(data, range(rank, len(data), size))
    loader = torch.utils.data.DataLoader(mine, batch_size=12 // size)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
    for epoch in range(3):
        epoch_loss = torch.zeros(())
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            epoch_loss += loss.detach()
            loss.backward()
            average_gradients(model)
            optimizer.step()
        dist.all_reduce(epoch_loss)
        if rank == 0:
            print(f"epoch {epoch} loss {epoch_loss.item() / len(loader) / size:.6f}", flush=True)


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for part in (point_to_point, immediate, collectives, ring, sgd_by_hand):
        part(rank, size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
