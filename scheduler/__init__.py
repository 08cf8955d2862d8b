"""dra-scheduler: a Kubernetes scheduler in pure Python that gives pods their devices."""
