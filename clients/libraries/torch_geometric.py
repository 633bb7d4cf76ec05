"""PyTorch Geometric: layers of graphs with gradients, pooling, norms, models, data, loaders, transforms, and short trainings."""

import copy
import io
import random
import warnings

import numpy as np
import torch
import torch.nn.functional as F
import torch_geometric as pyg
import torch_geometric.nn as gnn
import torch_geometric.transforms as T
from harness import Client, doctests, integers, normal
from harness import fill as filled
from torch.nn import Linear, ReLU, Sequential
from torch_geometric import utils
from torch_geometric.data import Batch, Data, HeteroData, TemporalData
from torch_geometric.loader import (
    DataLoader,
    DenseDataLoader,
    DynamicBatchSampler,
    ImbalancedSampler,
    RandomNodeLoader,
    TemporalDataLoader,
)

client = Client("torch_geometric", samples=6)
warnings.filterwarnings("ignore")

NODES, EDGES, WIDTH = 14, 40, 8
BATCH = torch.tensor([0] * 6 + [1] * 3 + [2] * 5)


def edges(seed=0, nodes=NODES, count=EDGES):
    """Directed edges without loops or repetitions, sorted by their targets."""
    pairs = integers(nodes, 2, count, seed=seed)
    return utils.coalesce(pairs[:, pairs[0] != pairs[1]], sort_by_row=False)


def both_ways(seed=0):
    return utils.to_undirected(edges(seed, count=20))


def weights(edge_index, *width, seed=0):
    return normal(edge_index.size(1), *width, seed=seed).sigmoid()


def fill(module, seed=0):
    """Weights from NumPy; what layers hold besides (quantiles, frequencies, degrees) stays."""
    held = [buffer.clone() for buffer in module.buffers()]
    filled(module, seed)
    with torch.no_grad():
        for buffer, numbers in zip(module.buffers(), held):
            buffer.copy_(numbers)
    return module


def learnt(model, out, *inputs):
    """What came out, the norms of the parameters' gradients as one array, and the gradients of the inputs."""
    first = out[0] if isinstance(out, (tuple, list)) else out
    loss = out if first.ndim == 0 else first.square().mean()
    loss.backward()
    norms = [p.grad.norm() if p.grad is not None else torch.zeros(()) for p in model.parameters()]
    return [out, torch.stack(norms) if norms else None, *(x.grad for x in inputs)]


def perceptron(*sizes):
    layers = [Linear(a, b) for a, b in zip(sizes, sizes[1:])]
    return Sequential(*[part for layer in layers for part in (layer, ReLU())][:-1])


# Layers --------------------------------------------------------------------------------------------------------------------

PLAIN = {
    "GCN": lambda: gnn.GCNConv(WIDTH, 6),
    "GCN improved": lambda: gnn.GCNConv(WIDTH, 6, improved=True, cached=True, bias=False),
    "GCN lazy": lambda: gnn.GCNConv(-1, 6),
    "Chebyshev": lambda: gnn.ChebConv(WIDTH, 6, K=3),
    "Chebyshev by rows": lambda: gnn.ChebConv(WIDTH, 6, K=2, normalization="rw"),
    "SAGE": lambda: gnn.SAGEConv(WIDTH, 6),
    "SAGE max": lambda: gnn.SAGEConv(WIDTH, 6, aggr="max", project=True, normalize=True),
    "SAGE lstm": lambda: gnn.SAGEConv(WIDTH, 6, aggr="lstm"),
    "SAGE several": lambda: gnn.SAGEConv(WIDTH, 6, aggr=["mean", "std", "median"]),
    "Graph": lambda: gnn.GraphConv(WIDTH, 6),
    "Graph mean": lambda: gnn.GraphConv(WIDTH, 6, aggr="mean", flow="target_to_source"),
    "GatedGraph": lambda: gnn.GatedGraphConv(WIDTH, num_layers=2),
    "ResGatedGraph": lambda: gnn.ResGatedGraphConv(WIDTH, 6),
    "GAT": lambda: gnn.GATConv(WIDTH, 6, heads=2),
    "GAT averaged": lambda: gnn.GATConv(WIDTH, 6, heads=2, concat=False, residual=True, add_self_loops=False),
    "GATv2": lambda: gnn.GATv2Conv(WIDTH, 6, heads=2),
    "GATv2 shared": lambda: gnn.GATv2Conv(WIDTH, 6, heads=2, share_weights=True, concat=False),
    "Transformer": lambda: gnn.TransformerConv(WIDTH, 6, heads=2),
    "Transformer beta": lambda: gnn.TransformerConv(WIDTH, 6, heads=2, beta=True, concat=False),
    "AGNN": lambda: gnn.AGNNConv(),
    "TAG": lambda: gnn.TAGConv(WIDTH, 6, K=2),
    "GIN": lambda: gnn.GINConv(perceptron(WIDTH, 10, 6), train_eps=True),
    "GIN max": lambda: gnn.GINConv(perceptron(WIDTH, 6), eps=0.2, aggr="max"),
    "ARMA": lambda: gnn.ARMAConv(WIDTH, 6, num_stacks=2, num_layers=2, shared_weights=True),
    "SG": lambda: gnn.SGConv(WIDTH, 6, K=2, cached=True),
    "SSG": lambda: gnn.SSGConv(WIDTH, 6, alpha=0.1, K=3),
    "APPNP": lambda: gnn.APPNP(K=4, alpha=0.1),
    "MF": lambda: gnn.MFConv(WIDTH, 6, max_degree=4),
    "CG": lambda: gnn.CGConv(WIDTH),
    "Edge": lambda: gnn.EdgeConv(perceptron(2 * WIDTH, 6)),
    "FeaSt": lambda: gnn.FeaStConv(WIDTH, 6, heads=2),
    "LE": lambda: gnn.LEConv(WIDTH, 6),
    "ClusterGCN": lambda: gnn.ClusterGCNConv(WIDTH, 6, diag_lambda=0.3),
    "GEN": lambda: gnn.GENConv(WIDTH, 6),
    "GEN powers": lambda: gnn.GENConv(WIDTH, 6, aggr="powermean", learn_p=True, msg_norm=True, norm="layer"),
    "GEN temperatures": lambda: gnn.GENConv(WIDTH, 6, learn_t=True, num_layers=1),
    "FiLM": lambda: gnn.FiLMConv(WIDTH, 6),
    "EG": lambda: gnn.EGConv(WIDTH, 8, ["sum", "mean", "std", "max", "min", "symnorm", "var"], 4, 2),
    "General": lambda: gnn.GeneralConv(WIDTH, 6, heads=2, attention=True, l2_normalize=True),
    "General products": lambda: gnn.GeneralConv(WIDTH, 6, attention=True, attention_type="dot_product"),
    "LG": lambda: gnn.LGConv(),
    "MixHop": lambda: gnn.MixHopConv(WIDTH, 4, powers=[0, 1, 3]),
    "Simple": lambda: gnn.SimpleConv(aggr="mean", combine_root="cat"),
    "Simple sum": lambda: gnn.SimpleConv(aggr="sum", combine_root="self_loop"),
    "AntiSymmetric": lambda: gnn.AntiSymmetricConv(WIDTH, num_iters=2),
    "Directed": lambda: gnn.DirGNNConv(gnn.SAGEConv(WIDTH, WIDTH)),
    "GPS": lambda: gnn.GPSConv(WIDTH, gnn.GCNConv(WIDTH, WIDTH), heads=2),
    "GPS performer": lambda: gnn.GPSConv(WIDTH, None, heads=2, attn_type="performer", norm="graph_norm"),
    "SuperGAT": lambda: gnn.SuperGATConv(WIDTH, 6, heads=2, attention_type="SD").eval(),
    "WL continuous": lambda: gnn.WLConvContinuous(),
    "Hypergraph": lambda: gnn.HypergraphConv(WIDTH, 6),
}
WEIGHED = ("GCN", "Chebyshev", "Graph", "Graph mean", "GatedGraph", "TAG", "ARMA", "SG", "SSG", "APPNP")
WEIGHED += ("LE", "LG", "MixHop", "Simple")


def layer(make, weighed=False):
    """A layer on a graph, with or without weights of its edges."""

    def run():
        pyg.seed_everything(0)
        conv, x, edge_index = make(), normal(NODES, WIDTH).requires_grad_(), edges()
        given = [weights(edge_index).requires_grad_()] if weighed else []
        with torch.no_grad():
            conv(x, edge_index, *given)  # lazy parameters
        if hasattr(conv, "reset_parameters"):
            conv.reset_parameters()  # also empties what was cached
        fill(conv)
        return learnt(conv, conv(x, edge_index, *given), x, *given)

    return run


for name, make in PLAIN.items():
    client.case(layer(make), name=f"layer: {name}")
for name in WEIGHED:
    client.case(layer(PLAIN[name], weighed=True), name=f"weighed layer: {name}")

FEATURED = {
    "GAT": lambda: gnn.GATConv(WIDTH, 6, heads=2, edge_dim=5),
    "GAT filled": lambda: gnn.GATConv(WIDTH, 6, edge_dim=5, fill_value="max"),
    "GATv2": lambda: gnn.GATv2Conv(WIDTH, 6, heads=2, edge_dim=5),
    "Transformer": lambda: gnn.TransformerConv(WIDTH, 6, heads=2, edge_dim=5),
    "GINE": lambda: gnn.GINEConv(perceptron(WIDTH, 6), edge_dim=5),
    "NN": lambda: gnn.NNConv(WIDTH, 6, perceptron(5, WIDTH * 6)),
    "CG": lambda: gnn.CGConv(WIDTH, dim=5, batch_norm=True),
    "GMM": lambda: gnn.GMMConv(WIDTH, 6, dim=5, kernel_size=3),
    "GMM apart": lambda: gnn.GMMConv(WIDTH, 6, dim=5, kernel_size=3, separate_gaussians=True),
    "GEN": lambda: gnn.GENConv(WIDTH, 6, edge_dim=5),
    "ResGatedGraph": lambda: gnn.ResGatedGraphConv(WIDTH, 6, edge_dim=5),
    "PDN": lambda: gnn.PDNConv(WIDTH, 6, edge_dim=5, hidden_channels=4),
    "General": lambda: gnn.GeneralConv(WIDTH, 6, in_edge_channels=5, heads=2),
    "PNA": lambda: gnn.PNAConv(
        WIDTH,
        6,
        ["mean", "min", "max", "std", "var", "sum"],
        ["identity", "amplification", "attenuation", "linear", "inverse_linear"],
        torch.bincount(utils.degree(edges()[1], NODES, torch.long)),
        edge_dim=5,
        towers=2,
        divide_input=False,
        train_norm=True,
    ),
}


