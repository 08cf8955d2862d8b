"""The controllers of the embedded cluster, and what stands in for kubelets and kube-controller-manager."""
