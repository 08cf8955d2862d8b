"""Configuration files as documentation of kube-scheduler and of its users shows them, written anew, and wrong ones.

Each is a KubeSchedulerConfiguration without its head. What kube-scheduler answers is asked live (`test_corpus`).
"""

from __future__ import annotations

from typing import Final

HEAD: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

ACCEPTED: Final[dict[str, str]] = {
    "nothing": "",
    "kubeconfig": """
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
leaderElection:
  leaderElect: true
""",
    "leader-election": """
leaderElection: {leaderElect: true, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 2s, resourceLock: leases,
  resourceName: my-scheduler, resourceNamespace: kube-system}
""",
    "no-election-checks-nothing": "leaderElection: {leaderElect: false, leaseDuration: 1s, renewDeadline: 2s}\n",
    "zero-times-are-defaults": "leaderElection: {leaseDuration: 0s, retryPeriod: 0s, resourceLock: ''}\n",
    "disable-score-plugin": """
profiles:
  - schedulerName: default-scheduler
    plugins:
      score:
        disabled:
          - name: PodTopologySpread
        enabled:
          - name: MyCustom
            weight: 1
""".replace("MyCustom", "ImageLocality"),
    "two-profiles": """
profiles:
  - schedulerName: default-scheduler
  - schedulerName: no-scoring-scheduler
    plugins:
      preScore:
        disabled:
          - name: '*'
      score:
        disabled:
          - name: '*'
""",
    "bin-packing": """
profiles:
  - schedulerName: bin-packing
    pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy:
            type: MostAllocated
            resources:
              - name: cpu
                weight: 1
              - name: memory
                weight: 1
              - name: nvidia.com/gpu
                weight: 3
""",
    "requested-to-capacity-ratio": """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      scoringStrategy:
        resources:
        - name: intel.com/foo
          weight: 3
        - name: intel.com/bar
          weight: 3
        requestedToCapacityRatio:
          shape:
          - utilization: 0
            score: 0
          - utilization: 100
            score: 10
        type: RequestedToCapacityRatio
""",
    "strategy-without-resources": """
profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]}]
""",
    "fit-quirk-weights-unset": """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [example.com/a], ignoredResourceGroups: [example.org],
      scoringStrategy: {type: LeastAllocated, resources: [{name: cpu}, {name: memory, weight: 0}]}}
""",
    "list-spread-defaults": """
profiles:
  - schedulerName: default-scheduler
    pluginConfig:
      - name: PodTopologySpread
        args:
          defaultConstraints:
            - maxSkew: 1
              topologyKey: topology.kubernetes.io/zone
              whenUnsatisfiable: ScheduleAnyway
          defaultingType: List
""",
    "no-spread-defaults": """
profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [], defaultingType: List}}]}]
""",
    "added-affinity": """
profiles:
  - schedulerName: default-scheduler
  - schedulerName: foo-scheduler
    pluginConfig:
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - matchExpressions:
                - key: scheduler-profile
                  operator: In
                  values:
                  - foo
            preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 10
              preference: {matchFields: [{key: metadata.name, operator: NotIn, values: [node-1]}]}
""",
    "multi-point": """
profiles:
  - schedulerName: multipoint-scheduler
    plugins:
      multiPoint:
        enabled:
        - name: ImageLocality
        - name: TaintToleration
          weight: 5
      preScore:
        disabled:
        - name: TaintToleration
""",
    "multi-point-disabled-at-a-point": """
profiles:
  - plugins:
      multiPoint: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}
      score: {disabled: [{name: NodeAffinity}], enabled: [{name: InterPodAffinity, weight: 7}]}
""",
    "only-a-few": """
profiles:
  - schedulerName: lean
    plugins:
      multiPoint:
        disabled: [{name: '*'}]
        enabled: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: TaintToleration}, {name: DefaultBinder}]
""",
    "order-of-a-point": """
profiles:
  - plugins:
      filter: {enabled: [{name: NodeResourcesFit}, {name: NodeName}], disabled: [{name: VolumeZone}]}
      postFilter: {enabled: [{name: DefaultPreemption}]}
""",
    "all-off-at-a-point-but-one": """
profiles: [{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit, weight: 3}]}}}]
""",
    "without-preemption": "profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]\n",
    "without-devices": "profiles: [{plugins: {multiPoint: {disabled: [{name: DynamicResources}]}}}]\n",
    "unknown-plugin-switched-off": "profiles: [{plugins: {filter: {disabled: [{name: NoSuchPlugin}]}}}]\n",
    "unknown-plugin-has-args": "profiles: [{pluginConfig: [{name: Coscheduling, args: {permitWaitingTime: 10}}]}]\n",
    "args-of-a-plugin-that-takes-none": "profiles: [{pluginConfig: [{name: NodePorts, args: {a: 1}}]}]\n",
    "args-of-a-plugin-that-is-off": """
profiles:
  - plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}
    pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 5}}]
""",
    "preemption-args": """
profiles:
  - pluginConfig:
      - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 5}}
      - {name: InterPodAffinity, args: {hardPodAffinityWeight: 100, ignorePreferredTermsOfExistingPods: true}}
      - {name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: nvidia.com/gpu, weight: 1}]}}
      - {name: VolumeBinding, args: {bindTimeoutSeconds: 60}}
      - {name: DynamicResources, args: {filterTimeout: 5s, bindingTimeout: 1m30s}}
""",
    "one-zero-binding-timeout": "profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 0}}]}]\n",
    "percentage": "percentageOfNodesToScore: 50\nprofiles: [{percentageOfNodesToScore: 100}]\n",
    "backoff": "podInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 120\n",
    "without-effect": """
parallelism: 32
enableProfiling: false
enableContentionProfiling: false
delayCacheUntilActive: true
clientConnection: {acceptContentTypes: '', contentType: application/json, qps: 100, burst: 200}
""",
    "extenders": """
extenders:
  - urlPrefix: http://127.0.0.1:8888/extender
    filterVerb: filter
    prioritizeVerb: prioritize
    weight: 2
    enableHTTPS: false
    httpTimeout: 10s
    nodeCacheCapable: true
    ignorable: true
    managedResources: [{name: example.com/foo, ignoredByScheduler: true}]
    tlsConfig: {insecure: true, serverName: extender}
""",
    "nulls": "parallelism: null\nprofiles: [{plugins: null, pluginConfig: null, schedulerName: null}]\n",
    "no-profiles": "profiles: []\n",
    "named-no-args": "profiles: [{pluginConfig: [{name: NodeAffinity, args: {}}]}]\n",
    "alpha-plugins": "profiles: [{plugins: {placementScore: {enabled: [{name: NodeResourcesFit}]}}}]\n",
    "removed-in-multi-point-off": "profiles: [{plugins: {multiPoint: {disabled: [{name: EBSLimits}]}}}]\n",
    "a-second-document": "parallelism: 8\n---\napiVersion: dra-scheduler/v1alpha1\nkind: DraSchedulerConfiguration\n",
    "shape-corners": """
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 10}]}
""",
    "empty-terms": """
profiles:
- pluginConfig:
  - name: NodeAffinity
    args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}
""",
    "queue-sort-said": "profiles: [{plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}]\n",
    "queue-sort-said-twice-alike": """
profiles:
- {schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}
- {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}
""",
}


