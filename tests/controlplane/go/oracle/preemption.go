package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// tiedChoices: of two candidates that nothing distinguishes Go's map order chooses; so often one of them is not chosen
// by chance in one run of 2^64.
const tiedChoices = 64

// preemptionAnswer has the recorded answers' form.
type preemptionAnswer struct {
	Code          string                     `json:"code"`
	Message       string                     `json:"message"`
	NominatedNode *string                    `json:"nominatedNode"`
	Victims       []string                   `json:"victims"`
	AnyOf         []string                   `json:"anyOf"`
	Candidates    map[string]candidateAnswer `json:"candidates"`
	Rejected      map[string]verdict         `json:"rejected"`
}

type candidateAnswer struct {
	Victims       []string `json:"victims"`
	PDBViolations int64    `json:"pdbViolations"`
}

// preemptionArgs are those of the plugin DefaultPreemption, nil where it has none.
func preemptionArgs(profiles []schedulerapi.KubeSchedulerProfile) *schedulerapi.DefaultPreemptionArgs {
	for _, profile := range profiles {
		for _, config := range profile.PluginConfig {
			if args, isOf := config.Args.(*schedulerapi.DefaultPreemptionArgs); isOf {
				return args
			}
		}
	}
	return nil
}

// preempt runs PostFilter, as schedulingAlgorithm of schedule_one.go does, and tells what it chose from.
func (answer *verdictAnswer) preempt(
	ctx context.Context, profile framework.Framework, args *schedulerapi.DefaultPreemptionArgs,
	state fwk.CycleState, pod *corev1.Pod, failure *framework.FitError,
) error {
	answer.Message = failure.Error()
	if !profile.HasPostFilterPlugins() || pod.Spec.NodeName != "" {
		return nil
	}
	told := &preemptionAnswer{
		Victims: []string{}, AnyOf: []string{}, Candidates: map[string]candidateAnswer{}, Rejected: map[string]verdict{},
	}
	// Before PostFilter is run, which removes the victims from the clientset.
	evaluator, candidates, err := told.dryRun(ctx, profile, args, state, pod, failure)
	if err != nil {
		return err
	}
	result, status := profile.RunPostFilterPlugins(ctx, state, pod, failure.Diagnosis.NodeToStatus)
	failure.Diagnosis.PostFilterMsg = status.Message()
	answer.Message, answer.Preemption = failure.Error(), told
	told.Code, told.Message = status.Code().String(), status.Message()
	if result != nil && result.Mode() != fwk.ModeNoop {
		told.NominatedNode = &result.NominatedNodeName
	}
	if !status.IsSuccess() {
		told.Candidates = map[string]candidateAnswer{}
		return nil
	}
	told.AnyOf = tiedWith(ctx, evaluator, candidates, *told.NominatedNode)
	first := told.AnyOf[0]
	told.NominatedNode, told.Victims = &first, told.Candidates[first].Victims
	return nil
}

// dryRun tries every node that preemption tries, and fills in what it finds.
func (told *preemptionAnswer) dryRun(
	ctx context.Context, profile framework.Framework, args *schedulerapi.DefaultPreemptionArgs,
	state fwk.CycleState, pod *corev1.Pod, failure *framework.FitError,
) (*preemption.Evaluator, []candidate, error) {
	if args == nil {
		return nil, nil, nil
	}
	plugin, err := defaultpreemption.New(ctx, args, profile, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, nil, err
	}
	evaluator := plugin.Evaluator
	nodes, err := failure.Diagnosis.NodeToStatus.NodesForStatusCode(profile.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return evaluator, nil, err
	}
	if _, wanted := evaluator.GetOffsetAndNumCandidates(int32(len(nodes))); int(wanted) < len(nodes) {
		return nil, nil, fmt.Errorf("of %d nodes %d are tried, by chance", len(nodes), wanted)
	}
	budgets, err := evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, nil, err
	}
	// An error is PostFilter's answer, too, unless there are candidates.
	candidates, rejected, _ := evaluator.DryRunPreemption(ctx, state, pod, nodes, budgets, 0, int32(len(nodes)))
	for _, one := range candidates {
		victims := []string{}
		for _, victim := range one.Victims().Pods {
			victims = append(victims, victim.Namespace+"/"+victim.Name)
		}
		told.Candidates[one.Name()] = candidateAnswer{victims, one.Victims().NumPDBViolations}
	}
	for _, node := range nodes {
		if name := node.Node().Name; rejected != nil && told.Candidates[name].Victims == nil {
			told.Rejected[name] = verdictOf(rejected.Get(name))
		}
	}
	return evaluator, candidates, nil
}

// tiedWith are the nodes, sorted, that could have been chosen as well as `chosen`.
func tiedWith(ctx context.Context, evaluator *preemption.Evaluator, candidates []candidate, chosen string) []string {
	tied := []string{chosen}
	index := slices.IndexFunc(candidates, func(one candidate) bool { return one.Name() == chosen })
	for _, other := range candidates {
		if other.Name() == chosen {
			continue
		}
		for range tiedChoices {
			if evaluator.SelectCandidate(ctx, []candidate{candidates[index], other}).Name() == other.Name() {
				tied = append(tied, other.Name())
				break
			}
		}
	}
	slices.Sort(tied)
	return tied
}
