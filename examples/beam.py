"""A steel beam of one metre, clamped at one end and loaded with 1000 N at the other.

Takes the width and height of its cross-section in mm, and the numbers to print: `mass_kg`, `deflection_mm` or `stress_mpa`, or `NAME=` before one
of them to rename it. The last line is a JSON object with exactly these numbers.
"""

import json
import sys

LENGTH, LOAD, MODULUS, DENSITY = 1.0, 1000.0, 210e9, 7850.0

width, height = (float(text) / 1000 for text in sys.argv[1:3])
inertia = width * height**3 / 12
numbers = {
    "mass_kg": DENSITY * LENGTH * width * height,
    "deflection_mm": 1000 * LOAD * LENGTH**3 / (3 * MODULUS * inertia),
    "stress_mpa": LOAD * LENGTH * height / 2 / inertia / 1e6,
}
wanted = (text.rpartition("=") for text in sys.argv[3:])
print(json.dumps({name or number: numbers[number] for name, _, number in wanted}))
