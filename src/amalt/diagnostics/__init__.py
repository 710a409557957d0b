"""Can it be trusted: effective sample sizes, R-hat, and a judgment in one line."""
