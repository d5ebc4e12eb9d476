"""Profits of two shops that sell the same product for a month.

Reads the shops' actions from FEDBO_ACTIONS and prints their profits. Customers choose between the shops, or stay at home, by a
logit model. Advertising costs money and attracts customers from the other shop.
"""

import json
import math
import os

COST = 1.0  # cost of one unit
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
