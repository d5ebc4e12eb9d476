#!/usr/bin/env python3
"""A typical training script: trains a small classifier and prints its validation loss on the last line.

    python3 train.py --rate 0.1 --momentum 0.9 --epochs 20 --features quadratic

Plain Python without dependencies. The classifier separates two crescents, which are drawn with a fixed seed.
"""
import argparse
import math
import random


def crescents(n, seed):
    """n points of two interleaved half circles with noise, and their labels 0 and 1."""
    rng = random.Random(seed)
    data = []
    for i in range(n):
        angle, label = math.pi * rng.random(), i % 2
        x = (1 - math.cos(angle), 0.5 - math.sin(angle)) if label else (math.cos(angle), math.sin(angle))
        data.append(((x[0] + rng.gauss(0, 0.2), x[1] + rng.gauss(0, 0.2)), label))
    return data


FEATURES = {
    "linear": lambda x, y: (1.0, x, y),
    "quadratic": lambda x, y: (1.0, x, y, x * x, x * y, y * y),
    "cubic": lambda x, y: (1.0, x, y, x * x, x * y, y * y, x * x * x, x * x * y, x * y * y, y * y * y),
}


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


def train(rate, momentum, epochs, kind):
    expand = FEATURES[kind]
    prepare = lambda n, seed: [(expand(*x), label) for x, label in crescents(n, seed)]
    training, validation = prepare(200, 1), prepare(400, 2)
    size = len(training[0][0])
    weights, velocity = [0.0] * size, [0.0] * size
    rng = random.Random(3)
    for _ in range(epochs):
        rng.shuffle(training)
        for features, label in training:
            error = probability(weights, features) - label
            for j, feature in enumerate(features):
                velocity[j] = momentum * velocity[j] - rate * error * feature
                weights[j] += velocity[j]
    return loss(weights, validation)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--momentum", type=float, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--features", choices=sorted(FEATURES), required=True)
    options = parser.parse_args()
    print("training on 200 points, validating on 400")
    print(train(options.rate, options.momentum, options.epochs, options.features))
