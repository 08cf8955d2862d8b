package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type celQuestion struct {
	Expression string          `json:"expression"`
	Device     celDevice       `json:"device"`
	Env        string          `json:"env"`
	Gates      map[string]bool `json:"gates"`
	Cost       *bool           `json:"cost"`
	CostLimit  *uint64         `json:"cost_limit"`
	Result     string          `json:"result"`
}

type celDevice struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]celCapacity                 `json:"capacity"`
}

// celCapacity is a quantity, bare ("80Gi") or as in a ResourceSlice ({"value": "80Gi"}).
type celCapacity struct {
	value resource.Quantity
}

func (c *celCapacity) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("{")) {
		var capacity resourceapi.DeviceCapacity
		if err := json.Unmarshal(text, &capacity); err != nil {
			return err
		}
		c.value = capacity.Value
		return nil
	}
	return json.Unmarshal(text, &c.value)
}

// deviceCompiler is the unexported compiler type of package cel, by what it offers.
type deviceCompiler interface {
	CompileCELExpression(expression string, options dracel.Options) dracel.CompilationResult
}

// deviceCompilers exists because package cel keeps only the last one, and a fresh one takes tens of milliseconds.
var deviceCompilers = map[dracel.Features]deviceCompiler{}

func answerCEL(line []byte) map[string]any {
	var question celQuestion
	if err := json.Unmarshal(line, &question); err != nil {
		return map[string]any{"protocol_error": "cel: " + err.Error()}
	}
	envType := environment.StoredExpressions
	switch question.Env {
	case "", "stored":
	case "new":
		envType = environment.NewExpressions
	default:
		return map[string]any{"protocol_error": fmt.Sprintf("cel: env %q: want \"stored\" or \"new\"", question.Env)}
	}
	switch question.Result {
	case "", "bool", "derived":
		return answerDeviceExpression(&question, envType)
	case "any":
		return answerAnyExpression(&question, envType)
	default:
		return map[string]any{"protocol_error": fmt.Sprintf("cel: result %q: want \"bool\", \"derived\" or \"any\"", question.Result)}
	}
}

// answerDeviceExpression answers for a selector, or for an expression of derivedAttributes.
func answerDeviceExpression(question *celQuestion, envType environment.Type) map[string]any {
	features := dracel.Features{EnableConsumableCapacity: true} // the defaults of 1.36
	for name, value := range question.Gates {
		switch name {
		case "consumableCapacity":
			features.EnableConsumableCapacity = value
		case "listTypeAttributes":
			features.EnableListTypeAttributes = value
		default:
			return map[string]any{"protocol_error": fmt.Sprintf("cel: gates: unknown name %q", name)}
		}
	}
	if deviceCompilers[features] == nil {
		deviceCompilers[features] = dracel.GetCompiler(features)
	}
	withCost := question.Cost == nil || *question.Cost
	options := dracel.Options{EnvType: &envType}
	if question.Result == "derived" {
		var err error
		if options, err = derivedOptions(&envType); err != nil {
			return map[string]any{"protocol_error": "cel: " + err.Error()}
		}
	}
	options.CostLimit, options.DisableCostEstimation = question.CostLimit, !withCost
	compiled := deviceCompilers[features].CompileCELExpression(question.Expression, options)
	if compiled.Error != nil {
		return map[string]any{"compile_error": compiled.Error.Detail}
	}
	reply := map[string]any{"output_type": compiled.OutputType.String()}
	if withCost {
		reply["max_cost"] = compiled.MaxCost
	}
	published := resourceapi.Device{
		Name:                     "device",
		AllowMultipleAllocations: question.Device.AllowMultipleAllocations,
		Attributes:               question.Device.Attributes,
		Capacity:                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{},
	}
	for name, capacity := range question.Device.Capacity {
		published.Capacity[name] = resourceapi.DeviceCapacity{Value: capacity.value}
	}
	device := readDevice(question.Device.Driver, published)
	if question.Result == "derived" {
		attribute, err := deriveAttribute(compiled, device)
		if err != nil {
			reply["runtime_error"] = err.Error()
		} else {
			reply["value"] = attribute
		}
		return reply
	}
	matches, details, err := compiled.DeviceMatches(context.Background(), device)
	if details != nil && details.ActualCost() != nil {
		reply["actual_cost"] = *details.ActualCost()
	}
	if err != nil {
		reply["runtime_error"] = err.Error()
	} else {
		reply["value"] = map[string]any{"bool": fmt.Sprint(matches)}
	}
	return reply
}

