"""The tests of the contract, one file per part. Begin with `answers.py` and `blocks.py`."""
