"""Usual mistakes, and what an error says of each.

A line is a class, facts, and the program: `class; fact; fact :: statements`.  A fact is something that the message states: the
operation or the class that was called, the argument, what it got, what it wanted or what to do; `a|b` is either wording.
`tests/test_usual_mistakes.py` holds flambeau to them, `tools/mistakes_on_torch.py` runs the same programs under PyTorch.
What PyTorch has and flambeau has not stands under `absent`.

`t` is the library, `nn`, `F`, `D` and `W` its nn, nn.functional, distributions and utils.data; `f(*shape)` makes random numbers,
`l(*shape)` zeros in int64, `g(*shape)` numbers that want a gradient; what else programs name stands in `PRELUDE`.
"""

from __future__ import annotations

PRELUDE = """
import io, tempfile, os
nn, F, D, W = t.nn, t.nn.functional, t.distributions, t.utils.data
f = t.rand
l = lambda *shape: t.zeros(shape, dtype=t.int64)
g = lambda *shape: t.rand(shape, requires_grad=True)
net = lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

class NoSuper(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(2, 2)

class NoForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

class TwoInputs(nn.Module):
    def forward(self, x, y):
        return x + y

class Unequal(W.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return t.zeros(i + 1)

class Missing(Unequal):
    def __getitem__(self, i):
        return {}["label"]

class Stream(W.IterableDataset):
    def __iter__(self):
        return iter(range(4))

class Opaque(Unequal):
    def __getitem__(self, i):
        return object()

class Forgets(t.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y
    @staticmethod
    def backward(ctx, grad):
        return grad

def saved(value):
    file = io.BytesIO()
    t.save(value, file)
    file.seek(0)
    return file
"""

