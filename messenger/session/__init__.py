"""What outlives links: policy, queues, sequence numbers, replay, backoff (docs/protocol.md §3.8, §3.9, §4.9)."""
