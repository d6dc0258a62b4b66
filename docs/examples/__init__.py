"""Programs of docs/client.md and docs/uses.md, run by tests/cluster/test_client_examples.py and test_uses.py."""
