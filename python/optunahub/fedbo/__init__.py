"""fedbo's samplers as an OptunaHub package. All code is in the Python package ``fedbo``."""

from fedbo.integrations.optuna import FederatedSampler, FedboSampler

__all__ = ["FedboSampler", "FederatedSampler"]
