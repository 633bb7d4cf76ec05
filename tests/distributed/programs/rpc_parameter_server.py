"""Calls in other processes: a parameter server that trainers update in batches, a remote module, and gradients through both.

torchrun --nproc-per-node N rpc_parameter_server.py
"""

import os
import threading

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.optim import DistributedOptimizer


class BatchUpdateParameterServer:
    """Waits for the gradients of all trainers, makes one step, and gives all of them the new parameters."""

    def __init__(self, trainers):
        torch.manual_seed(0)
        self.model = nn.Linear(6, 3)
        self.lock, self.future = threading.Lock(), torch.futures.Future()
        self.trainers, self.count = trainers, 0
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)

    def get_model(self):
        return [p.detach().clone() for p in self.model.parameters()]

    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch_model(ps_rref, gradients):
        self = ps_rref.local_value()
        with self.lock:
            self.count += 1
            for p, g in zip(self.model.parameters(), gradients):
                p.grad += g
            future = self.future
            if self.count >= self.trainers:
                for p in self.model.parameters():
                    p.grad /= self.trainers
                self.count = 0
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=False)
                future.set_result(self.get_model())
                self.future = torch.futures.Future()
        return future


def data(trainer, trainers, step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(12, 6, generator=generator)
    y = x[:, :3].argmax(1)
    return x[trainer::trainers], y[trainer::trainers]


def run_trainer(ps_rref, trainer, trainers):
    model, losses = nn.Linear(6, 3), []
    parameters = ps_rref.rpc_sync().get_model()
    for step in range(4):
        with torch.no_grad():
            for p, new in zip(model.parameters(), parameters):
                p.copy_(new)
        x, y = data(trainer, trainers, step)
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        losses.append(loss.item())
        gradients = [p.grad for p in model.parameters()]
        parameters = rpc.rpc_sync(
            ps_rref.owner(), BatchUpdateParameterServer.update_and_fetch_model, args=(ps_rref, gradients)
        )
    return losses


def batched(trainers):
    ps_rref = rpc.RRef(BatchUpdateParameterServer(trainers))
    futures = [
        rpc.rpc_async(f"trainer{k}", run_trainer, args=(ps_rref, k, trainers)) for k in range(trainers)
    ]
    losses = torch.tensor(torch.futures.wait_all(futures)).mean(0)
    for step, loss in enumerate(losses.tolist()):
        print(f"batched step {step} loss {loss:.6f}", flush=True)


class EmbeddingTable(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(10, 6)

    def lookup(self, index):
        return self.table(index)

    def parameter_rrefs(self):
        return [rpc.RRef(p) for p in self.parameters()]


def through_two_processes():
    """A table in another process and a layer in this one, trained by one backward pass."""
    remote = rpc.remote("trainer0", EmbeddingTable)
    torch.manual_seed(2)
    layer = nn.Linear(6, 2)
    parameters = remote.rpc_sync().parameter_rrefs() + [rpc.RRef(p) for p in layer.parameters()]
    optimizer = DistributedOptimizer(torch.optim.SGD, parameters, lr=0.5)
    index, target = torch.arange(10), torch.arange(10) % 2
    for step in range(4):
        with dist_autograd.context() as context_id:
            loss = nn.functional.cross_entropy(layer(remote.rpc_sync().lookup(index)), target)
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        print(f"remote table step {step} loss {loss.item():.6f}", flush=True)


def simple():
    total = rpc.rpc_sync("trainer0", torch.add, args=(torch.ones(2), 3))
    future = rpc.rpc_async("trainer0", torch.mul, args=(torch.full((2,), 4.0), 5))
    made = rpc.remote("trainer0", torch.arange, args=(4,))
    print("calls", total.tolist(), future.wait().tolist(), made.to_here().tolist(), made.is_owner())
    try:
        rpc.rpc_sync("trainer0", int, args=("no number",))
    except ValueError as error:
        print("raised there", "invalid literal" in str(error))


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc("ps" if rank == 0 else f"trainer{rank - 1}", rank=rank, world_size=size)
    if rank == 0:
        simple()
        batched(size - 1)
        through_two_processes()
    rpc.shutdown()


if __name__ == "__main__":
    main()