def featured(make):
    def run():
        conv, x, edge_index = fill(make()), normal(NODES, WIDTH).requires_grad_(), edges()
        features = weights(edge_index, 5).requires_grad_()
        return learnt(conv, conv(x, edge_index, features), x, features)

    return run


for name, make in FEATURED.items():
    client.case(featured(make), name=f"layer with edge features: {name}")


@client.case
def relations():
    """Layers for several kinds of edges."""
    edge_index, x = edges(), normal(NODES, WIDTH)
    kinds = integers(3, edge_index.size(1))
    features = weights(edge_index, 5)
    results = {}
    for name, conv, more in (
        ("rgcn", gnn.RGCNConv(WIDTH, 6, 3), ()),
        ("bases", gnn.RGCNConv(WIDTH, 6, 3, num_bases=2, aggr="max"), ()),
        ("blocks", gnn.RGCNConv(WIDTH, 6, 3, num_blocks=2), ()),
        ("fast", gnn.FastRGCNConv(WIDTH, 6, 3, num_bases=2), ()),
        ("film", gnn.FiLMConv(WIDTH, 6, num_relations=3), ()),
        ("rgat", gnn.RGATConv(WIDTH, 6, 3, heads=2), ()),
        ("within", gnn.RGATConv(WIDTH, 6, 3, attention_mechanism="within-relation", edge_dim=5), (features,)),
        (
            "products",
            gnn.RGATConv(
                WIDTH,
                8,
                3,
                num_blocks=4,
                heads=2,
                dim=4,
                attention_mode="multiplicative-self-attention",
                mod="f-scaled",
            ),
            (),
        ),
    ):
        given = x.clone().requires_grad_()
        results[name] = learnt(fill(conv), conv(given, edge_index, kinds, *more), given)
    heat = fill(gnn.HEATConv(WIDTH, 6, 2, 3, 4, 5, 4, heads=2))
    given = x.clone().requires_grad_()
    results["heat"] = learnt(heat, heat(given, edge_index, integers(2, NODES), kinds, features), given)
    known = fill(gnn.RGCNConv(NODES, 6, 3))
    results["nodes without features"] = learnt(known, known(None, edge_index, kinds))
    return results


@client.case
def points():
    """Layers for points in space."""
    pos, x = normal(NODES, 3), normal(NODES, WIDTH)
    normals = F.normalize(normal(NODES, 3, seed=2), dim=-1)
    edge_index = edges()
    results = {}

    def tried(name, conv, *inputs):
        given = [v.clone().requires_grad_() for v in inputs]
        results[name] = learnt(fill(conv), conv(*given, edge_index), *given)

    tried("pointnet", gnn.PointNetConv(perceptron(WIDTH + 3, 6), perceptron(6, 5)), x, pos)
    tried("transformer", gnn.PointTransformerConv(WIDTH, 6), x, pos)
    tried("ppf", gnn.PPFConv(perceptron(WIDTH + 4, 6), add_self_loops=False), x, pos, normals)
    tried(
        "point gnn",
        gnn.PointGNNConv(perceptron(WIDTH, 3), perceptron(WIDTH + 3, 6), perceptron(6, WIDTH)),
        x,
        pos,
    )
    return results


@client.case
def first_features():
    """Layers that see the first features again, signs of edges, hyperedges with attention, meshes, history, colours."""
    edge_index, x = edges(), normal(NODES, WIDTH)
    results = {}
    for name, conv in (
        ("gcn2", gnn.GCN2Conv(WIDTH, alpha=0.1, theta=0.5, layer=2, shared_weights=False)),
        ("fa", gnn.FAConv(WIDTH, eps=0.2)),
    ):
        given, first = x.clone().requires_grad_(), normal(NODES, WIDTH, seed=3).requires_grad_()
        results[name] = learnt(fill(conv), conv(given, first, edge_index), given, first)
    given = x.clone().requires_grad_()
    one, two = gnn.SignedConv(WIDTH, 6, first_aggr=True), gnn.SignedConv(6, 6, first_aggr=False)
    both = torch.nn.ModuleList([fill(one), fill(two, seed=1)])
    results["signed"] = learnt(both, two(one(given, edge_index, edges(1)), edge_index, edges(1)), given)
    hyper = fill(gnn.HypergraphConv(WIDTH, 6, use_attention=True, heads=2))
    incidence = torch.stack([integers(NODES, 30), integers(5, 30, seed=1)])
    given = x.clone().requires_grad_()
    results["hypergraph"] = learnt(
        hyper, hyper(given, incidence, normal(5).sigmoid(), normal(5, WIDTH)), given
    )
    history = normal(NODES, 3, WIDTH).requires_grad_()
    dna = fill(gnn.DNAConv(WIDTH, heads=2, groups=2))
    results["dna"] = learnt(dna, dna(history, edge_index), history)
    results["colours"] = gnn.WLConv()(integers(3, NODES), edge_index)
    mesh = fill(gnn.MeshCNNConv(WIDTH, 6))
    neighbours = torch.stack([torch.arange(NODES).repeat_interleave(4), integers(NODES, 4 * NODES)])
    given = x.clone().requires_grad_()
    results["mesh"] = learnt(mesh, mesh(given, neighbours), given)
    return results


@client.case
def bipartite():
    """Messages from one set of nodes to another; attention weights returned."""
    edge_index = torch.stack([integers(9, 25), integers(5, 25, seed=1)])
    results = {}
    for name, conv in (
        ("sage", gnn.SAGEConv((WIDTH, 4), 6)),
        ("sage lazy", gnn.SAGEConv((-1, -1), 6)),
        ("graph", gnn.GraphConv((WIDTH, 4), 6)),
        ("gat", gnn.GATConv((WIDTH, 4), 6, add_self_loops=False)),
        ("gatv2", gnn.GATv2Conv((WIDTH, 4), 6, add_self_loops=False)),
        ("transformer", gnn.TransformerConv((WIDTH, 4), 6)),
        ("le", gnn.LEConv((WIDTH, 4), 6)),
    ):
        x, y = normal(9, WIDTH).requires_grad_(), normal(5, 4).requires_grad_()
        with torch.no_grad():
            conv((x, y), edge_index)
        results[name] = learnt(fill(conv), conv((x, y), edge_index), x, y)
    gat = fill(gnn.GATConv(WIDTH, 6, heads=2))
    results["attention"] = gat(normal(NODES, WIDTH), edges(), return_attention_weights=True)
    return results


@client.case
def sparse_adjacency():
    """Layers that take a sparse tensor for the edges."""
    edge_index = both_ways()
    weight = weights(edge_index)
    matrix = torch.sparse_coo_tensor(edge_index, weight, (NODES, NODES)).coalesce()
    rows = utils.to_torch_csr_tensor(edge_index, weight, (NODES, NODES))
    results = {}
    for name, make in {
        "gcn": lambda: gnn.GCNConv(WIDTH, 6),
        "sage": lambda: gnn.SAGEConv(WIDTH, 6),
        "gin": lambda: gnn.GINConv(perceptron(WIDTH, 6)),
        "graph": lambda: gnn.GraphConv(WIDTH, 6),
        "gat": lambda: gnn.GATConv(WIDTH, 6),
        "sg": lambda: gnn.SGConv(WIDTH, 6, K=2),
    }.items():
        for kind, adjacency in (("coo", matrix.t()), ("csr", rows)):
            conv, x = fill(make()), normal(NODES, WIDTH).requires_grad_()
            results[f"{name} {kind}"] = learnt(conv, conv(x, adjacency), x)
    return results


class Weighed(gnn.MessagePassing):
    """A layer of one's own: messages from both ends and the edge, an update, and an update of the edges."""

    def __init__(self, width, out, **options):
        super().__init__(**options)
        self.lin = Linear(2 * width + 1, out)
        self.edge = Linear(2 * out, 1)

    def forward(self, x, edge_index, weight, size=None):
        out = self.propagate(edge_index, x=x, weight=weight, size=size)
        return out, self.edge_updater(edge_index, out=out)

    def message(self, x_i, x_j, weight, index, size_i):
        return self.lin(torch.cat([x_i, x_j, weight[:, None]], -1)) / utils.degree(index, size_i)[index, None]

    def update(self, aggregated, x):
        return aggregated.tanh() + x[:, : aggregated.size(1)]

    def edge_update(self, out_i, out_j):
        return self.edge(torch.cat([out_i, out_j], -1))


@client.case
def own_layers():
    results = {}
    edge_index = edges()
    for name, options in {
        "sum": {},
        "mean": {"aggr": "mean"},
        "max": {"aggr": "max"},
        "min": {"aggr": "min"},
        "mul": {"aggr": "mul"},
        "backwards": {"flow": "target_to_source"},
        "softmax": {"aggr": "softmax", "aggr_kwargs": {"learn": True}},
        "two": {"aggr": gnn.MultiAggregation(["mean", "max"], mode="sum")},
    }.items():
        conv = fill(Weighed(WIDTH, 6, **options))
        x, w = normal(NODES, WIDTH).requires_grad_(), weights(edge_index).requires_grad_()
        results[name] = learnt(conv, conv(x, edge_index, w), x, w)
    seen = []
    conv = fill(Weighed(WIDTH, 6))
    conv.register_message_forward_hook(lambda module, inputs, out: seen.append(out.norm()))
    conv.register_propagate_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].sum()))
    conv.register_aggregate_forward_hook(lambda module, inputs, out: out * 2)
    results["hooks"] = [conv(normal(NODES, WIDTH), edge_index, weights(edge_index)), seen]
    return results


# Aggregation, norms, pooling --------------------------------------------------------------------------------------------------

