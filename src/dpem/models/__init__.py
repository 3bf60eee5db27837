"""The models, one folder each: estimator, plan, fit, density, summary and registration.

May import: gate, statistics, fitting, estimator and plugin. Never sees: the privacy core, another model.
"""
