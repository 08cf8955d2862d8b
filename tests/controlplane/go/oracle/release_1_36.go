//go:build kubernetes_1_36

package main

import (
	"errors"

	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler"
)

// newInformerFactory is the scheduler's, whose arguments differ between releases.
func newInformerFactory(client clientset.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0)
}

// ownFeatures are the allocator's features that this release has beside those of all.
func ownFeatures(*structured.Features) map[string]*bool { return nil }

// derivedOptions are those for compiling an expression of derivedAttributes, which this release does not have.
func derivedOptions(*environment.Type) (dracel.Options, error) {
	return dracel.Options{}, errors.New("derived attributes are of 1.37")
}

func deriveAttribute(dracel.CompilationResult, dracel.Device) (any, error) { return nil, nil }
