"""torchdiffeq: every solver, gradients through the steps and by the adjoint equation, events, dense output, a neural ODE in training."""

import torch
import torchdiffeq
from harness import Client, fill, normal
from torchdiffeq import odeint, odeint_adjoint, odeint_dense, odeint_event

client = Client("torchdiffeq", samples=6)

ADAPTIVE = ("dopri8", "dopri5", "bosh3", "fehlberg2", "adaptive_heun")
FIXED = ("euler", "midpoint", "heun2", "heun3", "rk4", "explicit_adams", "implicit_adams")


class Field(torch.nn.Module):
    """A small network as a vector field that also depends on time."""

    def __init__(self, size=3, dtype=torch.float64):
        super().__init__()
        layers = torch.nn.Linear(size + 1, 8), torch.nn.Tanh(), torch.nn.Linear(8, size)
        self.network = fill(torch.nn.Sequential(*layers)).to(dtype)

    def forward(self, t, y):
        return self.network(torch.cat([y, t.expand(*y.shape[:-1], 1)], -1))


def solved(method, solve=odeint, dtype=torch.float64, **options):
    """A solution at five times and its gradients to the field's weights, the start and the times."""
    field = Field(dtype=dtype)
    y = normal(2, 3).to(dtype).requires_grad_()
    t = torch.linspace(0.0, 1.0, 5, dtype=dtype).requires_grad_()
    if method in ADAPTIVE:
        options = {"rtol": 1e-6, "atol": 1e-7, **options}
    result = solve(field, y, t, method=method, **options)
    result.square().sum().backward()
    return [result, y.grad, t.grad, [p.grad for p in field.parameters()]]


for method in ADAPTIVE + FIXED:
    client.case(lambda method=method: solved(method), name=f"solver {method}")
    client.case(lambda method=method: solved(method, odeint_adjoint), name=f"adjoint {method}")


@client.case
def single_precision():
    options = {"rtol": 1e-4, "atol": 1e-5, "dtype": torch.float32}
    return [
        solved("dopri5", **options),
        solved("dopri8", odeint_adjoint, **options),
        solved("rk4", dtype=torch.float32),
        solved("implicit_adams", odeint_adjoint, dtype=torch.float32),
    ]


@client.case
def options():
    """Step sizes, grids, interpolation, norms, jumps in the field, seminorms and methods of the adjoint equation."""
    return [
        solved("rk4", options={"step_size": 0.1}),
        solved("rk4", options={"step_size": 0.15, "interp": "cubic"}),
        solved("rk4", options={"step_size": 0.15, "perturb": True}),
        solved("euler", options={"grid_constructor": lambda f, y, t: torch.linspace(0, 1, 9, dtype=t.dtype)}),
        solved("dopri5", options={"first_step": 0.01, "max_num_steps": 1000, "safety": 0.8}),
        solved("dopri5", options={"norm": lambda y: y.abs().max()}),
        solved("dopri5", options={"step_t": torch.tensor([0.33, 0.61], dtype=torch.float64)}),
        solved("dopri5", options={"jump_t": torch.tensor([0.5], dtype=torch.float64)}),
        solved("dopri5", options={"min_step": 0.05, "max_step": 0.1}),
        solved("explicit_adams", options={"max_order": 3, "step_size": 0.05}),
        solved("dopri5", odeint_adjoint, adjoint_options={"norm": "seminorm"}),
        solved("dopri5", odeint_adjoint, adjoint_method="rk4", adjoint_options={"step_size": 0.05}),
        by_scipy(),
    ]


def by_scipy():
    with torch.no_grad():
        t = torch.linspace(0.0, 1.0, 5, dtype=torch.float64)
        options = {"solver": "RK45"}
        return odeint(Field(), normal(2, 3).double(), t, method="scipy_solver", options=options, rtol=1e-6)


@client.case
def tuples_complex_numbers_and_time_backwards():
    field = Field()
    t = torch.linspace(1.0, 0.0, 4, dtype=torch.float64)
    start = normal(2, 3).double().requires_grad_(), normal(2, 1).double().requires_grad_()

    def both(t, state):
        y, length = state
        moved = field(t, y)
        return moved, (moved * y).sum(-1, keepdim=True) - length

    ends = [odeint(both, start, t), odeint_adjoint(both, start, t, adjoint_params=tuple(field.parameters()))]
    loss = sum(part.square().sum() for end in ends for part in end)
    gradients = torch.autograd.grad(loss, [*start, *field.parameters()])
    turning = torch.tensor([[1j, 0.3], [-0.3, -0.5j]], dtype=torch.complex128)
    wave = odeint(lambda t, z: turning @ z, torch.tensor([1.0, 1j], dtype=torch.complex128), 1 - t)
    return [ends, gradients, wave]


