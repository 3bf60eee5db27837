"""Numbers about rows other than models: bounds, quality of clusters, closeness of tables.

Some functions are for the owner of the rows only. The others charge a ledger, and their results may be
published. Each docstring says which.

May import: everything up to the gate, and densities of models. Never sees: the privacy core.
"""
