"""The scikit-learn side of a model: arguments, the order of a fit, the statement, files.

Knows the gate and no particular model.
"""