@client.case
def second_derivatives():
    """Through the steps of a solver: the Hessian of the end by the start, and a Jacobian-vector product."""
    field = Field()
    t = torch.tensor([0.0, 0.5], dtype=torch.float64)

    def end(y):
        return odeint(field, y, t, method="rk4", options={"step_size": 0.1})[-1].square().sum()

    y = normal(3).double()
    return [
        torch.autograd.functional.hessian(end, y),
        torch.func.jacrev(end)(y),
        torch.func.jacfwd(end)(y),
    ]


@client.case
def falling_ball():
    """An event ends the integration; its time has a gradient to the start and to gravity."""
    gravity = torch.tensor([9.8], dtype=torch.float64, requires_grad=True)
    start = tuple(torch.tensor([x], dtype=torch.float64, requires_grad=True) for x in (10.0, 0.5))
    zero = torch.tensor([0.0], dtype=torch.float64)

    def fall(t, state):
        return state[1], -gravity.expand_as(state[1])

    answers = []
    for solve in (odeint, odeint_adjoint):
        options = {"adjoint_params": (gravity,)} if solve is odeint_adjoint else {}
        hit, ends = odeint_event(
            fall,
            start,
            zero,
            event_fn=lambda t, s: s[0],
            odeint_interface=solve,
            rtol=1e-8,
            atol=1e-8,
            **options,
        )
        answers += [hit, [end[-1] for end in ends], torch.autograd.grad(hit.sum(), [*start, gravity])]
    return answers


@client.case
def dense_output():
    field = Field()
    with torch.no_grad():
        curve = odeint_dense(
            field, normal(3).double(), torch.tensor(0.0).double(), torch.tensor(1.0).double()
        )
        return torch.stack([curve(torch.tensor(t, dtype=torch.float64)) for t in (0.1, 0.35, 0.8)])


@client.case
def callbacks_and_errors():
    """The hooks of each step are called as often, and wrong arguments are refused with the same words."""

    class Watched(Field):
        steps = accepted = backward = 0

        def callback_step(self, t0, y0, dt):
            self.steps += 1

        def callback_accept_step(self, t0, y0, dt):
            self.accepted += 1

        def callback_step_adjoint(self, t0, y0, dt):
            self.backward += 1

    field, t = Watched(), torch.linspace(0.0, 1.0, 3, dtype=torch.float64)
    odeint_adjoint(field, normal(2, 3).double(), t, rtol=1e-6, atol=1e-6).sum().backward()
    said = []
    for wrong in (
        lambda: odeint(field, normal(2, 3).double(), t, method="runge"),
        lambda: odeint(field, normal(2, 3).double(), torch.tensor([0.0, 1.0, 0.5])),
        lambda: odeint(field, normal(2, 3).double(), torch.zeros(2, 2)),
        lambda: odeint_adjoint(lambda t, y: y, normal(2, 3), t),
        lambda: odeint(field, 1.0, t),
    ):
        try:
            wrong()
            said.append("nothing")
        except Exception as error:  # whatever it is, it is the same in both
            said.append(f"{type(error).__name__}: {error}".splitlines()[0].replace("flambeau", "torch"))
    return [field.steps, field.accepted, field.backward, said]


@client.case
def neural_ode_in_training():
    """A spiral is learnt by Adam through the adjoint equation, as in the library's demonstration."""
    with torch.no_grad():
        turning = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
        t = torch.linspace(0.0, 2.0, 20)
        true = odeint(lambda t, y: y**3 @ turning, torch.tensor([[2.0, 0.0]]), t)

    class Cubic(torch.nn.Module):
        def __init__(self):
            super().__init__()
            layers = torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
            self.network = fill(torch.nn.Sequential(*layers))

        def forward(self, t, y):
            return self.network(y**3)

    field, losses = Cubic(), []
    optimizer = torch.optim.Adam(field.parameters(), lr=1e-2)
    for _ in range(6):
        optimizer.zero_grad()
        result = odeint_adjoint(field, true[0], t, rtol=1e-5, atol=1e-6)
        loss = (result - true).abs().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, result, torchdiffeq.__version__]
