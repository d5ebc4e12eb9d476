"""Problems with conditional parameters, mixtures and linear rules. All are minimized."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

import numpy as np
from structured_space import Choice, Number, Params, Problem, Rule

UNIT = (0.0, 1.0)


def tree_two(p: Params) -> float:
    if p["k"] == "a":
        return (p["a1"] - 0.2) ** 2 + (p["a2"] - 0.8) ** 2 + 0.05
    return (p["b1"] - 0.3) ** 2 + (p["b2"] - 0.6) ** 2 + (p["b3"] - 0.9) ** 2


TREE_TWO = {
    "k": Choice(("a", "b")),
    **{name: Number(*UNIT, when={"k": (name[0],)}) for name in ("a1", "a2", "b1", "b2", "b3")},
}


def tree_jenatton(p: Params) -> float:
    """The synthetic tree of Jenatton, Archambeau, González & Seeger (2017, Bayesian optimization with tree-structured dependencies)."""
    if p["x1"] == 0:
        return p["r8"] + (p["x4"] ** 2 + 0.1 if p["x2"] == 0 else p["x5"] ** 2 + 0.2)
    return p["r9"] + (p["x6"] ** 2 + 0.3 if p["x3"] == 0 else p["x7"] ** 2 + 0.4)


TREE_JENATTON = {
    "x1": Choice((0, 1)),
    "x2": Choice((0, 1), when={"x1": (0,)}),
    "x3": Choice((0, 1), when={"x1": (1,)}),
    "x4": Number(-1, 1, when={"x2": (0,)}),
    "x5": Number(-1, 1, when={"x2": (1,)}),
    "x6": Number(-1, 1, when={"x3": (0,)}),
    "x7": Number(-1, 1, when={"x3": (1,)}),
    "r8": Number(*UNIT, when={"x1": (0,)}),
    "r9": Number(*UNIT, when={"x1": (1,)}),
}

TREE_NESTED = {
    "family": Choice(("linear", "trees", "net")),
    "rate": Number(1e-5, 1, log=True),
    "decay": Number(1e-6, 0.1, log=True),
    "solver": Choice(("lasso", "ridge"), when={"family": ("linear",)}),
    "mix": Number(*UNIT, when={"solver": ("lasso",)}),
    "tilt": Number(*UNIT, when={"solver": ("ridge",)}),
    "growth": Choice(("depth", "leaf"), when={"family": ("trees",)}),
    "subsample": Number(0.1, 1, when={"family": ("trees",)}),
    "max_depth": Number(1, 12, whole=True, when={"growth": ("depth",)}),
    "leaves": Number(2, 256, log=True, whole=True, when={"growth": ("leaf",)}),
    "optimizer": Choice(("sgd", "adam"), when={"family": ("net",)}),
    "width": Number(8, 512, log=True, whole=True, when={"family": ("net",)}),
    "beta": Number(0.8, 0.999, when={"optimizer": ("adam",)}),
    "momentum": Number(0, 0.99, when={"optimizer": ("sgd",)}),
    "schedule": Choice(("constant", "cosine"), when={"optimizer": ("sgd",)}),
    "restarts": Number(1, 20, log=True, whole=True, when={"schedule": ("cosine",)}),
    "warmup": Number(0, 0.5, when={"schedule": ("cosine",)}),
}
# The minimum of a branch, and where the shared parameters have their minima in it, on their logarithmic scales from 0 to 1.
NESTED_LEAVES = {
    "lasso": (0.2, 0.35, 0.6),
    "ridge": (0.12, 0.4, 0.55),
    "depth": (0.05, 0.5, 0.5),
    "leaf": (0.08, 0.45, 0.5),
    "adam": (0.04, 0.4, 0.45),
    "constant": (0.03, 0.5, 0.4),
    "cosine": (0.0, 0.55, 0.4),
}
NESTED_BEST = {
    "mix": 0.7,
    "tilt": 0.2,
    "subsample": 0.8,
    "max_depth": 6,
    "leaves": 40,
    "width": 64,
    "beta": 0.95,
    "momentum": 0.9,
    "restarts": 4,
    "warmup": 0.1,
}


def tree_nested(p: Params) -> float:
    """A tree of depth three. Rate and decay matter in all branches, with minima close to each other."""
    choices = [value for value in p.values() if value in NESTED_LEAVES]
    least, rate, decay = NESTED_LEAVES[choices[-1]]

    def unit(name: str, value: float) -> float:
        spec = TREE_NESTED[name]
        assert isinstance(spec, Number)
        return spec.unit(value)

    shared = (unit("rate", p["rate"]) - rate) ** 2 + (unit("decay", p["decay"]) - decay) ** 2
    own = sum((unit(name, p[name]) - unit(name, best)) ** 2 for name, best in NESTED_BEST.items() if name in p)
    return least + shared + 0.5 * own


@cache
def digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return x[:400], y[:400]


def loss(model: Any, scoring: str) -> float:
    """Return the mean loss of three folds of the digits, at most 10."""
    from sklearn.model_selection import cross_val_score

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # models that have not converged
        found = -float(np.mean(cross_val_score(model, *digits(), cv=3, scoring=scoring, error_score=np.nan)))
    return min(found, 10.0) if math.isfinite(found) else 10.0


def pipeline(p: Params) -> float:
    """The share of errors of a scaler and one of three classifiers of scikit-learn on 400 of its digits."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
    from sklearn.svm import SVC

    model: Any
    if p["model"] == "svc":
        further = {key: p[key] for key in ("gamma", "degree") if key in p}
        model = SVC(C=p["C"], kernel=p["kernel"], **further)
    elif p["model"] == "forest":
        own = {key: p[key] for key in ("n_estimators", "max_depth", "max_features", "min_samples_leaf")}
        model = RandomForestClassifier(random_state=0, **own)
    else:
        model = KNeighborsClassifier(p["n_neighbors"], weights=p["weights"], p=p["power"])
    scaler = {"none": "passthrough", "standard": StandardScaler(), "range": MinMaxScaler()}[p["scaler"]]
    return loss(make_pipeline(scaler, model), "accuracy") + 1  # `loss` is minus the accuracy