MISTAKES = r"""
# shapes
RuntimeError; matmul|mat1; 2x3; 4x5 :: f(2, 3) @ f(4, 5)
RuntimeError; linear|mat1; 2x5; 3x4 :: nn.Linear(3, 4)(f(2, 5))
RuntimeError; linear|mat1; 2x4; 5x2 :: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(5, 2))(f(2, 3))
RuntimeError; conv2d|groups; 3 channels; 4 channels; [4, 3, 3, 3]; [1, 4, 8, 8] :: nn.Conv2d(3, 4, 3)(f(1, 4, 8, 8))
RuntimeError; conv2d; 3D (unbatched) or 4D (batched); [8, 8]|2D :: nn.Conv2d(3, 4, 3)(f(8, 8))
RuntimeError; conv2d|padded; (2 x 2); (5 x 5) :: nn.Conv2d(1, 1, 5)(f(1, 1, 2, 2))
RuntimeError; size of tensor a (3); size of tensor b (4); dimension 1 :: f(2, 3) + f(2, 4)
RuntimeError; dimension 1|Expected size 2; 2; 3 :: t.cat([f(2, 3), f(3, 4)], 1)
RuntimeError; cat; number of dimensions|2 and 1|2-D :: t.cat([f(2, 3), f(3)])
RuntimeError; stack; equal size; [2]; [3]; entry 1 :: t.stack([f(2), f(3)])
ValueError; cat; non-empty list :: t.cat([])
RuntimeError; shape '[7]'; size 6 :: f(2, 3).view(7)
RuntimeError; shape '[4, -1]'; size 6 :: f(2, 3).reshape(4, -1)
RuntimeError; view; stride; reshape :: f(2, 3).T.view(6)
RuntimeError; only one dimension can be inferred|-1 :: f(2, 3).view(-1, -1)
RuntimeError; expand; (4)|size 4; (3)|size 3; dimension 1 :: f(2, 3).expand(2, 4)
RuntimeError; bmm|batch1; 3D|3-D :: t.bmm(f(2, 3), f(3, 2))
RuntimeError; bmm|batch2; [2, 4]|size [2, 4|4; 5 :: t.bmm(f(2, 3, 4), f(2, 5, 6))
RuntimeError; permute; 2; 3 :: f(2, 3, 4).permute(0, 1)
RuntimeError; permute|dims; repeated|duplicate :: f(2, 3).permute(0, 0)
IndexError; 2; range|[-2, 1] :: f(2, 3).transpose(0, 2)
IndexError; range|[-2, 1]; 3 :: f(2, 3).squeeze(3)
IndexError; range|[-2, 1]; 5 :: f(2, 3).sum(5)
RuntimeError; addmm|mat1|size of tensor a; 5; 2 :: t.addmm(f(5), f(2, 3), f(3, 2))
ValueError; target; (3; (2 :: F.cross_entropy(f(3, 5), l(2))
RuntimeError; long|int64; float :: F.cross_entropy(f(3, 5), f(3))
IndexError; target; 5; out of bounds :: F.cross_entropy(f(3, 5), l(3) + 5)
ValueError; target; [2]|(2,); input; [2, 1]|(2, 1) :: F.binary_cross_entropy(f(2, 1), f(2))
ValueError; more than 1 value per channel; [1, 3] :: nn.BatchNorm1d(3)(f(1, 3))
ValueError; 2D or 3D; 4D :: nn.BatchNorm1d(3)(f(1, 3, 2, 2))
RuntimeError; layer_norm|normalized_shape; [4]; [2, 3] :: nn.LayerNorm(4)(f(2, 3))
IndexError; index; out of range|out of bounds :: nn.Embedding(3, 4)(t.tensor([5]))
RuntimeError; input.size(-1)|input_size; 3; 7 :: nn.LSTM(3, 4)(f(2, 5, 7))
RuntimeError; hidden; (1, 5, 4)|[1, 5, 4]; [1, 9, 4] :: nn.GRU(3, 4)(f(2, 5, 3), f(1, 9, 4))
AssertionError; embed; 4; 5 :: nn.MultiheadAttention(4, 2)(f(3, 5), f(3, 5), f(3, 5))
AssertionError; embed_dim; num_heads; divisible :: nn.MultiheadAttention(5, 2)
RuntimeError; einsum; subscript j; size 4; size 3 :: t.einsum("ij,jk->ik", f(2, 3), f(4, 5))
RuntimeError; output subscript|output; k :: t.einsum("ij->ik", f(2, 3))
RuntimeError; operand|number of subscripts|dimensions; 2; 1 :: t.einsum("i,j->ij", f(2, 3), f(4))
ValueError; spatial; [4, 4]; [1, 2, 3] :: F.interpolate(f(1, 1, 4, 4), size=(1, 2, 3))
ValueError; size; scale_factor :: F.interpolate(f(1, 1, 4, 4))
RuntimeError; padding|pad; even|divisible by 2|odd; 3 :: F.pad(f(2, 3), (1, 2, 3))
RuntimeError; padding|pad; 5; 4 :: F.pad(f(1, 1, 4), (5, 5), mode="reflect")
RuntimeError; pool; too small; (1x2x2)|(2, 2) :: F.max_pool2d(f(1, 1, 2, 2), 3)
RuntimeError; pad; half; kernel; 2 :: F.max_pool2d(f(1, 1, 4, 4), 2, padding=2)
RuntimeError; upscale; 4; channel; 3 :: nn.PixelShuffle(2)(f(1, 3, 2, 2))
RuntimeError; split; sum; 5; [2, 2] :: f(5).split([2, 2])
RuntimeError; 2; square|batches of square matrices :: t.linalg.inv(f(2, 3))
RuntimeError; dot; 1D; 2D :: t.dot(f(2, 2), f(2))

# dtypes
RuntimeError; mat1|linear; long|int64; float|float32 :: nn.Linear(3, 4)(l(2, 3))
RuntimeError; double|float64; float|float32 :: nn.Linear(3, 4)(f(2, 3).double())
RuntimeError; mean; float; long|int64 :: l(3).mean()
RuntimeError; subtract; bool; logical_not|^|logical_xor :: t.tensor([True]) - t.tensor([False])
RuntimeError; floating; require :: t.tensor([1, 2], requires_grad=True)
RuntimeError; result type float|float32; long|int64 :: x = l(3); x += 0.5
RuntimeError; embedding|indices; long|int64; float :: nn.Embedding(3, 4)(f(2))
IndexError; indices; long|int64; bool :: f(3)[f(2)]
NotImplementedError; bitwise_and; float|float32 :: f(2) & f(2)
RuntimeError; softmax; long|int64|integer :: l(3).softmax(0)
TypeError; zeros; dtype; str; float32 :: t.zeros(3, dtype="float32")
RuntimeError; float|float32; long|int64|integer :: l(3).normal_()
RuntimeError; gather; int64; index :: f(3).gather(0, f(1))
TypeError; numpy.str_|str :: t.from_numpy(__import__("numpy").array(["a"]))
ValueError; str :: t.tensor(["a", "b"])
ValueError; dim 1; 2; 1 :: t.tensor([[1, 2], [3]])

# devices
RuntimeError; device; gpu; cpu, cuda :: f(2).to("gpu")
RuntimeError; device; cuda0; cuda:0 :: t.device("cuda0")
RuntimeError; device; -1|invalid|negative :: t.device("cuda:-1")

# autograd
RuntimeError; second time; retain_graph=True :: x = g(3); y = x.exp().sum(); y.backward(); y.backward()
RuntimeError; scalar; grad :: (g(3) * 2).backward()
RuntimeError; element 0; require grad; grad_fn :: f(3).sum().backward()
RuntimeError; leaf; in-place :: g(3).add_(1)
RuntimeError; inplace; [3]; version 1; expected version 0; anomaly :: y = g(3) * 2; z = y * y; y.add_(1); z.sum().backward()
RuntimeError; numpy; requires grad; detach() :: g(3).numpy()
RuntimeError; not have been used; allow_unused=True :: x = g(3); t.autograd.grad(x.sum(), g(2))
RuntimeError; does not require grad :: x = g(3); t.autograd.grad(x.sum(), f(2))
RuntimeError; grad_output; [2]|(2,); [3]|(3,) :: x = g(3); (x * 2).backward(f(2))
RuntimeError; Forgets; gradients; expected 2; got 1 :: Forgets.apply(g(2), g(2)).sum().backward()
RuntimeError; floating :: l(3).requires_grad_()
RuntimeError; leaf; requires_grad; detach() :: x = g(3) * 2; x.requires_grad = False
RuntimeError; deepcopy; leaf|created explicitly by the user :: import copy; copy.deepcopy(g(3) * 2)
RuntimeError; Inference tensors; clone :: x = f(3)\nwith t.inference_mode(): y = x * 2\n(g(3) * y).sum()
TypeError; grad; Tensor :: x = g(3); x.grad = 1.0
RuntimeError; grad; [2]; [3] :: x = g(3); x.grad = f(2)

# modules
AttributeError; Module.__init__() :: NoSuper()
NotImplementedError; NoForward; forward :: NoForward()(f(2))
TypeError; y :: TwoInputs()(f(2))
TypeError; forward; 2; 3 :: nn.Linear(2, 2)(f(2), f(2))
TypeError; Linear; 'biass'; 'bias' :: nn.Linear(3, 4, biass=False)
TypeError; Linear; out_features :: nn.Linear(3)
TypeError; Conv2d; kernel_size :: nn.Conv2d(3, 4)
TypeError; Conv2d; 'kernel'; 'kernel_size' :: nn.Conv2d(3, 4, kernel=3)
TypeError; weight; Parameter; Tensor :: m = nn.Linear(2, 2); m.weight = f(2, 2)
AttributeError; Linear; wieght :: nn.Linear(2, 2).wieght
RuntimeError; state_dict; Linear; Missing key(s); bias :: nn.Linear(3, 4).load_state_dict({"weight": f(4, 3)})
RuntimeError; state_dict; Unexpected key(s); extra :: nn.Linear(3, 4).load_state_dict({**nn.Linear(3, 4).state_dict(), "extra": f(1)})
RuntimeError; state_dict; size mismatch; weight; [5, 3]; [4, 3] :: nn.Linear(3, 4).load_state_dict(nn.Linear(3, 5).state_dict())
TypeError; state_dict|state dict; dict; list :: nn.Linear(3, 4).load_state_dict([1])
TypeError; Module; list|function|int :: nn.Sequential(nn.Linear(2, 2), 3)
ValueError; groups; in_channels; divisible :: nn.Conv2d(3, 4, 3, groups=2)
ValueError; probability; 0; 1; 1.5 :: nn.Dropout(1.5)
ValueError; training mode; bool :: net().train("yes")
ValueError; reduction|is not a valid value; average :: nn.CrossEntropyLoss(reduction="average")(f(2, 3), l(2))
IndexError; index 3; range :: net()[3]

# optimisers
ValueError; empty :: t.optim.SGD([], lr=0.1)
ValueError; empty :: p = net().parameters(); t.optim.SGD(p, lr=0.1); t.optim.Adam(p)
TypeError; params; iterable; Tensor :: t.optim.SGD(g(3), lr=0.1)
TypeError; optimize Tensors|Tensor; float :: t.optim.SGD([1.0], lr=0.1)
ValueError; learning rate; -0.1 :: t.optim.SGD([g(3)], lr=-0.1)
ValueError; beta; 1.5 :: t.optim.Adam([g(3)], betas=(1.5, 0.9))
TypeError; Adam; learning_rate; 'lr' :: t.optim.Adam([g(3)], learning_rate=0.1)
ValueError; leaf :: t.optim.SGD([g(3) * 2], lr=0.1)
ValueError; more than one parameter group :: p = g(3); o = t.optim.SGD([p], lr=0.1); o.add_param_group({"params": [p]})
TypeError; Optimizer; int|Linear :: t.optim.lr_scheduler.StepLR(nn.Linear(2, 2), 1)
ValueError; size|parameters; group :: t.optim.SGD([g(3)], lr=0.1).load_state_dict(t.optim.SGD([g(3), g(2)], lr=0.1).state_dict())

# data loading
TypeError; len :: len(W.DataLoader(Stream(), batch_size=2)); len(W.DataLoader(W.Dataset()))
RuntimeError; stack|collate; equal size; [1]; [2] :: list(W.DataLoader(Unequal(), batch_size=2))
KeyError; label :: list(W.DataLoader(Missing(), batch_size=2))
KeyError; label; worker; 0 :: list(W.DataLoader(Missing(), batch_size=2, num_workers=1, multiprocessing_context="fork"))
TypeError; collate; object :: list(W.DataLoader(Opaque(), batch_size=2))
ValueError; batch_size; positive; -1 :: W.DataLoader([1, 2], batch_size=-1)
ValueError; sampler; shuffle; mutually exclusive|exclude :: W.DataLoader([1, 2], sampler=W.SequentialSampler([1, 2]), shuffle=True)
ValueError; IterableDataset; shuffle :: W.DataLoader(Stream(), shuffle=True)
ValueError; num_workers; negative :: W.DataLoader([1, 2], num_workers=-1)
ValueError; sum; lengths; dataset :: W.random_split(range(5), [3, 3])
AssertionError; size mismatch|Size mismatch :: W.TensorDataset(f(3), f(4))

# files
FileNotFoundError; nowhere.pt :: t.load("/tmp/nowhere.pt")
UnpicklingError; weights_only :: t.load(saved(net()))
UnpicklingError; load; byte 0|operand 110 :: t.load(io.BytesIO(b"not a file of tensors"))
RuntimeError; map_location|device; cuda|gpu :: t.load(saved(f(2)), map_location="gpu")

# scalars and indices
RuntimeError; 2 elements; scalar :: f(2).item()
RuntimeError; bool; ambiguous|more than one value :: bool(f(2))
TypeError; 0-d :: len(t.tensor(1.0))
TypeError; 0-d :: list(t.tensor(1.0))
ValueError; one element; scalar :: float(f(2))
TypeError; integer|index :: range(3)[f(1)]
IndexError; index 5; dimension 0; size 3 :: f(3)[5]
IndexError; too many indices; dimension 2|2; 3 :: f(3, 4)[1, 2, 3]
IndexError; 0-dim :: t.tensor(1.0)[0]
RuntimeError; expand|broadcast; [4]; [3] :: x = f(2, 3); x[0] = f(4)
IndexError; mask; [2]; [3] :: f(3)[t.tensor([True, False])]
RuntimeError; index 3|3; bounds; size 2|2 :: f(2, 3).gather(0, l(1, 3) + 3)
RuntimeError; topk|k; range :: f(3).topk(5)
RuntimeError; upper bound|bound; sign|inconsistent :: t.arange(5, 1, 1)

# spellings
AttributeError; sofmax :: t.sofmax(f(3), 0)
AttributeError; rellu :: F.rellu(f(3))
AttributeError; Liner :: nn.Liner(2, 2)
AttributeError; Adm :: t.optim.Adm([g(3)])
AttributeError; Tensor; sofmax :: f(3).sofmax(0)
TypeError; sum; dims; 'dim' :: f(3).sum(dims=0)
TypeError; ones; required|size|arguments :: t.ones()
RuntimeError; clamp; 'min'; 'max' :: f(3).clamp()
TypeError; str|add :: f(3) + "a"
TypeError; cat; tensors; Tensor :: t.cat(f(2), f(2))
TypeError; sin; input; list :: t.sin([1.0])

# numbers at random
TypeError; generator; int :: t.randn(2, generator=3)
RuntimeError; probability|multinomial; inf|nan|< 0 :: t.multinomial(t.tensor([-1.0, 2.0]), 1)
RuntimeError; multinomial|num_samples; replacement :: t.multinomial(f(2), 3)
RuntimeError; p; 0; 1; 2 :: t.empty(2).bernoulli_(2.0)
RuntimeError; from; to :: t.randint(5, 5, (2,))
RuntimeError; std|normal; -1 :: t.normal(0.0, -1.0, (2,))
ValueError; scale; Normal; -1 :: D.Normal(0.0, -1.0)
ValueError; probs; Bernoulli; 1.5 :: D.Bernoulli(1.5)
ValueError; probs; logits :: D.Categorical()
ValueError; value; Normal|support|Beta :: D.Beta(1.0, 1.0).log_prob(t.tensor(2.0))
NotImplementedError; KL|kl; Normal; Poisson :: D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0))

# absent
NotImplementedError; zeros; qint8; quantize_per_tensor :: t.zeros(2, dtype=t.qint8)
AttributeError; ao.quantization.convert_fx; graph mode; docs/coverage.md :: t.ao.quantization.convert_fx(net())
AttributeError; jit.save; jit.trace; Sequential; trace it first :: t.jit.save(net(), "net.pt")
RuntimeError; Freezing; Module; script :: t.jit.freeze(net())
ValueError; compile; backend; inductr; 'inductor' :: t.compile(net(), backend="inductr")
ValueError; process group; init_process_group; not been initialized :: nn.parallel.DistributedDataParallel(net())
NotImplementedError; _C.Graph; compiled module; docs/coverage.md :: t._C.Graph()
"""


def mistakes() -> list[tuple[str, str, list[str], str]]:
    """(subject, class, facts, program) of each."""
    found, subject = [], ""
    for line in MISTAKES.strip().splitlines():
        if line.startswith("# "):
            subject = line[2:]
        elif line:
            head, _, program = line.partition(" :: ")
            error, *facts = [part.strip() for part in head.split(";")]
            found.append((subject, error, [fact for fact in facts if fact], program.replace("\\n", "\n")))
    return found


def states(message: str, fact: str) -> bool:
    """Whether a message states a fact, in one of its wordings."""
    return any(wording.lower() in message.lower() for wording in fact.split("|"))
