"""Samplers of other packages, driven by JSON lines on standard input.

`python3 -c ... --list` prints the names of the samplers whose packages can be imported, one per line. `python3 -c ... NAME` reads a line
with the study (`seed`, `noisy`, `space`), followed by two kinds of lines: `{"point": {..}, "value": ..}` is an observation, to be
minimized, and `{"ask": true}` requests a line with the next point.
"""

import importlib.util
import json
import math
import os
import sys
import warnings

warnings.simplefilter("ignore")  # one line per process would bury the errors
for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[threads] = "1"

PACKAGES = {
    "optuna-tpe": ["optuna"],
    "optuna-cma": ["optuna", "cmaes"],
    "optuna-gp": ["optuna", "torch", "scipy"],
    "botorch-log-ei": ["botorch"],
    "botorch-turbo": ["botorch"],
}


class OptunaPeer:
    """An Optuna sampler with its defaults. The initial design is added to its study as completed trials."""

    def __init__(self, name, setting):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.optuna, self.name, self.setting = optuna, name, setting
        self.space = {each["name"]: self.distribution(each) for each in setting["space"]}
        self.study = self.asked = None
        self.told = []

    def distribution(self, spec):
        known = self.optuna.distributions
        if spec["type"] == "categorical":
            return known.CategoricalDistribution(spec["choices"])
        of_type = {"int": known.IntDistribution, "float": known.FloatDistribution}[spec["type"]]
        number = {"int": int, "float": float}[spec["type"]]
        return of_type(number(spec["low"]), number(spec["high"]), log=bool(spec.get("log")))

    def sampler(self):
        samplers, seed = self.optuna.samplers, self.setting["seed"]
        if self.name == "optuna-tpe":
            return samplers.TPESampler(seed=seed, n_startup_trials=2)
        if self.name == "optuna-gp":
            noisy = self.setting["noisy"]
            return samplers.GPSampler(seed=seed, n_startup_trials=2, deterministic_objective=not noisy)
        numbers = (self.optuna.distributions.IntDistribution, self.optuna.distributions.FloatDistribution)
        best = min(self.told, key=lambda each: each[1])[0]
        x0 = {name: best[name] for name, kind in self.space.items() if isinstance(kind, numbers)}
        return samplers.CmaEsSampler(x0=x0, seed=seed, n_startup_trials=1, warn_independent_sampling=False)

    def is_asked(self, point):
        """Return true if this is the last proposed point. Floats lose their last digits in the conversion through the unit cube."""
        if self.asked is None:
            return False
        near = lambda a, b: a == b if isinstance(b, str) else math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)  # noqa: E731
        return all(near(point[name], value) for name, value in self.asked.params.items())

    def tell(self, point, value):
        if self.is_asked(point):
            self.study.tell(self.asked, value)
        elif self.study is not None:
            # The proposed point was already a trial, so a random point replaced it.
            if self.asked is not None:
                self.study.tell(self.asked, state=self.optuna.trial.TrialState.FAIL)
            self.study.add_trial(self.trial(point, value))
        self.told.append((point, value))
        self.asked = None

    def trial(self, point, value):
        return self.optuna.trial.create_trial(params=point, distributions=self.space, value=value)

    def ask(self):
        if self.study is None:
            self.study = self.optuna.create_study(sampler=self.sampler())
            self.study.add_trials([self.trial(*each) for each in self.told])
        self.asked = self.study.ask(self.space)
        return self.asked.params


class BoTorchPeer:
    """BoTorch's `SingleTaskGP` with its defaults, and log expected improvement (the noisy variant if values have noise)."""

    def __init__(self, setting):
        import torch

        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(setting["seed"])
        self.torch, self.setting = torch, setting
        self.inputs, self.values = [], []

    def encoded(self, point):
        """Return a point in the unit cube: numbers on their scale, and one coordinate per choice."""
        unit = []
        for spec in self.setting["space"]:
            value = point[spec["name"]]
            if spec["type"] == "categorical":
                unit += [float(value == choice) for choice in spec["choices"]]
            else:
                scale = math.log if spec.get("log") else float
                low, high = scale(spec["low"]), scale(spec["high"])
                unit.append((scale(value) - low) / (high - low))
        return unit

    def decoded(self, unit):
        """Return the point nearest to the given coordinates of the unit cube."""
        point, rest = {}, list(unit)
        for spec in self.setting["space"]:
            if spec["type"] == "categorical":
                scores, rest = rest[: len(spec["choices"])], rest[len(spec["choices"]) :]
                point[spec["name"]] = spec["choices"][scores.index(max(scores))]
                continue
            share, rest = rest[0], rest[1:]
            scale = math.log if spec.get("log") else float
            low, high = scale(spec["low"]), scale(spec["high"])
            value = low + share * (high - low)
            value = math.exp(value) if spec.get("log") else value
            value = min(max(value, spec["low"]), spec["high"])
            point[spec["name"]] = round(value) if spec["type"] == "int" else value
        return point

    def tell(self, point, value):
        self.inputs.append(self.encoded(point))
        self.values.append([-value])

    def ask(self):
        from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        inputs, values = self.torch.tensor(self.inputs), self.torch.tensor(self.values)
        model = SingleTaskGP(inputs, values)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        if self.setting["noisy"]:
            acquisition = qLogNoisyExpectedImprovement(model, inputs)
        else:
            acquisition = LogExpectedImprovement(model, best_f=values.max())
        bounds = self.torch.tensor([[0.0], [1.0]]).repeat(1, inputs.shape[1])
        best, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=5, raw_samples=256)
        return self.decoded(best.detach().flatten().tolist())


