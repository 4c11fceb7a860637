"""Every table and figure of the paper, run again on open data: ``python -m experiments list``."""
