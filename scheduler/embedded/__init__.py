"""A cluster in one process: an in-memory API server and the claim controllers (`cluster.EmbeddedCluster`)."""
