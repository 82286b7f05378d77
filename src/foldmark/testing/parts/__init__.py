"""The parts of the contract, one file each: begin with `transactions.py` and `blocks.py`."""
