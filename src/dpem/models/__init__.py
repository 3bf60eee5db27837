"""Models: one file per idea, each a thin estimator on the path of `dpem.em`."""
