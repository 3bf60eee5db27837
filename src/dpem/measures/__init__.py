"""Released numbers about rows that are no model: bounds, quality of clusters, closeness of tables.

Some are for the owner of the rows, the others are charged and released; each says which.

May import: everything up to the gate, and densities of models. Never sees: the privacy core.
"""
