#!/usr/bin/env python3
"""Trains a small classifier and reports its validation loss after every epoch, until it finishes or is asked to stop.

    python3 train.py --rate 0.1 --momentum 0.9 --features cubic

Plain Python without dependencies. The classifier separates two crescents, which are drawn with a fixed seed.
"""
import argparse
import json
import math
import random
import select
import sys

EPOCHS = 30

FEATURES = {
    "linear": lambda x, y: (1.0, x, y),
    "quadratic": lambda x, y: (1.0, x, y, x * x, x * y, y * y),
    "cubic": lambda x, y: (1.0, x, y, x * x, x * y, y * y, x * x * x, x * x * y, x * y * y, y * y * y),
}


def crescents(n, seed):
    """n points of two interleaved half circles with noise, and their labels 0 and 1."""
    rng = random.Random(seed)
    data = []
    for i in range(n):
        angle, label = math.pi * rng.random(), i % 2
        x = (1 - math.cos(angle), 0.5 - math.sin(angle)) if label else (math.cos(angle), math.sin(angle))
        data.append(((x[0] + rng.gauss(0, 0.2), x[1] + rng.gauss(0, 0.2)), label))
    return data


def probability(weights, features):
    z = sum(w * f for w, f in zip(weights, features))
    return 1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, z))))


def loss(weights, data):
    """Mean negative log-likelihood."""
    total = 0.0
    for features, label in data:
        p = min(max(probability(weights, features), 1e-12), 1 - 1e-12)
        total -= math.log(p if label else 1 - p)
    return total / len(data)


def told_to_stop():
    """Return true if fedbo has written the line `stop`, without waiting for it."""
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready) and sys.stdin.readline().strip() == "stop"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--momentum", type=float, required=True)
    parser.add_argument("--features", choices=sorted(FEATURES), required=True)
    options = parser.parse_args()

    expand = FEATURES[options.features]
    training, validation = ([(expand(*x), label) for x, label in crescents(n, seed)] for n, seed in ((200, 1), (400, 2)))
    weights = [0.0] * len(training[0][0])
    velocity = list(weights)
    rng = random.Random(3)
    for epoch in range(1, EPOCHS + 1):
        rng.shuffle(training)
        for features, label in training:
            error = probability(weights, features) - label
            for j, feature in enumerate(features):
                velocity[j] = options.momentum * velocity[j] - options.rate * error * feature
                weights[j] += velocity[j]
        # The last of these lines is also the trial's value. flush: fedbo must see each line immediately.
        print(json.dumps({"epoch": epoch, "value": loss(weights, validation)}), flush=True)
        if told_to_stop():
            print(f"stopped after epoch {epoch}", file=sys.stderr)
            return  # save the model here


if __name__ == "__main__":
    main()
