"""Post-processing that models share, on released values alone: it never sees a row.

Imports the gate to ask for releases, and statistics to say of what.
"""
