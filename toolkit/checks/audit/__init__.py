"""The rules of the wire, judged frame by frame over a history: of a run of ours, or of anybody's capture."""
