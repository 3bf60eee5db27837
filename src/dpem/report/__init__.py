"""A report of a released model: one page of HTML that needs nothing else.

May import: the registry, estimators, the privacy core's statements. Never sees: rows, a particular model.
"""

from dpem.report.html import render_report, write_report
from dpem.report.profiles import column_names, profile_of

__all__ = ["column_names", "profile_of", "render_report", "write_report"]
