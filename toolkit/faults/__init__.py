"""Faults on purpose: cutting, holding and changing what passes between two parties."""
