"""Other tools, trained in their own Pythons on the same data with the same encoder.

Each module is a program that needs nothing of nestree: ``python MODULE.py SPEC.json``. The spec names files of
documents (words and entities), the encoder, and the budget; what comes back is the dev documents with predictions of
the best epoch, and what happened.
"""
