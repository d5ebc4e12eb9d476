"""A private federation as a Flower App: agents on SuperNodes, their coordinator beside the ServerApp, and no port of its own.

``fedbo.flower.server_app:app`` and ``fedbo.flower.client_app:app`` are the components to name in the ``pyproject.toml`` of a Flower App.
They need the package ``flwr``. See ``docs/flower.md``.
"""
