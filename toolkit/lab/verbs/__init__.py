"""The verbs of scenarios, by subject. Each call is written into the history as a ``step`` record."""
