"""The APIs of the protocol, one module each; `core/wire/api_table.py` lists them all."""