class TurboPeer(BoTorchPeer):
    """TuRBO-1 (Eriksson et al. 2019, "Scalable global optimization via local Bayesian optimization"), one point at a time.

    It draws joint Thompson samples within one trust region. The region doubles after three successes and halves after max(4, d)
    consecutive failures, as in the authors' program. Below its minimum length it restarts with 2d points. Its centre is the point with the
    best value, or with the best posterior mean if there is noise. Length scales are bounded as in BoTorch's tutorial, and the other
    hyperparameters as in the authors' program, but more tightly without noise.
    """

    FIRST, SHORTEST, LONGEST, SUCCESSES = 0.8, 0.5**7, 1.6, 3

    def __init__(self, setting):
        super().__init__(setting)
        self.begun, self.length, self.n_better, self.n_worse = 0, self.FIRST, 0, 0
        self.n_asked, self.design, self.answer = 0, [], None

    def tell(self, point, value):
        """Count successes and failures of the trust region's proposals. A random point that replaced one carries no information about it."""
        best = max((each[0] for each in self.values[self.begun :]), default=None)
        super().tell(point, value)
        answer, self.answer = self.answer, None
        near = lambda a, b: math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)  # noqa: E731
        if answer is None or best is None or not all(map(near, answer, self.inputs[-1])):
            return
        # A success is an improvement by a thousandth of the best value's magnitude, as in the
        # authors' program.
        better = -value > best + 1e-3 * abs(best)
        self.n_better, self.n_worse = (self.n_better + 1, 0) if better else (0, self.n_worse + 1)
        if self.n_better == self.SUCCESSES:
            self.length, self.n_better = min(2 * self.length, self.LONGEST), 0
        elif self.n_worse >= max(4, len(self.inputs[0])):
            self.length, self.n_worse = self.length / 2, 0
        if self.length < self.SHORTEST:
            self.begun, self.length, self.n_better = len(self.values), self.FIRST, 0
            self.design = self.sobol(2 * len(self.inputs[0])).tolist()

    def sobol(self, n):
        self.n_asked += 1
        seed = (self.setting["seed"] + self.n_asked) % 2**31
        engine = self.torch.quasirandom.SobolEngine(len(self.inputs[0]), scramble=True, seed=seed)
        return engine.draw(n, dtype=self.torch.float64)

    def ask(self):
        from botorch.fit import fit_gpytorch_mll
        from botorch.generation import MaxPosteriorSampling
        from botorch.models import SingleTaskGP
        from gpytorch.constraints import Interval
        from gpytorch.kernels import MaternKernel, ScaleKernel
        from gpytorch.likelihoods import GaussianLikelihood
        from gpytorch.mlls import ExactMarginalLogLikelihood

        if self.design:
            return self.decoded(self.design.pop())
        dim = len(self.inputs[0])
        inputs = self.torch.tensor(self.inputs[self.begun :])
        values = self.torch.tensor(self.values[self.begun :])
        values = (values - values.mean()) / values.std().clamp_min(1e-12)
        kernel = ScaleKernel(
            MaternKernel(nu=2.5, ard_num_dims=dim, lengthscale_constraint=Interval(0.005, 4.0)),
            outputscale_constraint=Interval(0.05, 20.0),
        )
        likelihood = GaussianLikelihood(noise_constraint=Interval(*self.noise_bounds()))
        model = SingleTaskGP(inputs, values, covar_module=kernel, likelihood=likelihood, outcome_transform=None)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        scales = model.covar_module.base_kernel.lengthscale.detach().flatten()
        weights = scales / scales.log().mean().exp()
        center = inputs[model.posterior(inputs).mean.argmax() if self.setting["noisy"] else values.argmax()]
        low = (center - weights * self.length / 2).clamp(0, 1)
        high = (center + weights * self.length / 2).clamp(0, 1)
        n = min(100 * dim, 5000)
        moved = self.torch.rand(n, dim) <= min(20 / dim, 1)
        moved[~moved.any(dim=1), self.torch.randint(dim, (1,))] = True
        candidates = self.torch.where(moved, low + (high - low) * self.sobol(n), center)
        with self.torch.no_grad():
            best = MaxPosteriorSampling(model, replacement=False)(candidates, num_samples=1)
        point = self.decoded(best.flatten().tolist())
        self.answer = self.encoded(point)
        return point

    def noise_bounds(self):
        return (5e-4, 0.2) if self.setting["noisy"] else (1e-8, 1e-3)


PEERS = {"botorch-log-ei": BoTorchPeer, "botorch-turbo": TurboPeer}


def main(name):
    if name == "--list":
        found = importlib.util.find_spec
        print("\n".join(peer for peer, needed in PACKAGES.items() if all(map(found, needed))))
        return
    setting = json.loads(sys.stdin.readline())
    peer = PEERS[name](setting) if name in PEERS else OptunaPeer(name, setting)
    for line in sys.stdin:
        message = json.loads(line)
        if "ask" in message:
            print(json.dumps(peer.ask()), flush=True)
        else:
            peer.tell(message["point"], message["value"])


if __name__ == "__main__":
    main(sys.argv[1])
