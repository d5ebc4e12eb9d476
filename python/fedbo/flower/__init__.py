"""A private federation as a Flower App: agents on SuperNodes, and a coordinator beside the ServerApp without a public port.

Use ``fedbo.flower.server_app:app`` and ``fedbo.flower.client_app:app`` as components in the ``pyproject.toml`` of a Flower App. They
require the package ``flwr``. See ``docs/flower.md``.
"""
