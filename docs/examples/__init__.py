"""Programs of docs/client.md, run by tests/cluster/test_client_examples.py."""
