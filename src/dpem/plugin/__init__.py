"""Plug-in models that users write: their interface, the checks of their code, and the estimator around them.

Their code is checked before anything is charged.

May import: everything up to the estimator. Third-party code sees one row at a time.
"""
