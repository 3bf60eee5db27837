"""One folder for each model: its estimator, plan, fit and density.

A folder imports the gate, statistics, fitting and the estimator; never the privacy core, never another model.
"""
