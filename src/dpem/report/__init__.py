"""A report of a released model: one page of HTML that needs nothing else.

May import: the registry, estimators, the privacy core's statements. Never sees: rows, a particular model.
"""

from dpem.estimator.summary import column_names
from dpem.report.contents import profile_of
from dpem.report.html import render_report, write_report

__all__ = ["column_names", "profile_of", "render_report", "write_report"]
