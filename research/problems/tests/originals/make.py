"""Create the small originals of the tests, and the result of splitting them with scikit-learn.

    pip install numpy scipy scikit-learn && python make.py

The real LandmineData.mat is not stored here because its licence is unknown. `small.mat` has the same structure, two 1 x 29 cell
arrays, but with fields of 6 to 13 locations and made-up features. `small.pkl` contains every kind of value that occurs in the authors'
pickles.
"""

import pickle

import numpy as np
import scipy.io
from sklearn.model_selection import train_test_split

draws = np.random.default_rng(7)
features, labels = np.empty((1, 29), object), np.empty((1, 29), object)
lines = ["field,split,label,f1,f2,f3,f4,f5,f6,f7,f8,f9,mat_row"]
for field in range(29):
    n = 6 + field % 8
    x = draws.integers(-8, 9, (n, 9)) / 4.0
    x[0, 0] = -7.815497651608952e-05
    y = (np.arange(n) % (2 + field % 2) == 0).astype(np.uint8).reshape(-1, 1)
    features[0, field], labels[0, field] = x, y
    halves = train_test_split(np.arange(n), test_size=0.5, stratify=y, random_state=0)
    for split, rows in zip(["train", "validation"], halves):
        for row in rows:
            numbers = ",".join(repr(float(value)) for value in x[row])
            lines.append(f"{field},{split},{y[row, 0]},{numbers},{row}")
both = {"about": "made up", "feature": features, "label": labels}
scipy.io.savemat("small.mat", both, do_compression=True)
with open("small.csv", "w", newline="\n") as file:
    file.write("\n".join(lines) + "\n")

array = np.arange(6.0).reshape(3, 2) / 4
value = {"n": 3, "x": array, "same": array, "y": [array[0, 1], 0.5], "nested": {"z": [array[:, 1].copy()]}, "none": None}
with open("small.pkl", "wb") as file:
    pickle.dump(value, file, protocol=3)
