"""The scikit-learn shell of every model: arguments, the one `fit`, statement, files, registration.

May import: everything up to the gate. Never sees: a particular model.
"""
