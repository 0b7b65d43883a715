"""The vocabulary of scenarios, by subject. Each verb is written into the history as a ``step``."""
