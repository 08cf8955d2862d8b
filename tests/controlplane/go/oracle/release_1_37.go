//go:build kubernetes_1_37

package main

import (
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler"
)

// newInformerFactory is the scheduler's, whose arguments differ between releases.
func newInformerFactory(client clientset.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0, nil)
}

// ownFeatures are the allocator's features that this release has beside those of all.
func ownFeatures(features *structured.Features) map[string]*bool {
	return map[string]*bool{
		"CompatibilityGroups":     &features.CompatibilityGroups,
		"DerivedAttributes":       &features.DerivedAttributes,
		"FractionalCapacityRange": &features.FractionalCapacityRange,
		"OptionalNodeOperations":  &features.OptionalNodeOperations,
	}
}

// setOwnDefaults sets those of them whose gate is on by default.
func setOwnDefaults(features *structured.Features) {
	features.FractionalCapacityRange = true
}