AGGREGATIONS = {
    "sum": lambda: gnn.SumAggregation(),
    "mean": lambda: gnn.MeanAggregation(),
    "max": lambda: gnn.MaxAggregation(),
    "min": lambda: gnn.MinAggregation(),
    "mul": lambda: gnn.MulAggregation(),
    "var": lambda: gnn.VarAggregation(),
    "std": lambda: gnn.StdAggregation(semi_grad=True),
    "softmax": lambda: gnn.SoftmaxAggregation(learn=True, channels=WIDTH),
    "powers": lambda: gnn.PowerMeanAggregation(learn=True),
    "median": lambda: gnn.MedianAggregation(),
    "quantiles": lambda: gnn.QuantileAggregation([0.1, 0.5, 0.8]),
    "quantile nearest": lambda: gnn.QuantileAggregation(0.3, interpolation="nearest"),
    "lstm": lambda: gnn.LSTMAggregation(WIDTH, 6),
    "gru": lambda: gnn.GRUAggregation(WIDTH, 6),
    "set2set": lambda: gnn.Set2Set(WIDTH, processing_steps=3),
    "scaled": lambda: gnn.DegreeScalerAggregation(
        ["mean", "std"], ["identity", "amplification"], torch.tensor([0, 2, 4, 3]), train_norm=True
    ),
    "sort": lambda: gnn.SortAggregation(k=4),
    "multiset": lambda: gnn.GraphMultisetTransformer(WIDTH, k=3, heads=2, layer_norm=True),
    "attention": lambda: gnn.AttentionalAggregation(perceptron(WIDTH, 1), perceptron(WIDTH, 5)),
    "equilibrium": lambda: gnn.EquilibriumAggregation(WIDTH, 4, num_layers=[6, 6], grad_iter=2),
    "mlp": lambda: gnn.MLPAggregation(WIDTH, 5, max_num_elements=6, num_layers=1),
    "deep sets": lambda: gnn.DeepSetsAggregation(perceptron(WIDTH, 6), perceptron(6, 4)),
    "set transformer": lambda: gnn.SetTransformerAggregation(WIDTH, num_seed_points=2, heads=2),
    "commutative": lambda: gnn.LCMAggregation(WIDTH, 6, project=True),
    "variance": lambda: gnn.VariancePreservingAggregation(),
    "patches": lambda: gnn.PatchTransformerAggregation(WIDTH, 6, patch_size=2, hidden_channels=8, heads=2),
    "several": lambda: gnn.MultiAggregation(["mean", "max", gnn.SoftmaxAggregation(learn=True)]),
    "several projected": lambda: gnn.MultiAggregation(
        ["mean", "min", "std"], mode="proj", mode_kwargs={"in_channels": WIDTH, "out_channels": 6}
    ),
    "several attending": lambda: gnn.MultiAggregation(
        ["mean", "min"],
        mode="attn",
        mode_kwargs={"in_channels": WIDTH, "out_channels": WIDTH, "num_heads": 2},
    ),
}


def aggregated(make):
    def run():
        pyg.seed_everything(0)
        module, x = fill(make()), normal(NODES, WIDTH).requires_grad_()
        return learnt(module, module(x, BATCH), x)

    return run


for name, make in AGGREGATIONS.items():
    client.case(aggregated(make), name=f"aggregation: {name}")


@client.case
def aggregated_by_pointers():
    x, ptr = normal(NODES, WIDTH), torch.tensor([0, 6, 9, NODES])
    results = {}
    for name in ("sum", "mean", "max", "min", "var", "std", "softmax"):
        given = x.clone().requires_grad_()
        module = AGGREGATIONS[name]()
        results[name] = learnt(module, module(given, ptr=ptr), given)
    fused = gnn.aggr.fused.FusedAggregation(["sum", "mean", "max", "min", "mul", "var", "std"])
    given = x.clone().requires_grad_()
    out = torch.cat(fused(given, BATCH), -1)
    results["fused"] = learnt(fused, out, given)
    return results


NORMS = {
    "batch": (lambda: gnn.BatchNorm(WIDTH), ()),
    "instance": (lambda: gnn.InstanceNorm(WIDTH, affine=True), (BATCH,)),
    "instance tracked": (lambda: gnn.InstanceNorm(WIDTH, track_running_stats=True), (BATCH,)),
    "layer": (lambda: gnn.LayerNorm(WIDTH), (BATCH,)),
    "layer by node": (lambda: gnn.LayerNorm(WIDTH, mode="node"), ()),
    "layer whole": (lambda: gnn.LayerNorm(WIDTH), ()),
    "graph": (lambda: gnn.GraphNorm(WIDTH), (BATCH,)),
    "size": (lambda: gnn.GraphSizeNorm(), (BATCH,)),
    "pair": (lambda: gnn.PairNorm(), (BATCH,)),
    "pair by node": (lambda: gnn.PairNorm(scale_individually=True), ()),
    "mean": (lambda: gnn.MeanSubtractionNorm(), (BATCH,)),
    "message": (lambda: gnn.MessageNorm(learn_scale=True), (normal(NODES, WIDTH, seed=2),)),
    "groups": (lambda: gnn.DiffGroupNorm(WIDTH, groups=3), ()),
    "kinds": (lambda: gnn.HeteroBatchNorm(WIDTH, num_types=2), (integers(2, NODES),)),
    "layer of kinds": (lambda: gnn.HeteroLayerNorm(WIDTH, num_types=2), (integers(2, NODES),)),
}


@client.case
def norms():
    results = {}
    for name, (make, more) in NORMS.items():
        norm, x = fill(make()), normal(NODES, WIDTH).requires_grad_()
        results[name] = [learnt(norm, norm(x, *more), x), list(norm.buffers()), norm.eval()(x, *more)]
    return results


@client.case
def pooled():
    """Whole graphs, and the best nodes of each, with their edges."""
    pyg.seed_everything(0)
    x, edge_index = normal(NODES, WIDTH), both_ways()
    results = {
        "sum": gnn.global_add_pool(x, BATCH),
        "mean": gnn.global_mean_pool(x, BATCH),
        "max": gnn.global_max_pool(x, BATCH),
        "whole": gnn.global_mean_pool(x, None),
    }
    for name, pool in {
        "top": gnn.TopKPooling(WIDTH, ratio=0.6),
        "top few": gnn.TopKPooling(WIDTH, ratio=2, multiplier=1.5, nonlinearity="sigmoid"),
        "top score": gnn.TopKPooling(WIDTH, min_score=0.2),
        "self attention": gnn.SAGPooling(WIDTH, ratio=0.5),
        "self attention gat": gnn.SAGPooling(WIDTH, ratio=0.5, GNN=gnn.GATConv),
        "asap": gnn.ASAPooling(WIDTH, ratio=0.5),
        "asap gcn": gnn.ASAPooling(WIDTH, ratio=3, GNN=gnn.GCNConv, add_self_loops=True),
    }.items():
        given = x.clone().requires_grad_()
        options = {"batch": BATCH}
        out, index, weight, *others = fill(pool)(given, edge_index, **options)
        if "asap" in name:  # the order of a sparse product's elements is not specified
            index, weight = utils.coalesce(index, torch.ones(index.size(1)) if weight is None else weight)
        results[name] = [learnt(pool, out, given), index, weight, others]
    return results


@client.case
def pooled_edges():
    x, edge_index = normal(NODES, WIDTH), both_ways()
    results = {}
    for name, pool in {
        "softmax": gnn.EdgePooling(WIDTH),
        "tanh": gnn.EdgePooling(WIDTH, edge_score_method=gnn.EdgePooling.compute_edge_score_tanh),
        "clusters": gnn.ClusterPooling(WIDTH, edge_score_method="sigmoid"),
    }.items():
        given = x.clone().requires_grad_()
        new, index, batch, info = fill(pool)(given, edge_index, BATCH)
        results[name] = [learnt(pool, new, given), index, batch, info.cluster]
        if hasattr(pool, "unpool"):
            results[name] += pool.unpool(new, info)
    return results


@client.case
def pooled_clusters():
    cluster = torch.tensor([0, 0, 1, 1, 2, 2, 4, 4, 4, 6, 7, 7, 8, 8])
    x = normal(NODES, WIDTH).requires_grad_()
    edge_index = both_ways()
    data = Data(x=x, edge_index=edge_index, edge_attr=weights(edge_index), pos=normal(NODES, 3), batch=BATCH)
    results = [gnn.max_pool_x(cluster, x, BATCH), gnn.avg_pool_x(cluster, x, BATCH)]
    for pool in (gnn.max_pool, gnn.avg_pool):
        small = pool(cluster, data)
        results.append([small.x, small.edge_index, small.edge_attr, small.pos, small.batch])
    results += [gnn.max_pool_neighbor_x(copy.copy(data)).x, gnn.avg_pool_neighbor_x(copy.copy(data)).x]
    memory = fill(gnn.MemPooling(WIDTH, 6, heads=2, num_clusters=3))
    out, assigned = memory(x, BATCH)
    return [results, learnt(memory, out, x), assigned, 1 + gnn.MemPooling.kl_loss(assigned)]


@client.case
def dense():
    """Layers and pooling for dense adjacency matrices with masks."""
    edge_index = both_ways()
    adjacency = utils.to_dense_adj(edge_index, BATCH)
    x, mask = utils.to_dense_batch(normal(NODES, WIDTH), BATCH)
    results = {}
    for name, conv in {
        "gcn": gnn.DenseGCNConv(WIDTH, 6),
        "sage": gnn.DenseSAGEConv(WIDTH, 6, normalize=True),
        "gin": gnn.DenseGINConv(perceptron(WIDTH, 6), train_eps=True),
        "graph": gnn.DenseGraphConv(WIDTH, 6, aggr="max"),
        "gat": gnn.DenseGATConv(WIDTH, 6, heads=2),
    }.items():
        given = x.clone().requires_grad_()
        results[name] = learnt(fill(conv), conv(given, adjacency, mask), given)
    shares = normal(3, 6, 4).requires_grad_()
    for name, out in {
        "diff": gnn.dense_diff_pool(x, adjacency, shares, mask),
        "mincut": gnn.dense_mincut_pool(x, adjacency, shares, mask),
    }.items():
        (out[0].square().mean() + out[2] + out[3]).backward()
        results[name] = [out, shares.grad.clone()]
        shares.grad = None
    modular = fill(gnn.DMoNPooling(WIDTH, 3))
    out = modular(x, adjacency, mask)
    results["modularity"] = [out, learnt(modular, sum(out[3:]))[1]]
    return results


@client.case
def linear_layers():
    pyg.seed_everything(0)
    kinds = integers(3, NODES)
    made = [
        gnn.Linear(-1, 6, weight_initializer="kaiming_uniform", bias_initializer="zeros"),
        gnn.Linear(WIDTH, 6, weight_initializer="glorot"),
    ]
    x = normal(NODES, WIDTH)
    results = [[lin(x), lin.weight, lin.bias] for lin in made]
    results.append(copy.deepcopy(made[0]).state_dict())
    for hetero in (gnn.HeteroLinear(WIDTH, 6, 3), gnn.HeteroLinear(-1, 6, 3)):
        hetero(x, kinds)
        given = x.clone().requires_grad_()
        results.append(learnt(fill(hetero), hetero(given, kinds), given))
    several = fill(gnn.HeteroDictLinear({"a": WIDTH, "b": 4}, 6))
    out = several({"b": normal(5, 4), "a": x})
    results.append([out, learnt(several, out["a"].square().mean() + out["b"].square().mean())[1]])
    return results


