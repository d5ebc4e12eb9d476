"""Two shops sell the same thing for a month: what each of them earns.

Reads everybody's prices from FEDBO_ACTIONS and prints the shops' profits. Customers choose between the shops, or stay at home, by a
logit law; each shop's advertising draws customers from the other one and costs money.
"""

import json
import math
import os

COST = 1.0  # what a piece costs a shop
CUSTOMERS = 1000.0

actions = json.loads(os.environ["FEDBO_ACTIONS"])
worth = {}
for shop, action in actions.items():
    worth[shop] = math.exp(3.0 + 0.8 * math.sqrt(action["advertising"]) - 1.2 * action["price"])
everybody = 1.0 + sum(worth.values())
profits = {}
for shop, action in actions.items():
    sold = CUSTOMERS * worth[shop] / everybody
    profits[shop] = sold * (action["price"] - COST) - 150.0 * action["advertising"]
print(json.dumps(profits))
