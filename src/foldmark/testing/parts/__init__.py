"""The tests of the contract, one file per part. Begin with `transactions.py` and `blocks.py`."""
