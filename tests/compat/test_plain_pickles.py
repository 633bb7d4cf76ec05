"""Plain pickles while the library is shown as torch: they name what PyTorch's name, and PyTorch's are read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import flambeau
from flambeau._compat import as_torch

# Of PyTorch 2.13: pickle.dumps(x.T, 2) with x = torch.arange(6.).reshape(2, 3), and pickle.dumps(nn.Linear(1, 1, bias=False), 2)
# with the weight 2.5.
VIEW = (
    "800263746f7263682e5f7574696c730a5f72656275696c645f74656e736f725f76320a71002863746f7263682e73746f726167650a5f6c6f61645f66726f6d5f"
    "62797465730a7101635f636f646563730a656e636f64650a71025823010000c28002c28a0a6cc3bcc29c46c3b9206ac2a850192ec280024dc3a9032ec280027d"
    "710028581000000070726f746f636f6c5f76657273696f6e71014dc3a903580d0000006c6974746c655f656e6469616e7102c288580a000000747970655f7369"
    "7a657371037d710428580500000073686f727471054b025803000000696e7471064b0458040000006c6f6e6771074b0475752ec2800228580700000073746f72"
    "616765710063746f7263680a466c6f617453746f726167650a7101580e00000039343234383731323133353832347102580300000063707571034b064e747104"
    "512ec280025d7100580e00000039343234383731323133353832347101612e0600000000000000000000000000c2803f00000040000040400000c280400000c2"
    "a040710358060000006c6174696e3171048671055271068571075271084b004b034b028671094b014b0386710a8963636f6c6c656374696f6e730a4f72646572"
    "6564446963740a710b2952710c74710d52710e2e"
)
LAYER = (
    "800263746f7263682e6e6e2e6d6f64756c65732e6c696e6561720a4c696e6561720a7100298171017d7102285808000000747261696e696e67710388580b0000"
    "005f706172616d657465727371047d7105285806000000776569676874710663746f7263682e5f7574696c730a5f72656275696c645f706172616d657465720a"
    "710763746f7263682e5f7574696c730a5f72656275696c645f74656e736f725f76320a71082863746f7263682e73746f726167650a5f6c6f61645f66726f6d5f"
    "62797465730a7109635f636f646563730a656e636f64650a710a580c010000c28002c28a0a6cc3bcc29c46c3b9206ac2a850192ec280024dc3a9032ec280027d"
    "710028581000000070726f746f636f6c5f76657273696f6e71014dc3a903580d0000006c6974746c655f656e6469616e7102c288580a000000747970655f7369"
    "7a657371037d710428580500000073686f727471054b025803000000696e7471064b0458040000006c6f6e6771074b0475752ec2800228580700000073746f72"
    "616765710063746f7263680a466c6f617453746f726167650a7101580e00000039343234383632363031343439367102580300000063707571034b014e747104"
    "512ec280025d7100580e00000039343234383632363031343439367101612e010000000000000000002040710b58060000006c6174696e31710c86710d52710e"
    "85710f5271104b004b014b018671114b014b018671128963636f6c6c656374696f6e730a4f726465726564446963740a71132952711474711552711688681329"
    "527117877118527119580400000062696173711a4e7558080000005f62756666657273711b7d711c581b0000005f6e6f6e5f70657273697374656e745f627566"
    "666572735f736574711d635f5f6275696c74696e5f5f0a7365740a711e5d711f85712052712158130000005f6261636b776172645f7072655f686f6f6b737122"
    "681329527123580f0000005f6261636b776172645f686f6f6b73712468132952712558160000005f69735f66756c6c5f6261636b776172645f686f6f6b71264e"
    "580e0000005f666f72776172645f686f6f6b737127681329527128581a0000005f666f72776172645f686f6f6b735f776974685f6b7761726773712968132952"
    "712a581c0000005f666f72776172645f686f6f6b735f616c776179735f63616c6c6564712b68132952712c58120000005f666f72776172645f7072655f686f6f"
    "6b73712d68132952712e581e0000005f666f72776172645f7072655f686f6f6b735f776974685f6b7761726773712f68132952713058110000005f7374617465"
    "5f646963745f686f6f6b73713168132952713258150000005f73746174655f646963745f7072655f686f6f6b737133681329527134581a0000005f6c6f61645f"
    "73746174655f646963745f7072655f686f6f6b737135681329527136581b0000005f6c6f61645f73746174655f646963745f706f73745f686f6f6b7371376813"
    "2952713858080000005f6d6f64756c657371397d713a580b000000696e5f6665617475726573713b4b01580c0000006f75745f6665617475726573713c4b0175"
    "622e"
)

PROGRAM = """
import copy, io, pickle, pickletools, sys
import torch
from torch import nn

def again(x, protocol=2):
    return pickle.loads(pickle.dumps(x, protocol))

def named(x):
    found, texts = set(), []
    for code, argument, _ in pickletools.genops(pickle.dumps(x, 2)):
        if code.name == "GLOBAL":
            found.add(argument)
    return found

for protocol in range(6):
    for name in "bool uint8 uint16 int64 float16 bfloat16 float32 float64 complex64 float8_e4m3fn".split():
        x = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, name))
        for t in (x, x.T, x[:, 1:], x[0, 0], x[:0]):
            y = again(t, protocol)
            assert y.dtype == t.dtype and y.stride() == t.stride() and y.double().tolist() == t.double().tolist(), (name, t)
            assert not t.numel() or y.data_ptr() != t.data_ptr()

x = torch.ones(2, 3, requires_grad=True)
assert again(x).requires_grad and again(x) is not x
both = again([x, x])
assert both[0] is both[1]
x.label = "mine"
assert again(x).label == "mine" and again(x).tolist() == x.tolist()
result = again(x * 2)  # which is a leaf
assert result.is_leaf and result.requires_grad == (x * 2).requires_grad and result.tolist() == (x * 2).tolist()
p = nn.Parameter(torch.ones(3), requires_grad=False)
p.tag = 7
q = again(p)
assert type(q) is nn.Parameter and not q.requires_grad and q.tag == 7
meta = again(torch.empty(3, 2, device="meta"))
assert meta.is_meta and meta.shape == (3, 2) and again(meta.untyped_storage()).nbytes() == 24
assert again(torch.FloatStorage([1, 2])).tolist() == [1.0, 2.0] and bytes(again(torch.UntypedStorage([1, 2]))) == b"\\x01\\x02"
net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
same = copy.deepcopy(again(net))
assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), same.state_dict().values()))

assert {name for name in named(torch.ones(2)) if name.startswith("torch")} == {
    "torch._utils _rebuild_tensor_v2", "torch.storage _load_from_bytes",
}
assert {name for name in named(net) if name.startswith("torch")} == {
    "torch._utils _rebuild_parameter", "torch._utils _rebuild_tensor_v2", "torch.storage _load_from_bytes",
    "torch.nn.modules.container Sequential", "torch.nn.modules.linear Linear", "torch.nn.modules.batchnorm BatchNorm1d",
}, named(net)

view, layer = (pickle.loads(bytes.fromhex(text)) for text in sys.argv[1:])
assert view.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]] and view.stride() == (1, 3)
assert type(layer) is nn.Linear and layer(torch.ones(1, 1)).item() == 2.5 and layer.weight.requires_grad

file = io.BytesIO()  # files are as they were
torch.save([net.state_dict(), torch.ones(2).T], file)
file.seek(0)
assert torch.load(file)[1].tolist() == [1.0, 1.0]
"""


def test_under_the_other_name():
    path = os.pathsep.join([str(as_torch.SHIM), str(Path(flambeau.__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, VIEW, LAYER],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
