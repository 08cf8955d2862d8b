//go:build kubernetes_1_36 || kubernetes_1_37

package main

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	resourceapi "k8s.io/api/resource/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// What is used of cel-go, whose module has another path since 1.38.
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
type candidate = preemption.Candidate

// usedShare is how the allocator's state names a share that is in use.
type usedShare = structured.SharedDeviceID

func shareOf(device structured.DeviceID, share *apitypes.UID) usedShare {
	return structured.MakeSharedDeviceID(device, share)
}

// readSlices are slices as the allocator takes them.
func readSlices(slices []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice { return slices }

// readDevice is a device as its selectors see it.
func readDevice(driver string, device resourceapi.Device) dracel.Device {
	return dracel.Device{
		Driver:                   driver,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
		Attributes:               device.Attributes,
		Capacity:                 device.Capacity,
	}
}

// setOwnDefaults sets those of ownFeatures whose gate is on by default: none. DRAFractionalCapacityRange is in 1.37 where
// the minimum compatibility version is 1.37, and by default it is 1.36.
func setOwnDefaults(*structured.Features) {}
