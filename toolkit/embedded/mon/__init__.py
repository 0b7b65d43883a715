"""The embedded monitor: maps, logins, subscriptions and commands of a cluster with one monitor."""