var anyEnvironments *environment.EnvSet

// anyEnvironment is what every CEL feature of Kubernetes starts from, plus the cel.bind macro that DRA adds.
func anyEnvironment(envType environment.Type) (*celEnv, error) {
	if anyEnvironments == nil {
		base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
		extended, err := base.Extend(environment.VersionedOptions{
			IntroducedVersion: version.MajorMinor(1, 31),
			EnvOptions:        []celEnvOption{celBind},
		})
		if err != nil {
			return nil, err
		}
		anyEnvironments = extended
	}
	return anyEnvironments.Env(envType)
}

func answerAnyExpression(question *celQuestion, envType environment.Type) map[string]any {
	env, err := anyEnvironment(envType)
	if err != nil {
		return map[string]any{"protocol_error": "cel: " + err.Error()}
	}
	ast, issues := env.Compile(question.Expression)
	if issues != nil {
		return map[string]any{"compile_error": issues.String()}
	}
	reply := map[string]any{"output_type": ast.OutputType().String()}
	if question.Cost == nil || *question.Cost {
		estimate, estimateErr := env.EstimateCost(ast, &library.CostEstimator{})
		if estimateErr != nil {
			reply["cost_error"] = estimateErr.Error()
		} else {
			reply["max_cost"] = estimate.Max
		}
	}
	options := []celProgramOption{}
	if question.CostLimit != nil {
		options = append(options, celCostLimit(*question.CostLimit))
	}
	program, err := env.Program(ast, options...)
	if err != nil {
		// Constant folding runs here, so a constant expression may fail before it is evaluated.
		return map[string]any{"compile_error": "program: " + err.Error()}
	}
	value, details, err := program.Eval(map[string]any{})
	if details != nil && details.ActualCost() != nil {
		reply["actual_cost"] = *details.ActualCost()
	}
	if err != nil {
		reply["runtime_error"] = err.Error()
	} else {
		reply["value"] = encodeValue(value)
	}
	return reply
}

// encodeValue renders a CEL value with its type, without loss: {"int": "1"}, {"list": […]}, {"map": [[k, v], …]}.
func encodeValue(value celValue) any {
	switch typed := value.(type) {
	case *celOptional:
		if !typed.HasValue() {
			return "optional.none"
		}
		return map[string]any{"optional": encodeValue(typed.GetValue())}
	case apiservercel.Quantity:
		return map[string]any{"kubernetes.Quantity": typed.Quantity.String()}
	case apiservercel.Semver:
		return map[string]any{"kubernetes.Semver": typed.Version.String()}
	}
	if mapper, ok := value.(celMapper); ok {
		return map[string]any{"map": encodeMap(mapper)}
	}
	if lister, ok := value.(celLister); ok {
		items := []any{}
		for it := lister.Iterator(); it.HasNext() == celTrue; {
			items = append(items, encodeValue(it.Next()))
		}
		return map[string]any{"list": items}
	}
	return map[string]any{value.Type().TypeName(): fmt.Sprint(value.Value())}
}

func encodeMap(mapper celMapper) [][2]any {
	entries := [][2]any{}
	for it := mapper.Iterator(); it.HasNext() == celTrue; {
		key := it.Next()
		entries = append(entries, [2]any{encodeValue(key), encodeValue(mapper.Get(key))})
	}
	// Go's map order is random; the text of the key is as good as any other order.
	text := func(i int) string { encoded, _ := json.Marshal(entries[i][0]); return string(encoded) }
	sort.Slice(entries, func(i, j int) bool { return text(i) < text(j) })
	return entries
}
