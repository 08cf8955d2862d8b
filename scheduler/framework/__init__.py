"""The plugin interface: extension points, statuses, decisions."""
