"""Privacy costs: functions return the results of the program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fedbo
from conftest import Run
from fedbo import privacy


def test_costs_are_those_of_the_program(program: Run) -> None:
    cost = privacy.epsilon(sampling_rate=0.25, noise_multiplier=2.0, rounds=50, delta=1e-5)
    asked = ["privacy", "epsilon", "--sampling-rate", "0.25", "--noise-multiplier", "2", "--rounds", "50", "--delta", "1e-5"]
    document = json.loads(program(*asked, "--json").stdout)
    assert vars(cost) == document
    assert 4.0 < cost.epsilon < 5.0 and cost.adjacency == "zero-out" and cost.releases == 50
    papers = privacy.epsilon(sampling_rate=0.25, noise_multiplier=2.0, rounds=50, agents=100, paper=True)
    assert (papers.accountant, papers.mode) == ("moments", "paper")
    assert papers.delta == pytest.approx(100**-1.1)


def test_solutions_keep_within_the_budget_and_need_it() -> None:
    found = privacy.noise(epsilon=4.0, rounds=5, sampling_rate=1.0, agents=8)
    assert 3.99 < found.epsilon <= 4.0
    less = privacy.epsilon(sampling_rate=1.0, noise_multiplier=found.noise_multiplier * 0.99, rounds=5, agents=8)
    assert less.epsilon > 4.0
    rounds = privacy.largest_rounds(epsilon=4.0, sampling_rate=1.0, noise_multiplier=found.noise_multiplier, agents=8)
    assert rounds.releases == 5
    rate = privacy.largest_rate(epsilon=2.0, rounds=5, noise_multiplier=found.noise_multiplier, agents=8)
    assert 0.1 < rate.sampling_rate < 1.0 and rate.epsilon <= 2.0
    fixed = privacy.noise(epsilon=4.0, rounds=5, sampling_rate=0.5, agents=8, accountant="fixed-size")
    assert fixed.adjacency == "replace-one"


def test_a_plan_recommends_the_quietest_rate() -> None:
    plan = privacy.plan(agents=50, regions=2, features=20, rounds=5, epsilon=4.0, sampling_rates=[0.25, 0.5, 1.0])
    assert [each.cost.sampling_rate for each in plan.rates] == [0.25, 0.5, 1.0]
    assert plan.recommended.noise_to_signal == min(each.noise_to_signal for each in plan.rates)
    assert plan.recommended.noise_to_signal_one_sum == pytest.approx(plan.recommended.noise_to_signal / 2)


def test_mistakes_name_the_argument() -> None:
    with pytest.raises(fedbo.DefinitionError, match="invalid value '2' for sampling_rate: .* above 0 and at most 1"):
        privacy.epsilon(sampling_rate=2, noise_multiplier=2.0, rounds=50, delta=1e-5)
    with pytest.raises(fedbo.DefinitionError, match="name delta, or agents for min"):
        privacy.epsilon(sampling_rate=0.2, noise_multiplier=2.0, rounds=50)
    with pytest.raises(fedbo.DefinitionError, match="regions 9 is more than agents 8"):
        privacy.plan(agents=8, regions=9, features=20, rounds=5, epsilon=4.0)
    with pytest.raises(fedbo.DefinitionError, match="nan"):
        privacy.noise(epsilon=float("nan"), rounds=5, sampling_rate=1.0, agents=8)


def test_a_statement_says_what_a_simulation_has_spent(tmp_path: Path, program: Run) -> None:
    labs = fedbo.Federation(
        "labs",
        {"x": fedbo.Float(0.0, 1.0)},
        agents=[f"lab-{n}" for n in range(4)],
        algorithm="dp-fts-de",
        rounds=4,
        direction="minimize",
        exploration={"regions": 1},
        features={"count": 10},
        privacy={"epsilon": 5.0, "releases": 2},
    )
    functions = {name: lambda params: (params["x"] - 0.4) ** 2 for name in labs.agents}
    with pytest.raises(fedbo.DefinitionError, match="out="):
        labs.simulate(functions)
    folder = tmp_path / "results"
    result = labs.simulate(functions, out=folder)
    spent = privacy.statement(folder)
    assert spent.releases == 2 and 0.0 < spent.epsilon <= 5.0 == spent.budget_epsilon
    assert spent.remaining_epsilon == pytest.approx(5.0 - spent.epsilon)
    assert [charge.releases for charge in spent.charges] == [2] and not spent.is_overdrawn
    assert result.spent is not None and "2 rounds" in result.spent
    assert json.loads(program("privacy", "statement", "results", "--json").stdout)["head"] == spent.head
    with pytest.raises(fedbo.DefinitionError, match="resume=True"):
        labs.simulate(functions, out=folder)
    with pytest.raises(fedbo.DefinitionError, match="no such ledger"):
        privacy.statement(tmp_path / "nowhere")
