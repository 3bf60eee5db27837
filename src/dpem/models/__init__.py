"""The models, one folder each: estimator, plan, fit, density, summary and registration.

May import: gate, statistics, fitting, estimator and plugin, but not the privacy core nor another model.
"""