def _profile(text: str) -> str:
    return f"profiles: [{{{text}}}]\n"


def _args(name: str, text: str) -> str:
    return _profile(f"pluginConfig: [{{name: {name}, args: {{{text}}}}}]")


def _plugins(text: str) -> str:
    return _profile(f"plugins: {{{text}}}")


def _strategy(text: str) -> str:
    return _args("NodeResourcesFit", f"scoringStrategy: {{{text}}}")


_CONSTRAINT: Final = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule%s}"
_RATIO: Final = "type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [%s]}"

REFUSED: Final[dict[str, tuple[str, str]]] = {
    # name: (text, what our answer begins with behind the place)
    "parallelism": ("parallelism: 0\n", "parallelism: input should be greater than or equal to 1"),
    "misspelt": ("leaderElections: {}\n", 'leaderElections: unknown field; did you mean "leaderElection"?'),
    "misspelt-below": (_profile("schedulerNam: a"), "profiles[0].schedulerNam: unknown field; did you mean"),
    "ours-among-theirs": ("healthPort: 1\n", "healthPort: is no field of kube-scheduler's: put it into a second doc"),
    "twice": (
        "parallelism: 1\nparallelism: 2\n",
        "KubeSchedulerConfiguration <unnamed>: the field parallelism is there",
    ),
    "text-for-a-number": ("parallelism: '4'\n", "parallelism: input should be a valid integer"),
    "number-for-a-text": (_profile("schedulerName: 4"), "profiles[0].schedulerName: input should be a valid string"),
    "number-for-a-duration": ("leaderElection: {leaseDuration: 15}\n", "leaderElection.leaseDuration: a duration is"),
    "no-duration": ("leaderElection: {leaseDuration: 15 s}\n", "leaderElection.leaseDuration: a duration is needed"),
    "list-for-a-mapping": ("leaderElection: []\n", "leaderElection: input should be"),
    "percentage": ("percentageOfNodesToScore: 101\n", "percentageOfNodesToScore: input should be less than or equal"),
    "percentage-of-a-profile": (
        _profile("percentageOfNodesToScore: -1"),
        "profiles[0].percentageOfNodesToScore: input should be greater than or equal to 0",
    ),
    "no-backoff": ("podInitialBackoffSeconds: 0\n", "podInitialBackoffSeconds: input should be greater than or equal"),
    "backoff": ("podInitialBackoffSeconds: 11\n", "podMaxBackoffSeconds: Invalid value: 10: must not be less than"),
    "burst": ("clientConnection: {burst: -1}\n", "clientConnection.burst: input should be greater than or equal to 0"),
    "lease": (
        "leaderElection: {leaseDuration: 10s}\n",
        'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
    ),
    "lock": (
        "leaderElection: {resourceLock: endpoints}\n",
        'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
    ),
    "same-name": (
        "profiles: [{schedulerName: a}, {schedulerName: a}]\n",
        'profiles[1].schedulerName: Duplicate value: "a"',
    ),
    "no-name": (
        "profiles: [{schedulerName: a}, {}]\n",
        "profiles[1].schedulerName: Required value: of several profiles",
    ),
    "empty-name": (_profile("schedulerName: ''"), "profiles[0].schedulerName: a DNS subdomain is needed"),
    "queue-sorts": (
        "profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}, {schedulerName: b}]\n",
        "profiles[1].plugins.queueSort: Invalid value: null: must be the same for all profiles",
    ),
    "no-such-plugin": (
        _plugins("filter: {enabled: [{name: NodeResourceFit}]}"),
        'profiles[0].plugins.filter.enabled[0].name: Invalid value: "NodeResourceFit": there is no such plugin; '
        'did you mean "NodeResourcesFit"?',
    ),
    "gone-plugin": (
        _plugins("score: {enabled: [{name: NodeResourcesMostAllocated}]}"),
        'profiles[0].plugins.score.enabled[0].name: Invalid value: "NodeResourcesMostAllocated": there is no such '
        "plugin any more; instead: NodeResourcesFit, with args.scoringStrategy.type: MostAllocated",
    ),
    "removed-plugin": (
        _plugins("filter: {enabled: [{name: EBSLimits}]}"),
        'profiles[0].plugins.filter.enabled[0].name: Invalid value: "EBSLimits": there is no such plugin any more',
    ),
    "removed-plugin-has-args": (
        _profile("pluginConfig: [{name: GCEPDLimits}]"),
        'profiles[0].pluginConfig[0]: Invalid value: "GCEPDLimits": there is no such plugin any more',
    ),
    "no-such-point": (_plugins("filters: {}"), 'profiles[0].plugins.filters: unknown field; did you mean "filter"?'),
    "wrong-point": (
        _plugins("score: {enabled: [{name: NodePorts}]}"),
        'profiles[0].plugins.score.enabled[0].name: Invalid value: "NodePorts": does not extend score; its extension',
    ),
    "plugin-twice": (
        _plugins("score: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}"),
        'profiles[0].plugins.score.enabled[1].name: Duplicate value: "NodeAffinity"',
    ),
    "default-plugin-twice": (
        _plugins("multiPoint: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}"),
        'profiles[0].plugins.multiPoint.enabled[0].name: Duplicate value: "NodeAffinity"',
    ),
    "nothing-on": (_plugins("multiPoint: {disabled: [{name: '*'}]}"), "profiles[0].plugins.bind: Invalid value: []"),
    "no-binder": (_plugins("bind: {disabled: [{name: '*'}]}"), "profiles[0].plugins.bind: Invalid value: []: at least"),
    "no-queue-sort": (
        _plugins("queueSort: {disabled: [{name: PrioritySort}]}"),
        "profiles[0].plugins.queueSort: Invalid value: []: exactly one is needed",
    ),
    "args-twice": (
        _profile("pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]"),
        'profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"',
    ),
    "unknown-arg": (
        _args("InterPodAffinity", "hardPodAffinityWeigth: 1"),
        'profiles[0].pluginConfig[0].args.hardPodAffinityWeigth: unknown field; did you mean "hardPodAffinityWeight"?',
    ),
    "args-of-another-kind": (
        _args("NodeAffinity", "apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs"),
        'profiles[0].pluginConfig[0].args.kind: Invalid value: "InterPodAffinityArgs": must be NodeAffinityArgs',
    ),
    "args-of-another-version": (
        _args("NodeAffinity", "apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: NodeAffinityArgs"),
        "profiles[0].pluginConfig[0].args.apiVersion: input should be",
    ),
    "hard-weight": (
        _args("InterPodAffinity", "hardPodAffinityWeight: 101"),
        "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
    ),
    "candidates": (
        _args("DefaultPreemption", "minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0"),
        "profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time",
    ),
    "candidates-percentage": (
        _args("DefaultPreemption", "minCandidateNodesPercentage: 101"),
        "profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
    ),
    "candidates-negative": (
        _args("DefaultPreemption", "minCandidateNodesAbsolute: -1"),
        "profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
    ),
    "strategy": (
        _strategy("type: Balanced"),
        'profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Balanced": supported values:',
    ),
    "strategy-without-type": (
        _strategy("resources: [{name: cpu, weight: 1}]"),
        'profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "": supported values:',
    ),
    "strategy-weight": (
        _strategy("type: LeastAllocated, resources: [{name: cpu, weight: 101}]"),
        "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight",
    ),
    "ratio-missing": (
        _strategy("type: RequestedToCapacityRatio"),
        "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio: Required value: must be specified",
    ),
    "ratio-without-that-type": (
        _strategy("type: LeastAllocated, requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}]}"),
        "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil",
    ),
    "no-shape": (
        _strategy(_RATIO % ""),
        "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one",
    ),
    "shape-falls": (
        _strategy(_RATIO % "{utilization: 10, score: 0}, {utilization: 10, score: 1}"),
        "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[1].utilization: "
        "Invalid value: 10: values must be sorted in increasing order",
    ),
    "shape-score": (
        _strategy(_RATIO % "{utilization: 101, score: 11}"),
        "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: "
        "not in valid range [0, 10]",
    ),
    "ignored-group": (
        _args("NodeResourcesFit", "ignoredResourceGroups: [example.com/a]"),
        'profiles[0].pluginConfig[0].args.ignoredResourceGroups[0]: Invalid value: "example.com/a": resource group',
    ),
    "ignored-name": (
        _args("NodeResourcesFit", "ignoredResources: ['a b']"),
        'profiles[0].pluginConfig[0].args.ignoredResources[0]: Invalid value: "a b": name part must consist of',
    ),
    "balanced-weight": (
        _args("NodeResourcesBalancedAllocation", "resources: [{name: cpu, weight: 2}, {name: cpu}]"),
        "profiles[0].pluginConfig[0].args.resources[0].weight: Invalid value: 2: must be 1",
    ),
    "system-with-constraints": (
        _args("PodTopologySpread", f"defaultConstraints: [{_CONSTRAINT % ''}]"),
        'profiles[0].pluginConfig[0].args.defaultingType: Invalid value: "System": when .defaultConstraints',
    ),
    "defaulting-type": (
        _args("PodTopologySpread", "defaultingType: Lists"),
        'profiles[0].pluginConfig[0].args.defaultingType: Unsupported value: "Lists": supported values: "List"',
    ),
    "constraint-selector": (
        _args(
            "PodTopologySpread", f"defaultingType: List, defaultConstraints: [{_CONSTRAINT % ', labelSelector: {}'}]"
        ),
        "profiles[0].pluginConfig[0].args.defaultConstraints[0].labelSelector: Forbidden: constraint must not define",
    ),
    "constraint-twice": (
        _args(
            "PodTopologySpread", f"defaultingType: List, defaultConstraints: [{_CONSTRAINT % ''}, {_CONSTRAINT % ''}]"
        ),
        'profiles[0].pluginConfig[0].args.defaultConstraints[1]: Duplicate value: "{zone, DoNotSchedule}"',
    ),
    "constraint-empty": (
        _args("PodTopologySpread", "defaultingType: List, defaultConstraints: [{}]"),
        "profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
    ),
    "constraint-action": (
        _args(
            "PodTopologySpread",
            "defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a/b/c, whenUnsatisfiable: No}]",
        ),
        "profiles[0].pluginConfig[0].args.defaultConstraints[0].whenUnsatisfiable: input should be a valid string",
    ),
    "added-operator": (
        _args(
            "NodeAffinity",
            "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: "
            "[{key: a, operator: Within, values: [b]}]}]}}",
        ),
        "profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution."
        'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Within"',
    ),
    "added-preferred": (
        _args(
            "NodeAffinity",
            "addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchFields: "
            "[{key: metadata.name, operator: In, values: [a, b]}]}}]}",
        ),
        "profiles[0].pluginConfig[0].args.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].matchFields[0]",
    ),
    "volume-timeout": (
        _args("VolumeBinding", "bindTimeoutSeconds: -1"),
        "profiles[0].pluginConfig[0].args.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds",
    ),
    "volume-shape": (
        _args("VolumeBinding", "shape: [{utilization: 0, score: 0}, {utilization: 0, score: 11}]"),
        "profiles[0].pluginConfig[0].args.shape[1].utilization: Invalid value: 0: values must be sorted",
    ),
    "binding-timeout": (
        _args("DynamicResources", "bindingTimeout: 500ms"),
        "profiles[0].pluginConfig[0].args.bindingTimeout: input should be greater than or equal to 1",
    ),
    "extender-weight": (
        "extenders: [{urlPrefix: 'http://a', prioritizeVerb: p}]\n",
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
    ),
    "extender-binders": (
        "extenders: [{bindVerb: b, urlPrefix: 'http://a'}, {bindVerb: b, urlPrefix: 'http://a'}]\n",
        'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
    ),
    "extender-field": ("extenders: [{url: a}]\n", "extenders[0].url: unknown field"),
}
