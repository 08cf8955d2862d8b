"""From syntax tree to types: declarations, environments by Kubernetes version, unification."""
