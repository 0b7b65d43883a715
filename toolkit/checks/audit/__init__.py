"""The wire rules, judged frame by frame over a history: of a run, or of any capture."""