PIPELINE = {
    "scaler": Choice(("none", "standard", "range")),
    "model": Choice(("svc", "forest", "neighbours")),
    "C": Number(1e-3, 1e3, log=True, when={"model": ("svc",)}),
    "kernel": Choice(("rbf", "poly", "linear"), when={"model": ("svc",)}),
    "gamma": Number(1e-5, 10, log=True, when={"kernel": ("rbf", "poly")}),
    "degree": Number(2, 5, whole=True, when={"kernel": ("poly",)}),
    "n_estimators": Number(5, 60, log=True, whole=True, when={"model": ("forest",)}),
    "max_depth": Number(2, 20, whole=True, when={"model": ("forest",)}),
    "max_features": Number(0.05, 1, when={"model": ("forest",)}),
    "min_samples_leaf": Number(1, 20, log=True, whole=True, when={"model": ("forest",)}),
    "n_neighbors": Number(1, 30, log=True, whole=True, when={"model": ("neighbours",)}),
    "weights": Choice(("uniform", "distance"), when={"model": ("neighbours",)}),
    "power": Number(1, 4, when={"model": ("neighbours",)}),
}

TREES = {"booster": ("gbtree", "dart")}
BOOSTERS = {
    "booster": Choice(("gbtree", "dart", "gblinear")),
    "rounds": Number(10, 80, log=True, whole=True),
    "eta": Number(0.01, 1, log=True),
    "lambda": Number(1e-4, 100, log=True),
    "alpha": Number(1e-4, 10, log=True),
    "max_depth": Number(1, 8, whole=True, when=TREES),
    "min_child_weight": Number(0.1, 20, log=True, when=TREES),
    "subsample": Number(0.3, 1, when=TREES),
    "colsample_bytree": Number(0.1, 1, when=TREES),
    "rate_drop": Number(0, 0.5, when={"booster": ("dart",)}),
    "skip_drop": Number(*UNIT, when={"booster": ("dart",)}),
    "normalize_type": Choice(("tree", "forest"), when={"booster": ("dart",)}),
    "feature_selector": Choice(("cyclic", "shuffle"), when={"booster": ("gblinear",)}),
}


@cache
def tumours() -> Any:
    import xgboost
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return xgboost.DMatrix((x - x.mean(0)) / x.std(0), y, nthread=1)


