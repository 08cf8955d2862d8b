//go:build kubernetes_1_38

package main

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	resourceapi "k8s.io/api/resource/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	draapi "k8s.io/dynamic-resource-allocation/api"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// What is used of cel-go.
type (
	celEnv           = cel.Env
	celEnvOption     = cel.EnvOption
	celLister        = traits.Lister
	celMapper        = traits.Mapper
	celOptional      = types.Optional
	celProgramOption = cel.ProgramOption
	celValue         = ref.Val
)

const celTrue = types.True

var (
	celBind      = ext.Bindings(ext.BindingsVersion(0))
	celCostLimit = cel.CostLimit
)

// candidate is a node with its victims.
type candidate = fwk.PreemptionCandidate

// usedShare is how the allocator's state names a share that is in use: by the device alone.
type usedShare = structured.DeviceID

func shareOf(device structured.DeviceID, _ *apitypes.UID) usedShare { return device }

// readSlices are slices as the allocator takes them: converted, as the scheduler's tracker does.
func readSlices(slices []*resourceapi.ResourceSlice) []*draapi.ResourceSlice {
	converted := make([]*draapi.ResourceSlice, len(slices))
	for i, one := range slices {
		converted[i] = &draapi.ResourceSlice{}
		if err := draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(one, converted[i], nil); err != nil {
			panic(err)
		}
	}
	return converted
}

// readDevice is a device as its selectors see it.
func readDevice(driver string, device resourceapi.Device) dracel.Device {
	spec := resourceapi.ResourceSliceSpec{Driver: driver, Devices: []resourceapi.Device{device}}
	slice := readSlices([]*resourceapi.ResourceSlice{{Spec: spec}})[0]
	read := slice.Spec.Devices[0]
	return dracel.Device{
		Driver:                   driver,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
		LookupUniqueString:       slice.LookupUniqueString,
		Attributes:               read.Attributes,
		Capacity:                 read.Capacity,
	}
}

// setOwnDefaults sets those of ownFeatures whose gate is on by default.
func setOwnDefaults(features *structured.Features) { features.FractionalCapacityRange = true }
