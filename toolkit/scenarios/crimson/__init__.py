"""The failover table of Ceph's crimson messenger: 40 functions, 109 sub-runs, counters per connection instance."""
