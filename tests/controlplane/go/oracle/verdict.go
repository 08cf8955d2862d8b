package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const defaultScheduler = "default-scheduler"

// verdictsAtOnce: a case computes for 4 ms and waits for 100 ms, the period at which handlers are looked at.
const verdictsAtOnce = 48

// verdictBatch asks about several cases at once: most of the time of one is waiting for its informers.
type verdictBatch struct {
	Cases []json.RawMessage `json:"cases"`
}

// verdictCase is a cluster, a pod and perhaps a configuration: /shared/spec's form of the recorded cases.
type verdictCase struct {
	Name    string          `json:"name"`
	Cluster verdictCluster  `json:"cluster"`
	Pod     *corev1.Pod     `json:"pod"`
	Config  json.RawMessage `json:"config"`
}

type verdictCluster struct {
	Nodes                  []*corev1.Node                  `json:"nodes"`
	Pods                   []*corev1.Pod                   `json:"pods"`
	Namespaces             []*corev1.Namespace             `json:"namespaces"`
	PersistentVolumes      []*corev1.PersistentVolume      `json:"persistentVolumes"`
	PersistentVolumeClaims []*corev1.PersistentVolumeClaim `json:"persistentVolumeClaims"`
	StorageClasses         []*storagev1.StorageClass       `json:"storageClasses"`
	CSINodes               []*storagev1.CSINode            `json:"csiNodes"`
	CSIDrivers             []*storagev1.CSIDriver          `json:"csiDrivers"`
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity `json:"csiStorageCapacities"`
	VolumeAttachments      []*storagev1.VolumeAttachment   `json:"volumeAttachments"`
	Services               []*corev1.Service               `json:"services"`
	ReplicationControllers []*corev1.ReplicationController `json:"replicationControllers"`
	ReplicaSets            []*appsv1.ReplicaSet            `json:"replicaSets"`
	StatefulSets           []*appsv1.StatefulSet           `json:"statefulSets"`
	PodDisruptionBudgets   []*policyv1.PodDisruptionBudget `json:"podDisruptionBudgets"`
	PriorityClasses        []*schedulingv1.PriorityClass   `json:"priorityClasses"`
}

func (cluster *verdictCluster) objects() []kruntime.Object {
	var all []kruntime.Object
	all = appendObjects(all, cluster.Nodes)
	for _, pod := range cluster.Pods {
		// kube-scheduler's informer does not list finished pods; the fake clientset knows no field selectors.
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			all = append(all, pod)
		}
	}
	all = appendObjects(all, cluster.Namespaces)
	all = appendObjects(all, cluster.PersistentVolumes)
	all = appendObjects(all, cluster.PersistentVolumeClaims)
	all = appendObjects(all, cluster.StorageClasses)
	all = appendObjects(all, cluster.CSINodes)
	all = appendObjects(all, cluster.CSIDrivers)
	all = appendObjects(all, cluster.CSIStorageCapacities)
	all = appendObjects(all, cluster.VolumeAttachments)
	all = appendObjects(all, cluster.Services)
	all = appendObjects(all, cluster.ReplicationControllers)
	all = appendObjects(all, cluster.ReplicaSets)
	all = appendObjects(all, cluster.StatefulSets)
	all = appendObjects(all, cluster.PodDisruptionBudgets)
	return appendObjects(all, cluster.PriorityClasses)
}

// order puts each node's pods into the case's order: informers bring them in Go's map order, and preemption tells pods
// of one priority and start time apart by it.
func (cluster *verdictCluster) order(snapshot *cache.Snapshot) error {
	rank := map[string]int{}
	for index, pod := range cluster.Pods {
		rank[pod.Namespace+"/"+pod.Name] = index
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return err
	}
	for _, node := range nodes {
		slices.SortFunc(node.GetPods(), func(a, b fwk.PodInfo) int {
			return cmp.Compare(rank[a.GetPod().Namespace+"/"+a.GetPod().Name], rank[b.GetPod().Namespace+"/"+b.GetPod().Name])
		})
	}
	return nil
}

// objects also has the pod, if it waits: preemption reads it again.
func (asked *verdictCase) objects() []kruntime.Object {
	all := asked.Cluster.objects()
	if asked.Pod.Spec.NodeName == "" {
		all = append(all, asked.Pod.DeepCopy())
	}
	return all
}

