package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// answerSchedulerConfig reads a configuration file as cmd/kube-scheduler does: decoding with defaults,
// validation, and the profiles built by scheduler.New, which is where plugins are looked up.
func answerSchedulerConfig(line []byte) map[string]any {
	var question struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return map[string]any{"protocol_error": err.Error()}
	}
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode([]byte(question.Text), nil, nil)
	if err != nil {
		return refusedConfig("decode", err)
	}
	configuration, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return refusedConfig("decode", fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s", kind))
	}
	configuration.TypeMeta.APIVersion = kind.GroupVersion().String()
	if errs := validation.ValidateKubeSchedulerConfiguration(configuration); errs != nil {
		texts := []string{}
		for _, one := range errs.Errors() {
			texts = append(texts, one.Error())
		}
		return map[string]any{"accepted": false, "stage": "validate", "errors": texts}
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	encoded, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion), configuration)
	if err != nil {
		return map[string]any{"protocol_error": "encoding: " + err.Error()}
	}
	profiles, err := builtProfiles(configuration)
	if err != nil {
		return refusedConfig("build", err)
	}
	return map[string]any{"accepted": true, "yaml": string(encoded), "profiles": profiles}
}

func refusedConfig(stage string, err error) map[string]any {
	return map[string]any{"accepted": false, "stage": stage, "errors": []string{err.Error()}}
}

// builtProfiles are the plugins of each scheduler name by extension point, in the order in which they are called.
func builtProfiles(configuration *config.KubeSchedulerConfiguration) (map[string]*config.Plugins, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, err := clientset.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"}) // informers are not started
	if err != nil {
		return nil, err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	built, err := scheduler.New(
		ctx,
		client,
		newInformerFactory(client),
		nil,
		profile.NewRecorderFactory(broadcaster),
		scheduler.WithComponentConfigVersion(configuration.TypeMeta.APIVersion),
		scheduler.WithProfiles(configuration.Profiles...),
		scheduler.WithPercentageOfNodesToScore(configuration.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(configuration.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(configuration.PodInitialBackoffSeconds),
		scheduler.WithExtenders(configuration.Extenders...),
		scheduler.WithParallelism(configuration.Parallelism),
	)
	if err != nil {
		return nil, err
	}
	profiles := map[string]*config.Plugins{}
	for name, framework := range built.Profiles {
		profiles[name] = framework.ListPlugins()
	}
	return profiles, nil
}
