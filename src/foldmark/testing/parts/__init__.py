"""The tests of the contract, a file for each part. Begin with `transactions.py` and `blocks.py`."""
