"""Parts of fits that models share: starting points, the EM loop, repair and shrinkage of released values.

May import: gate and statistics, to ask for releases. Never sees: rows, the privacy core.
"""
