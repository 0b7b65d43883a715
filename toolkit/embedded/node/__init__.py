"""An embedded monitor or OSD as a node: takes commands over its control channel and writes its history."""
