"""Post-processing that models share, on released values alone.

May import: gate and statistics, to ask for releases. Never sees: rows, the privacy core.
"""
