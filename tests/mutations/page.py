"""Tables."""


def summary(mutants, results):
    return ""
