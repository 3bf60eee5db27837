"""Plug-in models that users write: their interface, the checks of their code, and the estimator around them.

Their code is checked before anything is charged.

May import: everything up to the estimator. Never sees: more than one row at a time, in third-party code.
"""
