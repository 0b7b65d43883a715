"""Print the JSON schema of cluster specs: ``python -m toolkit.cluster.spec > clusters/schema.json``."""

from toolkit.cluster.spec.schema import schema_text

print(schema_text(), end="")
