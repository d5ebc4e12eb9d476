"""The samplers of fedbo, as a package of OptunaHub: all code is in the Python package ``fedbo``."""

from fedbo.integrations.optuna import FederatedSampler, FedboSampler

__all__ = ["FedboSampler", "FederatedSampler"]
