"""opt_einsum: its suite (with PyTorch's backend), and a contraction of a network of tensors with its gradient."""

import opt_einsum
from harness import Client, normal

client = Client("opt_einsum")
client.suite("its tests", "--pyargs", "opt_einsum.tests")


@client.case
def network():
    operands = [normal(*shape).requires_grad_() for shape in ((4, 5), (5, 6, 3), (3, 7, 4), (6, 7))]
    out = opt_einsum.contract("ab,bcd,dea,ce->", *operands, optimize="optimal")
    out.backward()
    return [out, [x.grad for x in operands]]


@client.case
def shared():
    a, b = normal(8, 5, 6), normal(8, 6, 7)
    expression = opt_einsum.contract_expression("bij,bjk,bk->bi", a.shape, b.shape, (8, 7))
    with opt_einsum.shared_intermediates():
        return [
            expression(a, b, normal(8, 7), backend="torch"),
            opt_einsum.contract("bij,bjk->bik", a, b, backend="torch"),
        ]
