"""The base of all estimators: arguments, the one `fit`, statement, files, registration.

May import: everything up to the gate. Never sees: a particular model.
"""
