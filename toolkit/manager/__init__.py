"""A manager: sessions and reports of real daemons, beacons to the monitors, failover (docs/manager.md)."""