def boosters(p: Params) -> float:
    """The log loss of XGBoost on scikit-learn's data on breast cancer, in three folds."""
    import xgboost

    settings = {key: value for key, value in p.items() if key != "rounds"}
    settings |= {"objective": "binary:logistic", "nthread": 1, "verbosity": 0, "seed": 0}
    if p["booster"] == "gblinear":
        settings["updater"] = "coord_descent"
    scores = xgboost.cv(settings, tumours(), p["rounds"], nfold=3, stratified=True, metrics="logloss", as_pandas=False, seed=0)
    return min(float(scores["test-logloss-mean"][-1]), 10.0)


DEPTHS = (1, 2, 3, 4)
LAYERS = {
    "layers": Choice(DEPTHS),
    "rate": Number(1e-4, 0.3, log=True),
    "alpha": Number(1e-6, 10, log=True),
    **{f"width{k}": Number(4, 64, log=True, whole=True, when={"layers": DEPTHS[k - 1 :]} if k > 1 else {}) for k in DEPTHS},
}


def layers(p: Params) -> float:
    """The log loss of a network on 400 of scikit-learn's digits."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    widths = tuple(p[f"width{k}"] for k in DEPTHS[: p["layers"]])
    model = MLPClassifier(widths, learning_rate_init=p["rate"], alpha=p["alpha"], max_iter=30, random_state=0)
    return loss(make_pipeline(StandardScaler(), model), "neg_log_loss")


def shares(n: int) -> dict[str, Number]:
    return {f"w{k}": Number(*UNIT) for k in range(n)}


def simplex_branin(p: Params) -> float:
    """Branin's function of the first two of three shares, whose triangle contains two of its three minima."""
    u, v = 15 * p["w0"] - 5, 15 * p["w1"]
    return (v - 5.1 / (4 * math.pi**2) * u**2 + 5 / math.pi * u - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(u) + 10


HARTMANN_A = np.array(((10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14)))
HARTMANN_P = 1e-4 * np.array(
    (
        (1312, 1696, 5569, 124, 8283, 5886),
        (2329, 4135, 8307, 3736, 1004, 9991),
        (2348, 1451, 3522, 2883, 3047, 6650),
        (4047, 8828, 8732, 5743, 1091, 381),
    )
)


def simplex_hartmann(p: Params) -> float:
    """Hartmann's function of six variables at twice the shares."""
    x = 2 * np.array([p[f"w{k}"] for k in range(6)])
    return -float(np.array((1.0, 1.2, 3.0, 3.2)) @ np.exp(-np.sum(HARTMANN_A * (x - HARTMANN_P) ** 2, axis=1)))


ACKLEY_AT = np.array((0.3, 0.25, 0.2, 0.15, 0.1, 0, 0, 0, 0, 0))


def simplex_ackley(p: Params) -> float:
    """Ackley's function at ten times the distance of ten shares from a mixture of five."""
    z = 10 * (np.array([p[f"w{k}"] for k in range(10)]) - ACKLEY_AT)
    wave = math.exp(float(np.mean(np.cos(2 * math.pi * z))))
    return -20 * math.exp(-0.2 * math.sqrt(float(np.mean(z**2)))) - wave + 20 + math.e


# Density at 15 °C in kg/m³, viscosity at 50 °C in mm²/s, sulphur in percent, price per tonne, and the largest share.
FUELS = {
    "residue": (1012.0, 1800.0, 1.4, 320.0, 0.7),
    "slurry": (1060.0, 90.0, 0.9, 350.0, 0.3),
    "gas_oil_vacuum": (915.0, 45.0, 0.6, 480.0, 0.6),
    "cycle_oil": (955.0, 2.6, 0.4, 430.0, 0.4),
    "diesel": (845.0, 2.8, 0.02, 690.0, 0.6),
    "kerosene": (800.0, 1.2, 0.05, 650.0, 0.3),
}


def blend(p: Params) -> float:
    """Deviation of a marine fuel from its specification.

    Shares are by mass. Viscosity blends by Refutas' index, density by volume, and sulphur linearly. CCAI, the index of the delay
    of ignition (ISO 8217), follows from density and viscosity.
    """
    total = sum(p.values())
    index = sum(share * (14.534 * math.log(math.log(FUELS[name][1] + 0.8)) + 10.975) for name, share in p.items()) / total
    viscosity = math.exp(math.exp((index - 10.975) / 14.534)) - 0.8
    density = total / sum(share / FUELS[name][0] for name, share in p.items())
    ccai = density - 81 - 141 * math.log10(math.log10(viscosity + 0.85))
    sulphur = sum(share * FUELS[name][2] for name, share in p.items()) / total
    deviations = (math.log(viscosity / 80) / 0.3, (density - 945) / 15, (ccai - 815) / 10, (sulphur - 0.6) / 0.1)
    return sum(each**2 for each in deviations)


# Largest return, spending for half of it, and steepness, of Hill's curve of each channel.
CHANNELS = {
    "search": (30.0, 12.0, 1.2),
    "social": (22.0, 20.0, 2.0),
    "television": (45.0, 40.0, 2.5),
    "print": (15.0, 15.0, 1.0),
    "radio": (12.0, 8.0, 1.5),
}


def budget(p: Params) -> float:
    """Minus the return of spendings on five channels."""
    back = 0.0
    for name, (most, half, steep) in CHANNELS.items():
        spent = max(p[name], 0.0) ** steep
        back += most * spent / (half**steep + spent)
    return -back


# Density of each part of a paint in kg/L, and the bounds of its share by mass.
PARTS = {
    "pigment": (4.1, 0.05, 0.4),
    "extender": (2.7, 0.0, 0.4),
    "binder": (1.05, 0.1, 0.6),
    "solvent": (0.88, 0.1, 0.5),
    "dispersant": (1.1, 0.0, 0.05),
    "thickener": (1.3, 0.0, 0.04),
}


def paint(p: Params) -> float:
    """Cost and faults of a paint: poor hiding, porous film, wrong viscosity (Krieger and Dougherty's formula)."""
    volume = {name: share / PARTS[name][0] for name, share in p.items()}
    solid = volume["pigment"] + volume["extender"]
    filled = solid / sum(volume.values())
    dry = solid / (solid + volume["binder"])
    packing = 0.5 + 2.0 * p["dispersant"] - 12.0 * p["dispersant"] ** 2
    hiding = 1 - math.exp(-12 * volume["pigment"] / sum(volume.values()) * (1 - 0.6 * dry))
    viscosity = -2.5 * packing * math.log(1 - min(filled / packing, 0.98)) + 60 * p["thickener"] + 3 * p["binder"]
    cost = 3.0 * p["pigment"] + 0.3 * p["extender"] + 2.2 * p["binder"] + 0.9 * p["solvent"] + 5.0 * p["dispersant"] + 6.0 * p["thickener"]
    return 20 * (1 - hiding) ** 2 + 8 * (dry - 0.45) ** 2 + (viscosity - 3.0) ** 2 + 0.4 * cost


PROBLEMS = {
    "tree-two": Problem(TREE_TWO, tree_two, best=0.0),
    "tree-jenatton": Problem(TREE_JENATTON, tree_jenatton, best=0.1),
    "tree-nested": Problem(TREE_NESTED, tree_nested, best=0.0),
    "sklearn-pipeline": Problem(PIPELINE, pipeline),
    "boosters": Problem(BOOSTERS, boosters),
    "layers": Problem(LAYERS, layers),
    "simplex-branin": Problem(shares(3), simplex_branin, best=0.39788735772973816, mixtures=(tuple(shares(3)),)),
    "simplex-hartmann": Problem(shares(6), simplex_hartmann, best=-3.307536305619511, mixtures=(tuple(shares(6)),)),
    "simplex-ackley": Problem(shares(10), simplex_ackley, best=0.0, mixtures=(tuple(shares(10)),)),
    "blend": Problem(
        {name: Number(0, most) for name, (*_, most) in FUELS.items()},
        blend,
        best=4.904340628815206,
        rules=(Rule({name: price for name, (_, _, _, price, _) in FUELS.items()}, at_most=440.0),),
        mixtures=(tuple(FUELS),),
    ),
    "budget": Problem(
        {name: Number(0, 60) for name in CHANNELS},
        budget,
        best=-66.85820022597677,
        rules=(Rule(dict.fromkeys(CHANNELS, 1.0), at_most=100.0), Rule({"print": 1.0, "radio": 1.0}, at_least=20.0)),
    ),
    "paint": Problem(
        {name: Number(low, high) for name, (_, low, high) in PARTS.items()},
        paint,
        best=1.6397454918655564,
        mixtures=(tuple(PARTS),),
    ),
}