func appendObjects[T kruntime.Object](all []kruntime.Object, more []T) []kruntime.Object {
	for _, one := range more {
		all = append(all, one)
	}
	return all
}

type verdict struct {
	Code    string   `json:"code"`
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
}

type preFilterVerdict struct {
	verdict
	NodeNames []string `json:"nodeNames"`
}

type nodeScores struct {
	Plugins map[string]int64 `json:"plugins"`
	Total   int64            `json:"total"`
}

// verdictAnswer has the recorded answers' form, without their details.
type verdictAnswer struct {
	Name       string                `json:"name"`
	Error      string                `json:"error,omitempty"`
	PreEnqueue *verdict              `json:"preEnqueue"`
	PreFilter  *preFilterVerdict     `json:"prefilter"`
	Nodes      map[string]verdict    `json:"nodes"`
	Scores     map[string]nodeScores `json:"scores"`
	Choices    []string              `json:"choices"`
	Message    string                `json:"message"`
	Preemption *preemptionAnswer     `json:"preemption"`
}

func answerVerdicts(line []byte) map[string]any {
	var batch verdictBatch
	if err := json.Unmarshal(line, &batch); err != nil {
		return map[string]any{"protocol_error": err.Error()}
	}
	answers := make([]*verdictAnswer, len(batch.Cases))
	var group sync.WaitGroup
	slots := make(chan struct{}, verdictsAtOnce)
	for index, text := range batch.Cases {
		slots <- struct{}{}
		group.Add(1)
		go func() {
			defer group.Done()
			defer func() { <-slots }()
			answers[index] = askScheduler(text)
		}()
	}
	group.Wait()
	return map[string]any{"answers": answers}
}

// askScheduler never panics: a case on which Go panics has that as its error.
func askScheduler(text []byte) (answer *verdictAnswer) {
	var asked verdictCase
	answer = &verdictAnswer{Nodes: map[string]verdict{}, Scores: map[string]nodeScores{}, Choices: []string{}}
	defer func() {
		if problem := recover(); problem != nil {
			answer = &verdictAnswer{Name: asked.Name, Error: fmt.Sprint("panic: ", problem)}
		}
	}()
	err := json.Unmarshal(text, &asked)
	answer.Name = asked.Name
	if err == nil && asked.Pod == nil {
		err = errors.New("no pod")
	}
	if err == nil {
		err = answer.fill(&asked)
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}

// profilesOf reads a KubeSchedulerConfiguration (v1) as kube-scheduler does, with its defaults.
func profilesOf(config json.RawMessage) ([]schedulerapi.KubeSchedulerProfile, error) {
	fields := map[string]any{}
	if len(config) > 0 {
		if err := json.Unmarshal(config, &fields); err != nil {
			return nil, err
		}
	}
	if fields == nil {
		fields = map[string]any{}
	}
	fields["apiVersion"], fields["kind"] = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	read, isConfig := decoded.(*schedulerapi.KubeSchedulerConfiguration)
	if !isConfig {
		return nil, fmt.Errorf("the configuration is a %T", decoded)
	}
	return read.Profiles, nil
}

// fill asks the real scheduler: its cache, informers and plugins over a clientset that lists the objects.
func (answer *verdictAnswer) fill(asked *verdictCase) error {
	profiles, err := profilesOf(asked.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := fake.NewSimpleClientset(asked.objects()...)
	factory := informers.NewSharedInformerFactory(client, 0)
	sched, err := scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(profiles...), scheduler.WithParallelism(1))
	if err != nil {
		return err
	}
	defer sched.SchedulingQueue.Close()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return err
	}
	profile, isKnown := sched.Profiles[defaultScheduler]
	if !isKnown {
		return errors.New("no profile of default-scheduler")
	}
	snapshot, isSnapshot := profile.SnapshotSharedLister().(*cache.Snapshot)
	if !isSnapshot {
		return errors.New("the scheduler's snapshot is of another type")
	}
	if err := sched.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return err
	}
	if err := asked.Cluster.order(snapshot); err != nil {
		return err
	}
	preempts := func(state fwk.CycleState, failure *framework.FitError) error {
		return answer.preempt(ctx, profile, preemptionArgs(profiles), state, asked.Pod, failure)
	}
	return answer.ask(ctx, profile, snapshot, asked.Pod, preempts)
}

