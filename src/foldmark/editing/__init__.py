"""Changes to a context that a person agrees to first [SPEC 4.2, 5.7].

`matching.py` finds the messages that a person wants to forget, `offers.py` offers them and carries out the answer,
`evicting.py` evicts tool results, `suggesting.py` suggests those that are not needed any more, `answering.py` takes a
person's answer to either offer.
"""
