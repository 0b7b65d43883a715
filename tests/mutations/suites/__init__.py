"""What is to notice mutants: one module each.

A suite is run in a process of its own, in which the messenger is imported with the mistake. It has

* ``parts()``: what it consists of, each part with a digest of its source, so that only what changed is run again;
* ``play(parts, deep)``: runs parts, and yields before each one ``(part, "")`` and for each mistake noticed
  ``(part, what)``.
"""