@client.case
def attention():
    pyg.seed_everything(0)
    x = normal(2, 7, WIDTH)
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    results = {}
    for name, module in {
        "performer": gnn.attention.PerformerAttention(WIDTH, heads=2, head_channels=6),
        "sgformer": gnn.attention.SGFormerAttention(WIDTH, heads=2, head_channels=6),
        "polynormer": gnn.attention.PolynormerAttention(WIDTH, heads=2, head_channels=6),
    }.items():
        given = x.clone().requires_grad_()
        results[name] = learnt(fill(module), module(given, mask), given)
    queries = fill(gnn.attention.QFormer(WIDTH, 16, 6, num_heads=2, num_layers=1))
    given = x.clone().requires_grad_()
    results["queries"] = learnt(queries, queries(given), given)
    results["positions"] = [
        gnn.PositionalEncoding(6)(torch.arange(5)),
        gnn.TemporalEncoding(6)(torch.arange(5.0)),
    ]
    return results


# Models -----------------------------------------------------------------------------------------------------------------------

DEGREES = torch.bincount(utils.degree(edges()[1], NODES, torch.long))
MODELS = {
    "GCN": lambda: gnn.GCN(WIDTH, 10, 3, 5, norm="batch_norm"),
    "GraphSAGE": lambda: gnn.GraphSAGE(WIDTH, 10, 3, 5, jk="lstm", act="elu"),
    "GraphSAGE lazy": lambda: gnn.GraphSAGE(-1, 10, 2, 5, aggr="max"),
    "GIN": lambda: gnn.GIN(WIDTH, 10, 2, jk="cat", norm="graph_norm"),
    "GAT": lambda: gnn.GAT(WIDTH, 8, 2, 5, heads=2, v2=True, jk="max"),
    "PNA": lambda: gnn.PNA(
        WIDTH, 8, 2, 5, aggregators=["mean", "max", "std"], scalers=["identity", "linear"], deg=DEGREES
    ),
    "EdgeCNN": lambda: gnn.EdgeCNN(WIDTH, 8, 2, 5, act_first=True, norm="layer_norm"),
    "GraphUNet": lambda: gnn.GraphUNet(WIDTH, 8, 5, depth=2),
    "LINKX": lambda: gnn.LINKX(NODES, WIDTH, 8, 5, num_layers=2),
    "RECT": lambda: gnn.RECT_L(WIDTH, 8),
    "NeuralFingerprint": lambda: gnn.NeuralFingerprint(WIDTH, 8, 5, num_layers=2),
    "SGFormer": lambda: gnn.SGFormer(WIDTH, 8, 5),
    "Polynormer": lambda: gnn.Polynormer(WIDTH, 8, 5, local_layers=2, global_layers=1, heads=2),
    "PMLP": lambda: gnn.PMLP(WIDTH, 8, 5, num_layers=3),
    "attract and repel": lambda: gnn.ARLinkPredictor(WIDTH, 8, 6),
}


def model(make, *more):
    def run():
        pyg.seed_everything(0)
        net, x, edge_index = make(), normal(NODES, WIDTH), edges()
        given = {"batch": torch.zeros(NODES, dtype=torch.long)} if isinstance(net, BATCHED) else {}
        with torch.no_grad():
            net(x, edge_index, **given)
        fill(net)
        for part in net.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.5
        x.requires_grad_()
        torch.manual_seed(1)
        trained = learnt(net, net(x, edge_index, **given), x)
        return [trained, net.eval()(x, edge_index, **given)]

    return run


BATCHED = (gnn.SGFormer, gnn.Polynormer)
for name, make in MODELS.items():
    client.case(model(make), name=f"model: {name}")


def neighbours(pos, batch, cutoff=2.5):
    """Pairs of points of one molecule that are nearer than `cutoff`, and their distances."""
    apart = (pos[:, None] - pos).norm(dim=-1)
    near = (apart < cutoff) & (batch[:, None] == batch) & ~torch.eye(len(pos), dtype=torch.bool)
    row, col = near.nonzero().t()
    return torch.stack([row, col]), (pos[row] - pos[col]).norm(dim=-1)


@client.case
def schnet():
    """Energies of molecules and the forces on their atoms."""
    z, pos = integers(9, NODES) + 1, normal(NODES, 3).requires_grad_()
    net = fill(
        gnn.SchNet(16, 16, num_interactions=2, num_gaussians=10, cutoff=4.0, interaction_graph=neighbours)
    )
    energy = net(z, pos, BATCH)
    (force,) = torch.autograd.grad(energy.sum(), pos, create_graph=True)
    return [energy, force, learnt(net, energy.sum() + force.square().sum())]


@client.case
def visnet_and_dimenet():
    """Bases of distances, angles and spheres, and blocks of two networks for molecules."""
    from torch_geometric.nn.models import dimenet, visnet

    pos = normal(NODES, 3)
    edge_index, far = neighbours(pos, BATCH)
    i, j = edge_index
    results = {
        "sphere": visnet.Sphere(2)(F.normalize(pos[i] - pos[j], dim=-1)),
        "smearing": visnet.ExpNormalSmearing(5.0, 8)(far),
        "cutoff": visnet.CosineCutoff(2.0)(far),
        "vectors": visnet.VecLayerNorm(6, True)(normal(4, 8, 6)),
        "bessel": dimenet.BesselBasisLayer(5)(far),
    }
    kj, ji = (i[:, None] == j).nonzero().t()
    turn = torch.linspace(0.1, 3.0, len(kj))
    spherical = dimenet.SphericalBasisLayer(3, 4)(far, turn, kj)
    results["spherical"] = spherical
    embed = fill(dimenet.EmbeddingBlock(5, 8, F.silu))
    state = embed(integers(9, NODES), results["bessel"], i, j)
    for name, block in {
        "interaction": dimenet.InteractionBlock(8, 3, 3, 4, 1, 1, F.silu),
        "interaction ++": dimenet.InteractionPPBlock(8, 6, 4, 3, 4, 1, 1, F.silu),
    }.items():
        block.reset_parameters()
        radial = dimenet.BesselBasisLayer(4)(far)
        results[name] = learnt(fill(block), block(state.detach(), radial, spherical, kj, ji))
    return results


@client.case
def attentive_fingerprint():
    net = fill(gnn.AttentiveFP(WIDTH, 8, 3, edge_dim=5, num_layers=2, num_timesteps=2))
    x, edge_index = normal(NODES, WIDTH).requires_grad_(), both_ways()
    return learnt(net, net(x, edge_index, weights(edge_index, 5), BATCH), x)


class Walks(gnn.Node2Vec):
    """node2vec whose walks are drawn in Python, where the original has a library of kernels draw them."""

    def __init__(self, edge_index, nodes, width, steps, context):
        torch.nn.Module.__init__(self)
        adjacency = pyg.EdgeIndex(edge_index, sparse_size=(nodes, nodes), sort_order="row")
        (self.rowptr, self.col), _ = adjacency.get_csr()
        self.EPS = 1e-15
        self.embedding_dim, self.walk_length, self.context_size = width, steps, context
        self.walks_per_node = self.num_negative_samples = 1
        self.p = self.q = 1.0
        self.num_nodes = nodes
        self.embedding = torch.nn.Embedding(nodes, width)
        self.random_walk_fn = self.walk
        torch.nn.init.normal_(self.embedding.weight, std=0.4)

    def walk(self, rowptr, col, start, steps, *_):
        places = [start]
        for _ in range(steps):
            at = places[-1]
            count = rowptr[at + 1] - rowptr[at]
            chosen = (torch.rand(len(at)) * count).long().clamp(max=count - 1)
            places.append(torch.where(count > 0, col[(rowptr[at] + chosen).clamp(0, len(col) - 1)], at))
        walks = torch.stack(places, 1)
        return walks, walks


