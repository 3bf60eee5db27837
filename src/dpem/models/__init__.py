"""One folder for each model: estimator, plan, fit, density, summary and its one registration.

May import: gate, statistics, fitting, estimator and plugin. Never sees: the privacy core, another model.
"""