// ask calls `preempts` when no node fits.
func (answer *verdictAnswer) ask(
	ctx context.Context, profile framework.Framework, snapshot *cache.Snapshot, pod *corev1.Pod,
	preempts func(fwk.CycleState, *framework.FitError) error,
) error {
	for _, plugin := range profile.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			status.SetPlugin(plugin.Name())
			rejected := verdictOf(status)
			answer.PreEnqueue, answer.Message = &rejected, status.Message()
			return nil
		}
	}
	all, err := snapshot.NodeInfos().List()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		answer.Message = scheduler.ErrNoNodesAvailable.Error()
		return nil
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b fwk.NodeInfo) int { return cmp.Compare(a.Node().Name, b.Node().Name) })
	state := framework.NewCycleState()
	allowed, status, narrowing := profile.RunPreFilterPlugins(ctx, state, pod)
	answer.PreFilter = &preFilterVerdict{verdict: verdictOf(status)}
	failure := &framework.FitError{Pod: pod, NumAllNodes: len(all)}
	failure.Diagnosis.NodeToStatus = framework.NewDefaultNodeToStatus()
	if !status.IsSuccess() {
		answer.Message = status.Message()
		if status.IsRejected() {
			failure.Diagnosis.PreFilterMsg = status.Message()
			failure.Diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
			return preempts(state, failure)
		}
		return nil
	}
	if !allowed.AllNodes() {
		answer.PreFilter.NodeNames = sets.List(allowed.NodeNames)
	}
	absent := fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
		fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowing)))
	var fit []fwk.NodeInfo
	var failed *fwk.Status
	for _, node := range all {
		name := node.Node().Name
		status := absent
		if allowed.AllNodes() || allowed.NodeNames.Has(name) || name == pod.Status.NominatedNodeName {
			status = profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		}
		answer.Nodes[name] = verdictOf(status)
		switch {
		case status.IsSuccess():
			fit = append(fit, node)
		case status.Code() == fwk.Error && failed == nil:
			failed = status
		}
		if !status.IsSuccess() {
			failure.Diagnosis.NodeToStatus.Set(name, status)
		}
	}
	nominated := slices.ContainsFunc(fit, func(node fwk.NodeInfo) bool {
		return node.Node().Name == pod.Status.NominatedNodeName
	})
	if failed != nil && !nominated {
		answer.Message = failed.AsError().Error()
	} else if len(fit) == 0 {
		return preempts(state, failure)
	}
	if len(fit) == 0 {
		return nil
	}
	return answer.score(ctx, profile, state, pod, fit, nominated)
}

func (answer *verdictAnswer) score(
	ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *corev1.Pod, fit []fwk.NodeInfo, nominated bool,
) error {
	if status := profile.RunPreScorePlugins(ctx, state, pod, fit); !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := profile.RunScorePlugins(ctx, state, pod, fit)
	if !status.IsSuccess() {
		return status.AsError()
	}
	best := int64(-1)
	for _, one := range scores {
		of := nodeScores{Plugins: map[string]int64{}, Total: one.TotalScore}
		for _, score := range one.Scores {
			of.Plugins[score.Name] = score.Score
		}
		answer.Scores[one.Name] = of
		if one.TotalScore > best {
			best, answer.Choices = one.TotalScore, nil
		}
		if one.TotalScore == best {
			answer.Choices = append(answer.Choices, one.Name)
		}
	}
	if nominated {
		answer.Choices = []string{pod.Status.NominatedNodeName}
	}
	return nil
}

func verdictOf(status *fwk.Status) verdict {
	if status.IsSuccess() {
		return verdict{Code: fwk.Success.String(), Reasons: []string{}}
	}
	reasons := slices.Clone(status.Reasons())
	if status.Plugin() == "NodeResourcesFit" {
		// Scalar resources come in Go's map order.
		slices.SortStableFunc(reasons, func(a, b string) int { return cmp.Compare(fitRank(a), fitRank(b)) })
	}
	return verdict{Code: status.Code().String(), Plugin: status.Plugin(), Reasons: reasons}
}

func fitRank(reason string) string {
	fixed := []string{"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"}
	if index := slices.Index(fixed, reason); index >= 0 {
		return fmt.Sprint(index)
	}
	return "x" + strings.TrimPrefix(reason, "Insufficient ")
}
