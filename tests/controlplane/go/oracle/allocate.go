package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// allocateCase is one call of Allocate: the node, everything the scheduler would know, and the claims.
type allocateCase struct {
	Name            string                       `json:"name"`
	Features        map[string]bool              `json:"features"`
	Node            *corev1.Node                 `json:"node"`
	Slices          []*resourceapi.ResourceSlice `json:"slices"`
	Classes         []*resourceapi.DeviceClass   `json:"classes"`
	Claims          []*resourceapi.ResourceClaim `json:"claims"`
	Allocated       []deviceInUse                `json:"allocated"`
	AllocatedShared []deviceInUse                `json:"allocatedShared"`
	Repeat          int                          `json:"repeat"`
	TimeoutMS       int                          `json:"timeout_ms"`
}

type deviceInUse struct {
	Driver           string                                          `json:"driver"`
	Pool             string                                          `json:"pool"`
	Device           string                                          `json:"device"`
	ShareID          *types.UID                                      `json:"shareID"`
	ConsumedCapacity map[resourceapi.QualifiedName]resource.Quantity `json:"consumedCapacity"`
}

// defaultFeatures are kube-scheduler's gates as its plugin passes them to the allocator.
func defaultFeatures() structured.Features {
	features := structured.Features{
		AdminAccess:            true,
		ConsumableCapacity:     true,
		DeviceBindingAndStatus: true,
		DeviceTaints:           true,
		PartitionableDevices:   true,
		PrioritizedList:        true,
	}
	setOwnDefaults(&features)
	return features
}

func applyFeatures(features *structured.Features, overrides map[string]bool) error {
	fields := map[string]*bool{
		"AdminAccess":            &features.AdminAccess,
		"ConsumableCapacity":     &features.ConsumableCapacity,
		"DeviceBindingAndStatus": &features.DeviceBindingAndStatus,
		"DeviceTaints":           &features.DeviceTaints,
		"ListTypeAttributes":     &features.ListTypeAttributes,
		"PartitionableDevices":   &features.PartitionableDevices,
		"PrioritizedList":        &features.PrioritizedList,
	}
	maps.Copy(fields, ownFeatures(features))
	for name, value := range overrides {
		field, found := fields[name]
		if !found {
			return fmt.Errorf("features: unknown name %q", name)
		}
		*field = value
	}
	return nil
}

type classLister []*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name) // singular, as the informer's lister says it
}

// celCaches keeps compiled selectors between questions, as a running scheduler does.
var celCaches = map[dracel.Features]*dracel.Cache{}

func celCache(features structured.Features) *dracel.Cache {
	key := dracel.Features{
		EnableConsumableCapacity: features.ConsumableCapacity,
		EnableListTypeAttributes: features.ListTypeAttributes,
	}
	if celCaches[key] == nil {
		celCaches[key] = dracel.NewCache(1000, key)
	}
	return celCaches[key]
}

func allocatedState(question *allocateCase) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[usedShare](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, device := range question.Allocated {
		state.AllocatedDevices.Insert(structured.MakeDeviceID(device.Driver, device.Pool, device.Device))
	}
	for _, device := range question.AllocatedShared {
		id := structured.MakeDeviceID(device.Driver, device.Pool, device.Device)
		state.AllocatedSharedDeviceIDs.Insert(shareOf(id, device.ShareID))
		if device.ConsumedCapacity != nil {
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, device.ConsumedCapacity))
		}
	}
	return state
}

// stepsOf is upstream's own measure of effort, the number of allocateOne calls. The interface that
// offers it names types of an internal package, hence reflection.
func stepsOf(allocator structured.Allocator) int64 {
	method := reflect.ValueOf(allocator).MethodByName("GetStats")
	if !method.IsValid() {
		return -1
	}
	return method.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
}

func answerAllocate(line []byte) map[string]any {
	var question allocateCase
	if err := json.Unmarshal(line, &question); err != nil {
		return map[string]any{"protocol_error": "allocate: " + err.Error()}
	}
	features := defaultFeatures()
	if err := applyFeatures(&features, question.Features); err != nil {
		return map[string]any{"protocol_error": "allocate: " + err.Error()}
	}
	timeout := 30 * time.Second
	if question.TimeoutMS > 0 {
		timeout = time.Duration(question.TimeoutMS) * time.Millisecond
	}

	var reply map[string]any
	var nanos []int64
	for range max(question.Repeat, 1) {
		// Allocate changes some of its inputs in place (quantities such as 2.5Gi), so every run gets its own.
		var fresh allocateCase
		if err := json.Unmarshal(line, &fresh); err != nil {
			return map[string]any{"protocol_error": "allocate: " + err.Error()}
		}
		state := allocatedState(&fresh)
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		begin := time.Now()
		allocator, err := structured.NewAllocator(ctx, features, state, classLister(fresh.Classes), readSlices(fresh.Slices), celCache(features))
		var allocations []resourceapi.AllocationResult
		if err == nil {
			allocations, err = allocator.Allocate(ctx, fresh.Node, fresh.Claims)
		}
		nanos = append(nanos, time.Since(begin).Nanoseconds())
		cancel()
		if reply != nil {
			continue
		}
		reply = map[string]any{"name": question.Name}
		if allocator != nil {
			reply["steps"] = stepsOf(allocator)
			reply["variant"] = variantOf(allocator)
		}
		switch {
		case err != nil:
			reply["outcome"] = "error"
			reply["error"] = err.Error()
			if errors.Is(err, structured.ErrFailedAllocationOnNode) {
				reply["nodeOnly"] = true
			}
		case allocations == nil:
			reply["outcome"] = "none"
		default:
			reply["outcome"] = "allocated"
			normalizeShareIDs(allocations)
			reply["allocations"] = allocations
		}
	}
	slices.Sort(nanos)
	reply["nanos"] = nanos[0]
	reply["nanos_median"] = nanos[len(nanos)/2]
	return reply
}

// normalizeShareIDs replaces the random share ids by share-1, share-2, … in order of appearance.
func normalizeShareIDs(allocations []resourceapi.AllocationResult) {
	names := map[types.UID]types.UID{}
	for i := range allocations {
		results := allocations[i].Devices.Results
		for j := range results {
			if results[j].ShareID == nil {
				continue
			}
			old := *results[j].ShareID
			if _, found := names[old]; !found {
				names[old] = types.UID(fmt.Sprintf("share-%d", len(names)+1))
			}
			name := names[old]
			results[j].ShareID = &name
		}
	}
}

func variantOf(allocator structured.Allocator) string {
	name := fmt.Sprintf("%T", allocator)
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "*"), ".")
	return name
}
