//go:build kubernetes_1_36

package main

import (
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler"
)

// newInformerFactory is the scheduler's, whose arguments differ between releases.
func newInformerFactory(client clientset.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0)
}

// ownFeatures are the allocator's features that this release has beside those of all.
func ownFeatures(*structured.Features) map[string]*bool { return nil }

// setOwnDefaults sets those of them whose gate is on by default.
func setOwnDefaults(*structured.Features) {}
