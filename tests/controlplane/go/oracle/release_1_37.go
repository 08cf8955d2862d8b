//go:build kubernetes_1_37 || kubernetes_1_38

package main

import (
	"context"

	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	dracel "k8s.io/dynamic-resource-allocation/cel"
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

// derivedOptions are those for compiling an expression of derivedAttributes.
func derivedOptions(envType *environment.Type) (dracel.Options, error) {
	return dracel.Options{EnvType: envType, DerivedAttribute: true}, nil
}

// deriveAttribute evaluates such an expression.
func deriveAttribute(compiled dracel.CompilationResult, device dracel.Device) (any, error) {
	attribute, _, err := compiled.EvaluateDerivedAttribute(context.Background(), device)
	return attribute, err
}