@client.case
def node2vec():
    pyg.seed_everything(0)
    net = Walks(both_ways(), NODES, 8, 5, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(2):
        for positive, negative in net.loader(batch_size=5, shuffle=True):
            optimizer.zero_grad()
            loss = net.loss(positive, negative)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return [losses, net()]


@client.case
def metapath2vec():
    pyg.seed_everything(0)
    graph = {
        ("author", "writes", "paper"): torch.stack([integers(6, 20), integers(9, 20, seed=1)]),
        ("paper", "written by", "author"): torch.stack([integers(9, 20, seed=1), integers(6, 20)]),
    }
    net = gnn.MetaPath2Vec(
        graph,
        embedding_dim=8,
        metapath=list(graph),
        walk_length=4,
        context_size=3,
        walks_per_node=2,
        num_negative_samples=2,
        sparse=True,
    )
    loader = net.loader(batch_size=3, shuffle=True)
    optimizer = torch.optim.SparseAdam(list(net.parameters()), lr=0.05)
    losses = []
    for _ in range(3):
        for positive, negative in loader:
            optimizer.zero_grad()
            loss = net.loss(positive, negative)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return [losses, net("author"), net("paper", torch.tensor([1, 2]))]


@client.case
def autoencoders():
    pyg.seed_everything(0)
    x, edge_index = normal(NODES, WIDTH), both_ways()
    gae = fill(gnn.GAE(gnn.GCNConv(WIDTH, 6)))
    z = 0.3 * gae.encode(x, edge_index)
    results = [learnt(gae, gae.recon_loss(z, edge_index)), gae.decoder.forward_all(z)]

    class Variational(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mu, self.logstd = gnn.GCNConv(WIDTH, 6), gnn.GCNConv(WIDTH, 6)

        def forward(self, x, edge_index):
            return self.mu(x, edge_index), self.logstd(x, edge_index)

    for net in (
        gnn.VGAE(Variational()),
        gnn.ARGVA(Variational(), perceptron(6, 8, 1)),
        gnn.ARGA(gnn.GCNConv(WIDTH, 6), perceptron(6, 8, 1)),
    ):
        z = 0.3 * fill(net).encode(x, edge_index)
        loss = net.recon_loss(z, edge_index, utils.negative_sampling(edge_index, NODES))
        if isinstance(net, gnn.VGAE):
            loss = loss + net.kl_loss() / NODES
        if isinstance(net, gnn.ARGA):
            loss = loss + net.reg_loss(z) + net.discriminator_loss(z)
        results.append(learnt(net, loss))
    return results


@client.case
def infomax():
    pyg.seed_everything(0)
    net = fill(
        gnn.DeepGraphInfomax(
            6,
            encoder=gnn.GCNConv(WIDTH, 6),
            summary=lambda z, *a, **k: z.mean(0).sigmoid(),
            corruption=lambda x, edge_index: (x[torch.randperm(x.size(0))], edge_index),
        )
    )
    positive, negative, summary = net(normal(NODES, WIDTH), edges())
    return [positive, negative, summary, learnt(net, net.loss(positive, negative, summary))]


@client.case
def recommendation():
    pyg.seed_everything(0)
    net = fill(gnn.LightGCN(NODES, 8, num_layers=2))
    edge_index = both_ways()
    labels = torch.cat([edge_index[:, :6], utils.negative_sampling(edge_index, NODES, 6)], 1)
    rank = net(edge_index, labels)
    ranking = net.recommendation_loss(rank[:6], rank[6:], node_id=labels.unique())
    answers = [learnt(net, ranking), rank]
    result = net.link_pred_loss(net(edge_index, labels), torch.arange(12) < 6)
    return [
        answers,
        result,
        net.predict_link(edge_index, labels, prob=True),
        net.recommend(edge_index, src_index=torch.arange(3), k=2),
    ]


@client.case
def signed_graphs():
    pyg.seed_everything(0)
    positive, negative = edges(0), edges(1)
    net = fill(gnn.SignedGCN(WIDTH, 8, num_layers=2))
    x = normal(NODES, WIDTH).requires_grad_()
    z = net(x, positive, negative)
    return [learnt(net, net.loss(z, positive, negative), x), net.split_edges(positive)]


@client.case
def labels_spread():
    y, mask = integers(3, NODES), torch.arange(NODES) % 3 == 0
    edge_index = both_ways()
    soft = normal(NODES, 3).softmax(-1)
    fix = gnn.CorrectAndSmooth(3, 0.6, 3, 0.5, autoscale=True)
    masked = fill(gnn.MaskLabel(3, WIDTH))
    return [
        gnn.LabelPropagation(4, 0.9)(y, edge_index, mask),
        fix.correct(soft, y[mask], mask, edge_index),
        fix.smooth(soft, y[mask], mask, edge_index),
        masked(normal(NODES, WIDTH), y, mask),
    ]


@client.case
def deep_and_reversible():
    """Residual blocks that compute again in backward, and blocks that invert themselves."""
    x, edge_index = normal(NODES, WIDTH), edges()
    results = []
    for block in ("res+", "res", "dense", "plain"):
        deep = gnn.DeepGCNLayer(
            gnn.GCNConv(WIDTH, WIDTH), gnn.LayerNorm(WIDTH), ReLU(), block=block, ckpt_grad=block == "res+"
        )
        given = x.clone().requires_grad_()
        results.append(learnt(fill(deep), deep(given, edge_index), given))
    for disable in (True, False):
        reversible = fill(
            gnn.GroupAddRev(gnn.SAGEConv(WIDTH // 2, WIDTH // 2), num_groups=2, disable=disable)
        )
        start = x.clone().requires_grad_()
        given = start * 1.0
        out = reversible(given, edge_index)
        value = out.detach().clone()
        results.append([value, learnt(reversible, out, start)[1:]])
    return results


@client.case
def events():
    """Memories of nodes from events in time (TGN), their loader, and the mixer of graphs in time."""
    from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader

    pyg.seed_everything(0)
    src, dst = integers(6, 20), integers(6, 20, seed=1)
    data = TemporalData(src=src, dst=dst, t=torch.arange(20), msg=normal(20, 4))
    memory = gnn.TGNMemory(6, 4, 8, 5, IdentityMessage(4, 8, 5), LastAggregator())
    fill(memory).reset_state()
    newest = LastNeighborLoader(6, size=3)
    results = []
    for batch in TemporalDataLoader(data, batch_size=6, neg_sampling_ratio=1.0):
        n_id, edge_index, e_id = newest(batch.n_id)
        z, last = memory(n_id)
        results.append([n_id, edge_index, e_id, z, last])
        memory.update_state(batch.src, batch.dst, batch.t, batch.msg)
        newest.insert(batch.src, batch.dst)
        memory.detach()
    memory.eval()
    results.append([memory(torch.arange(6))[0], len(data.train_val_test_split(0.2, 0.2)[0])])
    from torch_geometric.nn.models.graph_mixer import LinkEncoder, NodeEncoder

    edge_index = torch.stack([src, dst])
    encoder = fill(LinkEncoder(3, 4, 8, 5, 6))
    out = encoder(edge_index, normal(20, 4), torch.arange(20.0), torch.full((6,), 25.0))
    results.append(
        [
            learnt(encoder, out),
            NodeEncoder(8)(normal(6, 4), edge_index, torch.arange(20), torch.full((6,), 15)),
        ]
    )
    return results


@client.case
def meta_layer():
    """Networks for edges, nodes, and a state of the whole graph."""

    class Of(torch.nn.Module):
        def __init__(self, what, width, out):
            super().__init__()
            self.what, self.net = what, perceptron(width, out)

        def forward(self, *given):
            if self.what == "edges":
                src, dst, features, u, batch = given
                return self.net(torch.cat([src, dst, features, u[batch]], 1))
            x, edge_index, features, u, batch = given
            if self.what == "nodes":
                sent = utils.scatter(features, edge_index[1], 0, x.size(0), reduce="mean")
                return self.net(torch.cat([x, sent, u[batch]], 1))
            return self.net(torch.cat([u, utils.scatter(x, batch, reduce="mean")], 1))

    layer = fill(
        gnn.MetaLayer(Of("edges", 2 * WIDTH + 5 + 3, 4), Of("nodes", WIDTH + 4 + 3, 6), Of("graph", 3 + 6, 3))
    )
    x, edge_index = normal(NODES, WIDTH).requires_grad_(), both_ways()
    return learnt(layer, layer(x, edge_index, weights(edge_index, 5), normal(3, 3), BATCH), x)


@client.case
def perceptrons_and_sequences():
    pyg.seed_everything(0)
    results = []
    for net in (
        gnn.MLP([WIDTH, 10, 5], norm="graph_norm"),
        gnn.MLP(in_channels=WIDTH, hidden_channels=6, out_channels=4, num_layers=3, dropout=[0.1, 0.5, 0.2]),
        gnn.MLP([WIDTH, 6, 6], act="gelu", norm=None, plain_last=False, bias=[False, True]),
    ):
        x = normal(NODES, WIDTH).requires_grad_()
        torch.manual_seed(4)
        results.append(learnt(fill(net), net(x, batch=BATCH), x))
    net = gnn.Sequential(
        "x, edge_index, batch",
        [
            (torch.nn.Dropout(p=0.5), "x -> x"),
            (gnn.GCNConv(WIDTH, 6), "x, edge_index -> x1"),
            ReLU(inplace=True),
            (gnn.GCNConv(6, 6), "x1, edge_index -> x2"),
            (lambda x1, x2: [x1, x2], "x1, x2 -> xs"),
            (gnn.JumpingKnowledge("cat", 6, num_layers=2), "xs -> x"),
            (gnn.global_mean_pool, "x, batch -> x"),
            Linear(12, 3),
        ],
    )
    x = normal(NODES, WIDTH).requires_grad_()
    results.append(learnt(fill(net), net(x, edges(), BATCH), x))
    xs = [normal(NODES, 6, seed=seed) for seed in range(3)]
    for mode in ("cat", "max", "lstm"):
        results.append(fill(gnn.JumpingKnowledge(mode, 6, num_layers=3))(xs))
    return results


@client.case
def knowledge_graphs():
    pyg.seed_everything(0)
    head, kind, tail = integers(10, 24), integers(3, 24), integers(10, 24, seed=1)
    results = {}
    for name, net in {
        "TransE": gnn.TransE(10, 3, 8),
        "ComplEx": gnn.ComplEx(10, 3, 8),
        "DistMult": gnn.DistMult(10, 3, 8),
        "RotatE": gnn.RotatE(10, 3, 8),
    }.items():
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        losses = []
        for batch in net.loader(head, kind, tail, batch_size=8, shuffle=True):
            optimizer.zero_grad()
            loss = net.loss(*batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        results[name] = [
            losses,
            net(head[:4], kind[:4], tail[:4]),
            net.test(head, kind, tail, 8, k=3, log=False),
        ]
    return results


# Data -------------------------------------------------------------------------------------------------------------------------


def graphs(count=5, seed=0):
    made = []
    for i in range(count):
        nodes = 3 + i % 4
        edge_index = edges(seed + i, nodes, 3 * nodes)
        made.append(
            Data(
                x=normal(nodes, WIDTH, seed=seed + i),
                edge_index=edge_index,
                edge_attr=weights(edge_index, 5, seed=seed + i),
                pos=normal(nodes, 3, seed=seed + i),
                y=torch.tensor([i % 2]),
            )
        )
    return made


def parts(data):
    """All that a graph stores."""
    return {key: value for key, value in sorted(data.to_dict().items()) if key != "adj_t"}


@client.case
def data():
    one = graphs(1)[0]
    one.train_mask = torch.arange(3) < 2
    one["note"] = "text"
    again = one.clone()
    again.x.zero_()
    file = io.BytesIO()
    torch.save(one, file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    return [
        parts(one),
        parts(read),
        repr(one),
        one.num_nodes,
        one.num_edges,
        one.num_node_features,
        one.num_edge_features,
        sorted(one.keys()),
        one.has_isolated_nodes(),
        one.has_self_loops(),
        one.is_undirected(),
        one.is_coalesced(),
        one.is_sorted(),
        one.validate(),
        parts(one.subgraph(torch.tensor([0, 2]))),
        parts(one.edge_subgraph(torch.tensor([0, 1]))),
        parts(one.to("cpu").contiguous().coalesce()),
        one.x.norm() > 0,
        [key for key, _ in one],
        "x" in one,
        one.size(),
        one.apply(lambda x: x.float() + 1, "x").x,
        parts(Data.from_dict(one.to_dict())),
        repr(one.to_namedtuple()._fields),
    ]


@client.case
def batches():
    batch = Batch.from_data_list(graphs(), follow_batch=["edge_attr"])
    single = batch.get_example(2)
    merged = utils.scatter(batch.x, batch.batch, reduce="max")

    class Pair(Data):
        def __inc__(self, key, value, *more):
            return self.x_s.size(0) if key == "edge_index_s" else super().__inc__(key, value, *more)

        def __cat_dim__(self, key, value, *more):
            return None if key == "whole" else super().__cat_dim__(key, value, *more)

    pairs = [
        Pair(x_s=g.x, edge_index_s=g.edge_index, whole=normal(2, 3, seed=i), words=f"graph {i}")
        for i, g in enumerate(graphs(3))
    ]
    paired = Batch.from_data_list(pairs, follow_batch=["x_s"])
    return [
        parts(batch),
        batch.num_graphs,
        batch.ptr,
        repr(batch),
        parts(single),
        [parts(g) for g in batch[1:3]],
        [parts(g)["y"] for g in batch.to_data_list()],
        merged,
        parts(paired),
    ]


@client.case
def loaders():
    pyg.seed_everything(0)
    many = graphs(9)
    results = []
    for batch in DataLoader(many, batch_size=4, shuffle=True):
        results.append([batch.y, batch.ptr, batch.x.sum(0)])
    for batch in DataLoader(many, batch_sampler=DynamicBatchSampler(many, max_num=12, mode="node")):
        results.append(batch.batch)
    big = Data(x=normal(30, 4), edge_index=edges(3, 30, 90), y=(torch.arange(30) < 25).long(), num_nodes=30)
    for part in RandomNodeLoader(big, num_parts=3, shuffle=True):
        results.append([part.x, part.edge_index])
    sampler = ImbalancedSampler(big.y)
    results.append(torch.tensor(list(sampler)))
    same = [T.ToDense(6)(g) for g in graphs(4)]
    for batch in DenseDataLoader(same, batch_size=2):
        results.append([batch.x, batch.adj, batch.mask])
    mixed = DataLoader(
        [{"graph": g, "number": i, "list": [g.x.sum()]} for i, g in enumerate(many)], batch_size=5
    )
    for batch in mixed:
        results.append([batch["graph"].ptr, batch["number"], batch["list"]])
    return results


@client.case
def datasets():
    pyg.seed_everything(0)
    from torch_geometric.data import InMemoryDataset
    from torch_geometric.datasets import (
        ExplainerDataset,
        FakeDataset,
        FakeHeteroDataset,
        KarateClub,
    )
    from torch_geometric.datasets.graph_generator import BAGraph, ERGraph, GridGraph

    karate = KarateClub()[0]
    fake = FakeDataset(num_graphs=3, avg_num_nodes=10, avg_degree=3, num_channels=4, edge_dim=2)
    hetero = FakeHeteroDataset(num_node_types=2, num_edge_types=3, avg_num_nodes=8, avg_degree=3)[0]

    class Stored(InMemoryDataset):
        def __init__(self, many, transform=None):
            super().__init__(None, transform)
            self.data, self.slices = self.collate(many)

    dataset = Stored(graphs(6), T.NormalizeFeatures())
    shuffled, order = dataset.shuffle(return_perm=True)
    return [
        [karate.x.sum(), karate.edge_index, karate.y, karate.train_mask],
        [parts(g) for g in fake],
        [hetero.node_types, [[*kind] for kind in hetero.edge_types], hetero.num_nodes],
        [parts(ERGraph(8, 0.4)()), parts(BAGraph(8, 2)()), parts(GridGraph(3, 3)())],
        parts(ExplainerDataset(BAGraph(10, 2), "house", num_motifs=2)[0]),
        [len(dataset), dataset.num_classes, dataset.num_features, parts(dataset[3]), order],
        [parts(g)["x"] for g in dataset[torch.tensor([True, False, True, False, False, True])]],
        [parts(g)["y"] for g in shuffled[1:4]],
    ]


def library():
    """Authors, papers and topics."""
    data = HeteroData()
    data["author"].x = normal(6, 4)
    data["paper"].x = normal(9, WIDTH)
    data["paper"].y = integers(3, 9)
    data["topic"].num_nodes = 3
    data["topic"].x = torch.eye(3)
    data["author", "writes", "paper"].edge_index = torch.stack([integers(6, 20), integers(9, 20, seed=1)])
    data["paper", "cites", "paper"].edge_index = edges(2, 9, 24)
    data["paper", "about", "topic"].edge_index = torch.stack([torch.arange(9), integers(3, 9, seed=2)])
    return data


@client.case
def hetero_data():
    data = library()
    whole = T.ToUndirected()(data)
    same = whole.to_homogeneous(add_node_type=True, add_edge_type=True, node_attrs=[])
    back = same.to_heterogeneous()
    pair = Batch.from_data_list([data, library()])
    return [
        repr(data).count("\n"),
        data.metadata()[0],
        [list(kind) for kind in whole.metadata()[1]],
        data.num_nodes,
        data.num_edges,
        data.num_node_features,
        data.x_dict,
        data.collect("edge_index"),
        [same.edge_index, same.node_type, same.edge_type],
        back.edge_index_dict,
        [pair["paper"].batch, pair["author", "paper"].edge_index, pair["paper"].ptr],
        data.subgraph({"paper": torch.tensor([0, 3, 5])}).edge_index_dict,
        data.node_type_subgraph(["author", "paper"]).edge_index_dict,
        data.edge_type_subgraph([("paper", "cites", "paper")]).edge_index_dict,
        T.AddSelfLoops()(library())["paper", "cites", "paper"].edge_index,
        data.validate(),
    ]


@client.case
def hetero_layers():
    pyg.seed_everything(0)
    data = T.ToUndirected()(library())
    results = {}
    widths = {"author": 4, "paper": WIDTH, "topic": 3}
    for name, conv in {
        "sage": gnn.HeteroConv({kind: gnn.SAGEConv((-1, -1), 6) for kind in data.edge_types}, aggr="sum"),
        "mixed": gnn.HeteroConv(
            {
                ("paper", "cites", "paper"): gnn.GCNConv(-1, 6),
                ("author", "writes", "paper"): gnn.GATConv((-1, -1), 6, add_self_loops=False),
                ("paper", "rev_writes", "author"): gnn.SAGEConv((-1, -1), 6),
            },
            aggr="mean",
        ),
        "hgt": gnn.HGTConv(widths, 8, data.metadata(), heads=2),
        "han": gnn.HANConv(widths, 8, data.metadata(), heads=2),
    }.items():
        with torch.no_grad():
            conv(data.x_dict, data.edge_index_dict)
        fill(conv)
        given = {key: x.clone().requires_grad_() for key, x in data.x_dict.items()}
        out = conv(given, data.edge_index_dict)
        loss = sum(x.square().mean() for x in out.values() if x is not None)
        results[name] = [out, learnt(conv, loss)[1], {key: x.grad for key, x in given.items()}]
    return results


@client.case
def edge_index_tensor():
    """The tensor of edges that knows its order, its sparse size and its transpose."""
    pairs = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 0]])
    adjacency = pyg.EdgeIndex(pairs, sparse_size=(4, 4), sort_order="row")
    x, w = normal(4, 3).requires_grad_(), normal(5).sigmoid().requires_grad_()
    (rowptr, col), order = adjacency.get_csr()
    (colptr, row), perm = adjacency.get_csc()
    product = adjacency.matmul(x, w)
    product.square().sum().backward()
    flipped = adjacency.flip(0)
    by_column = adjacency.sort_by("col")
    conv, plain = fill(gnn.GCNConv(3, 2)), normal(4, 3)
    return [
        adjacency.as_tensor(),
        repr(adjacency.sort_order),
        adjacency.sparse_size(),
        [rowptr, col, order, colptr, row, perm],
        [product, x.grad, w.grad],
        [flipped.as_tensor(), str(flipped.sort_order), type(flipped).__name__],
        [by_column.values.as_tensor(), by_column.indices],
        adjacency.to_dense(),
        adjacency.to_sparse_coo().to_dense(),
        adjacency.to_sparse_csr().to_dense(),
        [type(adjacency + 1).__name__, (adjacency + 1), adjacency[:, 1:3].as_tensor()],
        [type(adjacency[0]).__name__, type(adjacency[:, 0]).__name__],
        torch.cat([adjacency, adjacency], 1).as_tensor(),
        adjacency.sparse_narrow(0, 1, 2).as_tensor(),
        adjacency.clone().validate().is_sorted_by_row,
        adjacency.to(torch.int32).dtype == torch.int32,
        conv(plain, adjacency),
        conv(plain, pairs),
        pickled(adjacency).as_tensor(),
    ]


def pickled(value):
    import pickle

    return pickle.loads(pickle.dumps(value))


@client.case
def index_tensor():
    index = pyg.Index([0, 0, 1, 1, 1, 3], dim_size=4, is_sorted=True)
    return [
        index.as_tensor(),
        index.get_indptr(),
        index.dim_size,
        index.is_sorted,
        type(index[1:3]).__name__,
        index[torch.tensor([0, 4])].as_tensor(),
        torch.cat([index, index]).as_tensor(),
        type(index + 1).__name__,
        index.flip(0).as_tensor(),
        utils.scatter(normal(6, 2), index.as_tensor(), 0, 4),
        pickled(index).as_tensor(),
    ]


# Transforms -------------------------------------------------------------------------------------------------------------------


def flat():
    edge_index = both_ways()
    return Data(
        x=normal(NODES, WIDTH).abs(),
        edge_index=edge_index,
        edge_attr=weights(edge_index),
        pos=normal(NODES, 3),
        y=integers(3, NODES),
        num_nodes=NODES,
    )


def mesh():
    xs, ys = torch.meshgrid(torch.arange(4.0), torch.arange(3.0), indexing="ij")
    pos = torch.stack([xs.flatten(), ys.flatten(), (xs * 0.3).sin().flatten()], -1)
    corners = [[3 * i + j, 3 * i + j + 1, 3 * i + j + 3] for i in range(3) for j in range(2)]
    corners += [[b, c, c + 1] for a, b, c in corners]
    return Data(pos=pos, face=torch.tensor(corners).t().contiguous())


TRANSFORMS = {
    "NormalizeFeatures": lambda: T.NormalizeFeatures(),
    "Constant": lambda: T.Constant(2.0),
    "RandomNodeSplit": lambda: T.RandomNodeSplit(num_val=3, num_test=0.3),
    "RandomNodeSplit by class": lambda: T.RandomNodeSplit(
        "random", num_train_per_class=1, num_val=2, num_test=2
    ),
    "Pad": lambda: T.Pad(20, 80, node_pad_value=1.5),
    "ToUndirected": lambda: T.ToUndirected(reduce="mean"),
    "OneHotDegree": lambda: T.OneHotDegree(12),
    "TargetIndegree": lambda: T.TargetIndegree(),
    "LocalDegreeProfile": lambda: T.LocalDegreeProfile(),
    "AddSelfLoops": lambda: T.AddSelfLoops("edge_attr", fill_value="mean"),
    "AddRemainingSelfLoops": lambda: T.AddRemainingSelfLoops("edge_attr", 0.5),
    "RemoveSelfLoops": lambda: T.RemoveSelfLoops(),
    "RemoveIsolatedNodes": lambda: T.RemoveIsolatedNodes(),
    "RemoveDuplicatedEdges": lambda: T.RemoveDuplicatedEdges("edge_attr", "max"),
    "ToDense": lambda: T.ToDense(16),
    "LineGraph": lambda: T.LineGraph(),
    "GDC": lambda: T.GDC(
        sparsification_kwargs={"method": "topk", "k": 4, "dim": 0},
        diffusion_kwargs={"method": "ppr", "alpha": 0.1},
    ),
    "GDC heat": lambda: T.GDC(
        diffusion_kwargs={"method": "heat", "t": 2},
        sparsification_kwargs={"method": "threshold", "avg_degree": 5},
    ),
    "SIGN": lambda: T.SIGN(2),
    "GCNNorm": lambda: T.GCNNorm(),
    "LargestConnectedComponents": lambda: T.LargestConnectedComponents(),
    "VirtualNode": lambda: T.VirtualNode(),
    "AddRandomWalkPE": lambda: T.AddRandomWalkPE(4, attr_name="pe"),
    "Distance": lambda: T.Distance(),
    "Cartesian": lambda: T.Cartesian(),
    "LocalCartesian": lambda: T.LocalCartesian(),
    "Spherical": lambda: T.Spherical(),
    "Center": lambda: T.Center(),
    "NormalizeScale": lambda: T.NormalizeScale(),
    "RandomJitter": lambda: T.RandomJitter(0.1),
    "RandomFlip": lambda: T.RandomFlip(0, 0.8),
    "LinearTransformation": lambda: T.LinearTransformation(normal(3, 3)),
    "RandomScale": lambda: T.RandomScale((0.5, 2.0)),
    "RandomRotate": lambda: T.RandomRotate(90.0, axis=1),
    "RandomShear": lambda: T.RandomShear(0.3),
    "FixedPoints": lambda: T.FixedPoints(6, replace=False),
    "RootedEgoNets": lambda: T.RootedEgoNets(1),
    "Compose": lambda: T.Compose([T.Center(), T.AddSelfLoops(), T.NormalizeFeatures()]),
}


def transformed(make):
    def run():
        pyg.seed_everything(0)
        random.seed(0)
        np.random.seed(0)
        return parts(make()(flat()))

    return run


for name, make in TRANSFORMS.items():
    client.case(transformed(make), name=f"transform: {name}")


@client.case
def transforms_of_their_own_data():
    pyg.seed_everything(0)
    plane, whole, holes, marked = flat(), flat(), flat(), flat()
    plane.pos = plane.pos[:, :2]
    marked.train_index = torch.tensor([0, 3, 5])
    whole.norm = F.normalize(normal(NODES, 3, seed=5), dim=-1)
    splits = T.RandomLinkSplit(num_val=0.2, num_test=0.2, is_undirected=True, key="links")(flat())
    spectrum = T.AddLaplacianEigenvectorPE(3, attr_name="pe", is_undirected=True)(flat())
    reduced = T.SVDFeatureReduction(3)(flat())
    turned = T.NormalizeRotation()(flat())
    return {
        "half a hop": parts(T.HalfHop(alpha=0.4)(Data(x=normal(NODES, WIDTH), edge_index=both_ways()))),
        "two hops": parts(T.TwoHop()(Data(edge_index=both_ways(), num_nodes=NODES))),
        "polar": parts(T.Polar()(plane)),
        "pairs": parts(T.PointPairFeatures()(whole)),
        "filled": parts(T.FeaturePropagation(normal(NODES, WIDTH) > 1, 5)(holes)),
        "mask": parts(T.IndexToMask(attrs="train_index")(marked)),
        "index": parts(T.MaskToIndex()(T.IndexToMask(attrs="train_index")(marked))),
        "splits": [parts(part) for part in splits],
        "spectrum": spectrum.pe.abs(),
        "reduced": reduced.x.abs(),
        "turned": turned.pos.abs(),
        "mesh": parts(T.FaceToEdge(remove_faces=False)(mesh())),
        "normals": parts(T.GenerateMeshNormals()(mesh())),
        "sampled": parts(T.SamplePoints(9, include_normals=True)(mesh())),
        "triangles": parts(T.FaceToEdge()(T.Delaunay()(Data(pos=normal(8, 2))))),
        "classes": parts(T.RemoveTrainingClasses([1])(T.RandomNodeSplit(num_val=2, num_test=2)(flat()))),
        "properties": parts(T.NodePropertySplit("popularity", [0.3, 0.1, 0.1, 0.2, 0.3])(flat())),
        "metapaths": T.AddMetaPaths([[("author", "paper"), ("paper", "topic")]])(library()).edge_index_dict,
        "hetero links": [
            part["author", "paper"].edge_label_index
            for part in T.RandomLinkSplit(0.1, 0.2, edge_types=("author", "writes", "paper"))(library())
        ],
    }


# Functions --------------------------------------------------------------------------------------------------------------------


@client.case
def scattered():
    x, index = normal(NODES, WIDTH), torch.tensor([0, 2, 2, 5, 1, 0, 2, 5, 5, 3, 3, 0, 1, 1])
    results = {}
    for reduce in ("sum", "mean", "min", "max", "mul", "any"):
        given = x.clone().requires_grad_()
        out = utils.scatter(given, index, 0, 7, reduce)
        if reduce != "any":
            out.square().sum().backward()
        results[reduce] = [out, given.grad] if reduce != "any" else out.shape
        results[f"columns {reduce}"] = utils.scatter(x.t().contiguous(), index, 1, 7, reduce).shape
    given = x.clone().requires_grad_()
    soft = utils.softmax(given, index, num_nodes=7)
    soft.square().sum().backward()
    ptr = torch.tensor([0, 3, 3, 10, 14])
    return {
        "scatter": results,
        "softmax": [soft, given.grad, utils.softmax(x, ptr=ptr), utils.softmax(x.t(), index, dim=1)],
        "logsumexp": utils.segment_logsumexp(x, ptr, 0),
        "order": [
            utils.group_argsort(x[:, 0], index),
            utils.group_argsort(x[:, 0], index, descending=True, stable=True),
            utils.index_sort(index, 6, stable=True),
            utils.lexsort([x[:, 1].round(), x[:, 0].round()]),
        ],
        "sums": [utils.cumsum(index), utils.degree(index, 8), utils.one_hot(index, 7)],
        "joined": utils.group_cat([x[:3], x[3:5]], [torch.tensor([0, 0, 2]), torch.tensor([0, 1])]),
    }


@client.case
def edges_changed():
    pyg.seed_everything(0)
    edge_index = edges()
    weight = weights(edge_index)
    looped, looped_weight = utils.add_self_loops(edge_index, weight, fill_value="add", num_nodes=NODES)
    return {
        "loops": [
            looped,
            looped_weight,
            utils.remove_self_loops(looped, looped_weight),
            utils.segregate_self_loops(looped, looped_weight),
            utils.get_self_loop_attr(looped, looped_weight, NODES),
            utils.add_remaining_self_loops(edge_index, weight, 0.3, NODES),
            utils.contains_self_loops(looped),
        ],
        "order": [
            utils.sort_edge_index(edge_index, weight, sort_by_row=False),
            utils.coalesce(
                torch.cat([edge_index, edge_index], 1), torch.cat([weight, weight]), reduce="mean"
            ),
            utils.to_undirected(edge_index, weight, reduce="max"),
            utils.is_undirected(edge_index),
        ],
        "nodes": [
            utils.contains_isolated_nodes(edge_index, 20),
            utils.remove_isolated_nodes(edge_index, weight, 20),
            utils.subgraph(torch.tensor([0, 1, 4, 6, 7]), edge_index, weight, relabel_nodes=True),
            utils.k_hop_subgraph(3, 2, edge_index, relabel_nodes=True),
            utils.k_hop_subgraph([1, 5], 1, edge_index, flow="target_to_source", directed=True),
            utils.bipartite_subgraph((torch.tensor([0, 2, 3]), torch.tensor([1, 4])), edge_index, weight),
        ],
        "dropped": [
            utils.dropout_edge(edge_index, 0.4),
            utils.dropout_edge(both_ways(), 0.4, force_undirected=True),
            utils.dropout_node(edge_index, 0.3, NODES),
            utils.shuffle_node(normal(NODES, 2), BATCH),
            utils.mask_feature(normal(NODES, 6), 0.4),
            utils.mask_feature(normal(NODES, 6), 0.4, mode="all"),
            utils.add_random_edge(edge_index, 0.3),
        ],
        "laplacian": [
            utils.get_laplacian(edge_index, weight),
            utils.get_laplacian(edge_index, weight, "sym"),
            utils.get_laplacian(edge_index, weight, "rw"),
            utils.normalize_edge_index(edge_index),
            utils.normalized_cut(edge_index, weight),
            utils.get_mesh_laplacian(mesh().pos, mesh().face),
        ],
        "measured": [
            utils.homophily(edge_index, integers(3, NODES), method="edge"),
            utils.homophily(edge_index, integers(3, NODES), BATCH, method="node"),
            utils.homophily(edge_index, integers(3, NODES), method="edge_insensitive"),
            utils.assortativity(both_ways()),
        ],
        "split": [utils.unbatch(normal(NODES, 2), BATCH), utils.unbatch_edge_index(both_ways(), BATCH)],
    }


@client.case
def forms_of_graphs():
    edge_index = edges()
    weight = weights(edge_index)
    adjacency = utils.to_dense_adj(edge_index, BATCH * 0, weight)
    dense, mask = utils.to_dense_batch(normal(NODES, 3), BATCH, fill_value=-1.0, max_num_nodes=5)
    return {
        "dense": [dense, mask, adjacency, utils.dense_to_sparse(adjacency)],
        "sparse": [
            utils.to_torch_coo_tensor(edge_index, weight, NODES).to_dense(),
            utils.to_torch_csr_tensor(edge_index, weight, NODES).to_dense(),
            utils.to_torch_csc_tensor(edge_index, weight, NODES).to_dense(),
            utils.to_edge_index(utils.to_torch_csr_tensor(edge_index, weight, NODES)),
            utils.to_edge_index(utils.to_torch_csc_tensor(edge_index, weight, NODES)),
            utils.is_torch_sparse_tensor(utils.to_torch_coo_tensor(edge_index)),
        ],
        "product": [
            utils.spmm(utils.to_torch_csr_tensor(edge_index, weight, NODES), normal(NODES, 3), reduce)
            for reduce in ("sum", "mean", "min", "max")
        ],
        "scipy": [
            utils.to_scipy_sparse_matrix(edge_index, weight, NODES).toarray(),
            utils.from_scipy_sparse_matrix(utils.to_scipy_sparse_matrix(edge_index, weight, NODES)),
        ],
        "networkx": [
            sorted(utils.to_networkx(Data(edge_index=edge_index, num_nodes=NODES)).edges()),
            parts(utils.from_networkx(utils.to_networkx(graphs(1)[0], node_attrs=["x"]))),
        ],
        "masks": [
            utils.index_to_mask(torch.tensor([1, 3]), 5),
            utils.mask_to_index(torch.tensor([False, True, True])),
            utils.mask_select(normal(4, 3), 0, torch.tensor([True, False, True, False])),
            utils.select(normal(4, 3), torch.tensor([True, False, True, False]), 0),
            utils.narrow(normal(4, 3), 0, 1, 2),
            utils.grid(3, 2),
        ],
        "map": list(map_of_indices()),
    }


def map_of_indices():
    from torch_geometric.utils.map import map_index

    return map_index(torch.tensor([2, 0, 2, 5]), torch.tensor([0, 2, 5, 7]), inclusive=True)[:1]


@client.case
def random_graphs():
    pyg.seed_everything(0)
    edge_index = edges()
    return [
        utils.erdos_renyi_graph(12, 0.3),
        utils.erdos_renyi_graph(12, 0.3, directed=True),
        utils.stochastic_blockmodel_graph([4, 5], [[0.8, 0.1], [0.1, 0.7]]),
        utils.barabasi_albert_graph(12, 3),
        utils.negative_sampling(edge_index, NODES, 15),
        utils.negative_sampling(edge_index, NODES, 15, method="dense"),
        utils.negative_sampling(both_ways(), NODES, 12, force_undirected=True),
        utils.batched_negative_sampling(both_ways(), BATCH),
        utils.structured_negative_sampling(edge_index, NODES),
        utils.structured_negative_sampling_feasible(edge_index, NODES),
        pyg.seed_everything(3),
        torch.rand(2),
        np.random.rand(2),
    ]


@client.case
def embeddings_and_influence():
    net = fill(gnn.GCN(WIDTH, 6, 2, 3)).eval()
    x, edge_index = normal(NODES, WIDTH), edges()
    result = utils.get_embeddings(net, x, edge_index)
    data = Data(x=x, edge_index=edge_index)
    pyg.seed_everything(0)
    return [result, utils.total_influence(net, data, max_hops=2, num_samples=3)]


@client.case
def noise_and_losses():
    from torch_geometric.nn.lr_scheduler import (
        ConstantWithWarmupLR,
        CosineWithWarmupLR,
        LinearWithWarmupLR,
        PolynomialWithWarmupLR,
    )
    from torch_geometric.utils import noise_scheduler
    from torch_geometric.utils.cross_entropy import sparse_cross_entropy

    results = []
    for schedule, more in (
        (ConstantWithWarmupLR, ()),
        (LinearWithWarmupLR, (8,)),
        (CosineWithWarmupLR, (8,)),
        (PolynomialWithWarmupLR, (8,)),
    ):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = schedule(optimizer, 3, *more)
        rates = []
        for _ in range(8):
            optimizer.step()
            scheduler.step()
            rates.append(scheduler.get_last_lr()[0])
        results.append(rates)
    logits = normal(4, 6).requires_grad_()
    loss = sparse_cross_entropy(logits, torch.tensor([[0, 0, 1, 3], [1, 4, 2, 5]]))
    loss.backward()
    return [
        results,
        loss,
        logits.grad,
        noise_scheduler.get_smld_sigma_schedule(0.1, 5.0, 6),
        [
            noise_scheduler.get_diffusion_beta_schedule(kind, 0.01, 0.2, 6)
            for kind in ("linear", "quadratic", "sigmoid")
        ],
    ]


@client.case
def ranking_metrics():
    from torch_geometric.metrics import (
        LinkPredCoverage,
        LinkPredDiversity,
        LinkPredF1,
        LinkPredMAP,
        LinkPredMetricCollection,
        LinkPredMRR,
        LinkPredNDCG,
        LinkPredPrecision,
        LinkPredRecall,
    )

    collection = LinkPredMetricCollection(
        {
            kind.__name__: kind(k=3)
            for kind in (
                LinkPredPrecision,
                LinkPredRecall,
                LinkPredF1,
                LinkPredMAP,
                LinkPredNDCG,
                LinkPredMRR,
            )
        }
    )
    for seed in range(2):
        ranked = torch.stack(
            [torch.from_numpy(np.random.default_rng([seed, i]).permutation(9)) for i in range(4)]
        )
        truth = torch.stack([integers(4, 8, seed=seed).sort().values, integers(9, 8, seed=seed)])
        collection.update(ranked, truth)
    coverage = LinkPredCoverage(k=3, num_dst_nodes=9)
    coverage.update(ranked, truth)
    diverse = LinkPredDiversity(k=3, category=integers(2, 9))
    diverse.update(ranked, truth)
    return [collection.compute(), coverage.compute(), diverse.compute()]


# Explanations and trainings ---------------------------------------------------------------------------------------------------


@client.case
def explained():
    from torch_geometric.explain import (
        AttentionExplainer,
        DummyExplainer,
        Explainer,
        GNNExplainer,
        PGExplainer,
    )

    pyg.seed_everything(0)
    x, edge_index, y = normal(NODES, WIDTH), both_ways(), integers(3, NODES)
    net = fill(gnn.GCN(WIDTH, 6, 2, 3)).eval()
    settings = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    results = []
    masks = {"node_mask_type": "attributes", "edge_mask_type": "object"}
    for algorithm, kind, target, more in (
        (GNNExplainer(epochs=5), "model", None, masks),
        (GNNExplainer(epochs=3), "phenomenon", y, {"node_mask_type": "object"}),
        (DummyExplainer(), "model", None, masks),
    ):
        explainer = Explainer(
            net, algorithm, explanation_type=kind, model_config=settings, threshold_config=("topk", 8), **more
        )
        torch.manual_seed(1)
        got = explainer(x, edge_index, target=target, index=4)
        results.append([got.get("node_mask"), got.get("edge_mask"), got.get("target")])
        results.append(got.get_explanation_subgraph().edge_index)
    gat = fill(gnn.GAT(WIDTH, 6, 2, 3)).eval()
    attending = Explainer(
        gat, AttentionExplainer(), explanation_type="model", model_config=settings, edge_mask_type="object"
    )
    results.append(attending(x, edge_index).edge_mask)
    learned = Explainer(
        net,
        PGExplainer(epochs=2, lr=0.01),
        explanation_type="phenomenon",
        edge_mask_type="object",
        model_config=settings,
    )
    torch.manual_seed(2)
    for epoch in range(2):
        results.append(learned.algorithm.train(epoch, net, x, edge_index, target=y, index=5))
    results.append(learned(x, edge_index, target=y, index=5).edge_mask)
    return results


def community():
    """Two communities with features that hint at them."""
    pyg.seed_everything(0)
    edge_index = utils.stochastic_blockmodel_graph([20, 20], [[0.3, 0.03], [0.03, 0.3]])
    y = torch.arange(40) // 20
    x = normal(40, WIDTH) + y[:, None] * 0.5
    return T.RandomNodeSplit(num_val=6, num_test=12)(Data(x=x, edge_index=edge_index, y=y))


@client.case
def nodes_classified():
    """A network trained on the nodes of one graph, with dropout and weight decay, and its accuracy."""
    data = community()
    results = []
    for make in (
        lambda: gnn.GCN(WIDTH, 16, 2, 2, dropout=0.5),
        lambda: gnn.GAT(WIDTH, 8, 2, 2, heads=2, dropout=0.3),
        lambda: gnn.GraphSAGE(WIDTH, 16, 2, 2, norm="batch_norm"),
    ):
        torch.manual_seed(3)
        net = make()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.02, weight_decay=5e-4)
        losses = []
        for _ in range(12):
            net.train()
            optimizer.zero_grad()
            out = net(data.x, data.edge_index)
            loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            out = net.eval()(data.x, data.edge_index)
        results.append([losses, out])
    return results


@client.case
def graphs_classified():
    """Batches of graphs, GIN with jumping knowledge, and what a checkpoint gives again."""
    pyg.seed_everything(0)
    many = graphs(16)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = gnn.GIN(WIDTH, 12, 2, jk="cat")
            self.head = gnn.MLP([12, 12, 2], norm="batch_norm", dropout=0.3, bias=[False, True])

        def forward(self, x, edge_index, batch):
            return self.head(gnn.global_add_pool(self.body(x, edge_index), batch))

    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    losses = []
    for _ in range(3):
        for batch in DataLoader(many, batch_size=4, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(batch.x, batch.edge_index, batch.batch), batch.y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    again = Net()
    again.load_state_dict(torch.load(file))
    whole = Batch.from_data_list(many)
    return [losses, again.eval()(whole.x, whole.edge_index, whole.batch)]


@client.case
def links_predicted():
    data = community()
    torch.manual_seed(1)
    train, _, test = T.RandomLinkSplit(0.1, 0.2, is_undirected=True, add_negative_train_samples=False)(data)
    net = gnn.GAE(gnn.GCN(WIDTH, 16, 2, 8))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        z = net.encode(train.x, train.edge_index)
        loss = net.recon_loss(z, train.edge_label_index)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        z = net.encode(test.x, test.edge_index)
    return [losses, net.decode(z, test.edge_label_index), test.edge_label]


client.cause(
    "^(edge_)?index_tensor$",
    "classes see calls as programs write them (`__getitem__`, flip(0)), not ATen's operations with lists",
)
doctests(client, "torch_geometric.utils")
client.cause(
    r"^(own_layers|explained)$",
    "it leaves out its hooks of messages while a call is captured (`is_compiling()`)",
    compiled=True,
)
