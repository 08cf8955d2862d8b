"""The fields of workloads and of the DRA kinds, and the kinds that Kubernetes has, as the API's own schema says.

A line of the table is a type: its fields with their types; `!` marks required ones. s text, i integer, b boolean,
n number, q quantity, x integer or text, * anything, [T] list, {T} map.

Not here: what a value of the right type must be (`server_rules` asks `scheduler.validation`); rules (`workloads`).

Source: k8s.io/kubernetes v1.36.3 api/openapi-spec/swagger.json; `tests/lint/test_api_fields.py` compares with the
client's models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from scheduler.lint.shapes import (
    Anything,
    ListOf,
    MapOf,
    Object,
    Scalar,
    Shape,
    boolean,
    integer,
    number,
    number_or_text,
    quantity,
    text,
)
from scheduler.model.api_rules import LIST_ATTRIBUTES, SCALAR_ATTRIBUTES

_TYPES: Final = """
Pod = metadata:ObjectMeta spec:PodSpec status:*
PodSpec = activeDeadlineSeconds:i affinity:Affinity automountServiceAccountToken:b containers!:[Container]
  dnsConfig:PodDNSConfig dnsPolicy:s enableServiceLinks:b ephemeralContainers:[EphemeralContainer]
  hostAliases:[HostAlias] hostIPC:b hostNetwork:b hostPID:b hostUsers:b hostname:s hostnameOverride:s
  imagePullSecrets:[LocalObjectReference] initContainers:[Container] nodeName:s nodeSelector:{s} os:PodOS
  overhead:{q} preemptionPolicy:s priority:i priorityClassName:s readinessGates:[PodReadinessGate]
  resourceClaims:[PodResourceClaim] resources:ResourceRequirements restartPolicy:s runtimeClassName:s
  schedulerName:s schedulingGates:[PodSchedulingGate] schedulingGroup:PodSchedulingGroup
  securityContext:PodSecurityContext serviceAccount:s serviceAccountName:s setHostnameAsFQDN:b
  shareProcessNamespace:b subdomain:s terminationGracePeriodSeconds:i tolerations:[Toleration]
  topologySpreadConstraints:[TopologySpreadConstraint] volumes:[Volume]
Affinity = nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
NodeAffinity = preferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm]
  requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
PreferredSchedulingTerm = preference!:NodeSelectorTerm weight!:i
NodeSelectorTerm = matchExpressions:[NodeSelectorRequirement] matchFields:[NodeSelectorRequirement]
NodeSelectorRequirement = key!:s operator!:s values:[s]
NodeSelector = nodeSelectorTerms!:[NodeSelectorTerm]
PodAffinity = preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
WeightedPodAffinityTerm = podAffinityTerm!:PodAffinityTerm weight!:i
PodAffinityTerm = labelSelector:LabelSelector matchLabelKeys:[s] mismatchLabelKeys:[s]
  namespaceSelector:LabelSelector namespaces:[s] topologyKey!:s
LabelSelector = matchExpressions:[LabelSelectorRequirement] matchLabels:{s}
LabelSelectorRequirement = key!:s operator!:s values:[s]
PodAntiAffinity = preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
Container = args:[s] command:[s] env:[EnvVar] envFrom:[EnvFromSource] image:s imagePullPolicy:s lifecycle:Lifecycle
  livenessProbe:Probe name!:s ports:[ContainerPort] readinessProbe:Probe resizePolicy:[ContainerResizePolicy]
  resources:ResourceRequirements restartPolicy:s restartPolicyRules:[ContainerRestartRule]
  securityContext:SecurityContext startupProbe:Probe stdin:b stdinOnce:b terminationMessagePath:s
  terminationMessagePolicy:s tty:b volumeDevices:[VolumeDevice] volumeMounts:[VolumeMount] workingDir:s
EnvVar = name!:s value:s valueFrom:EnvVarSource
EnvVarSource = configMapKeyRef:ConfigMapKeySelector fieldRef:ObjectFieldSelector fileKeyRef:FileKeySelector
  resourceFieldRef:ResourceFieldSelector secretKeyRef:SecretKeySelector
ConfigMapKeySelector = key!:s name:s optional:b
ObjectFieldSelector = apiVersion:s fieldPath!:s
FileKeySelector = key!:s optional:b path!:s volumeName!:s
ResourceFieldSelector = containerName:s divisor:q resource!:s
SecretKeySelector = key!:s name:s optional:b
EnvFromSource = configMapRef:ConfigMapEnvSource prefix:s secretRef:SecretEnvSource
ConfigMapEnvSource = name:s optional:b
SecretEnvSource = name:s optional:b
Lifecycle = postStart:LifecycleHandler preStop:LifecycleHandler stopSignal:s
LifecycleHandler = exec:ExecAction httpGet:HTTPGetAction sleep:SleepAction tcpSocket:TCPSocketAction
ExecAction = command:[s]
HTTPGetAction = host:s httpHeaders:[HTTPHeader] path:s port!:x scheme:s
HTTPHeader = name!:s value!:s
SleepAction = seconds!:i
TCPSocketAction = host:s port!:x
Probe = exec:ExecAction failureThreshold:i grpc:GRPCAction httpGet:HTTPGetAction initialDelaySeconds:i
  periodSeconds:i successThreshold:i tcpSocket:TCPSocketAction terminationGracePeriodSeconds:i timeoutSeconds:i
GRPCAction = port!:i service:s
ContainerPort = containerPort!:i hostIP:s hostPort:i name:s protocol:s
ContainerResizePolicy = resourceName!:s restartPolicy!:s
ResourceRequirements = claims:[ResourceClaim] limits:{q} requests:{q}
ResourceClaim = name!:s request:s
ContainerRestartRule = action!:s exitCodes:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes = operator!:s values:[i]
SecurityContext = allowPrivilegeEscalation:b appArmorProfile:AppArmorProfile capabilities:Capabilities privileged:b
  procMount:s readOnlyRootFilesystem:b runAsGroup:i runAsNonRoot:b runAsUser:i seLinuxOptions:SELinuxOptions
  seccompProfile:SeccompProfile windowsOptions:WindowsSecurityContextOptions
AppArmorProfile = localhostProfile:s type!:s
Capabilities = add:[s] drop:[s]
SELinuxOptions = level:s role:s type:s user:s
SeccompProfile = localhostProfile:s type!:s
WindowsSecurityContextOptions = gmsaCredentialSpec:s gmsaCredentialSpecName:s hostProcess:b runAsUserName:s
VolumeDevice = devicePath!:s name!:s
VolumeMount = mountPath!:s mountPropagation:s name!:s readOnly:b recursiveReadOnly:s subPath:s subPathExpr:s
PodDNSConfig = nameservers:[s] options:[PodDNSConfigOption] searches:[s]
PodDNSConfigOption = name:s value:s
EphemeralContainer = args:[s] command:[s] env:[EnvVar] envFrom:[EnvFromSource] image:s imagePullPolicy:s
  lifecycle:Lifecycle livenessProbe:Probe name!:s ports:[ContainerPort] readinessProbe:Probe
  resizePolicy:[ContainerResizePolicy] resources:ResourceRequirements restartPolicy:s
  restartPolicyRules:[ContainerRestartRule] securityContext:SecurityContext startupProbe:Probe stdin:b stdinOnce:b
  targetContainerName:s terminationMessagePath:s terminationMessagePolicy:s tty:b volumeDevices:[VolumeDevice]
  volumeMounts:[VolumeMount] workingDir:s
HostAlias = hostnames:[s] ip!:s
LocalObjectReference = name:s
PodOS = name!:s
PodReadinessGate = conditionType!:s
PodResourceClaim = name!:s resourceClaimName:s resourceClaimTemplateName:s
PodSchedulingGate = name!:s
PodSchedulingGroup = podGroupName:s
PodSecurityContext = appArmorProfile:AppArmorProfile fsGroup:i fsGroupChangePolicy:s runAsGroup:i runAsNonRoot:b
  runAsUser:i seLinuxChangePolicy:s seLinuxOptions:SELinuxOptions seccompProfile:SeccompProfile
  supplementalGroups:[i] supplementalGroupsPolicy:s sysctls:[Sysctl] windowsOptions:WindowsSecurityContextOptions
Sysctl = name!:s value!:s
Toleration = effect:s key:s operator:s tolerationSeconds:i value:s
TopologySpreadConstraint = labelSelector:LabelSelector matchLabelKeys:[s] maxSkew!:i minDomains:i
  nodeAffinityPolicy:s nodeTaintsPolicy:s topologyKey!:s whenUnsatisfiable!:s
Volume = awsElasticBlockStore:AWSElasticBlockStoreVolumeSource azureDisk:AzureDiskVolumeSource
  azureFile:AzureFileVolumeSource cephfs:CephFSVolumeSource cinder:CinderVolumeSource
  configMap:ConfigMapVolumeSource csi:CSIVolumeSource downwardAPI:DownwardAPIVolumeSource
  emptyDir:EmptyDirVolumeSource ephemeral:EphemeralVolumeSource fc:FCVolumeSource flexVolume:FlexVolumeSource
  flocker:FlockerVolumeSource gcePersistentDisk:GCEPersistentDiskVolumeSource gitRepo:GitRepoVolumeSource
  glusterfs:GlusterfsVolumeSource hostPath:HostPathVolumeSource image:ImageVolumeSource iscsi:ISCSIVolumeSource
  name!:s nfs:NFSVolumeSource persistentVolumeClaim:PersistentVolumeClaimVolumeSource
  photonPersistentDisk:PhotonPersistentDiskVolumeSource portworxVolume:PortworxVolumeSource
  projected:ProjectedVolumeSource quobyte:QuobyteVolumeSource rbd:RBDVolumeSource scaleIO:ScaleIOVolumeSource
  secret:SecretVolumeSource storageos:StorageOSVolumeSource vsphereVolume:VsphereVirtualDiskVolumeSource
AWSElasticBlockStoreVolumeSource = fsType:s partition:i readOnly:b volumeID!:s
AzureDiskVolumeSource = cachingMode:s diskName!:s diskURI!:s fsType:s kind:s readOnly:b
AzureFileVolumeSource = readOnly:b secretName!:s shareName!:s
CephFSVolumeSource = monitors!:[s] path:s readOnly:b secretFile:s secretRef:LocalObjectReference user:s
CinderVolumeSource = fsType:s readOnly:b secretRef:LocalObjectReference volumeID!:s
ConfigMapVolumeSource = defaultMode:i items:[KeyToPath] name:s optional:b
KeyToPath = key!:s mode:i path!:s
CSIVolumeSource = driver!:s fsType:s nodePublishSecretRef:LocalObjectReference readOnly:b volumeAttributes:{s}
DownwardAPIVolumeSource = defaultMode:i items:[DownwardAPIVolumeFile]
DownwardAPIVolumeFile = fieldRef:ObjectFieldSelector mode:i path!:s resourceFieldRef:ResourceFieldSelector
EmptyDirVolumeSource = medium:s sizeLimit:q
EphemeralVolumeSource = volumeClaimTemplate:PersistentVolumeClaimTemplate
PersistentVolumeClaimTemplate = metadata:ObjectMeta spec!:PersistentVolumeClaimSpec
PersistentVolumeClaimSpec = accessModes:[s] dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference
  resources:VolumeResourceRequirements selector:LabelSelector storageClassName:s volumeAttributesClassName:s
  volumeMode:s volumeName:s
TypedLocalObjectReference = apiGroup:s kind!:s name!:s
TypedObjectReference = apiGroup:s kind!:s name!:s namespace:s
VolumeResourceRequirements = limits:{q} requests:{q}
FCVolumeSource = fsType:s lun:i readOnly:b targetWWNs:[s] wwids:[s]
FlexVolumeSource = driver!:s fsType:s options:{s} readOnly:b secretRef:LocalObjectReference
FlockerVolumeSource = datasetName:s datasetUUID:s
GCEPersistentDiskVolumeSource = fsType:s partition:i pdName!:s readOnly:b
GitRepoVolumeSource = directory:s repository!:s revision:s
GlusterfsVolumeSource = endpoints!:s path!:s readOnly:b
HostPathVolumeSource = path!:s type:s
ImageVolumeSource = pullPolicy:s reference:s
ISCSIVolumeSource = chapAuthDiscovery:b chapAuthSession:b fsType:s initiatorName:s iqn!:s iscsiInterface:s lun!:i
  portals:[s] readOnly:b secretRef:LocalObjectReference targetPortal!:s
NFSVolumeSource = path!:s readOnly:b server!:s
PersistentVolumeClaimVolumeSource = claimName!:s readOnly:b
PhotonPersistentDiskVolumeSource = fsType:s pdID!:s
PortworxVolumeSource = fsType:s readOnly:b volumeID!:s
ProjectedVolumeSource = defaultMode:i sources:[VolumeProjection]
VolumeProjection = clusterTrustBundle:ClusterTrustBundleProjection configMap:ConfigMapProjection
  downwardAPI:DownwardAPIProjection podCertificate:PodCertificateProjection secret:SecretProjection
  serviceAccountToken:ServiceAccountTokenProjection
ClusterTrustBundleProjection = labelSelector:LabelSelector name:s optional:b path!:s signerName:s
ConfigMapProjection = items:[KeyToPath] name:s optional:b
DownwardAPIProjection = items:[DownwardAPIVolumeFile]
PodCertificateProjection = certificateChainPath:s credentialBundlePath:s keyPath:s keyType!:s maxExpirationSeconds:i
  signerName!:s userAnnotations:{s}
SecretProjection = items:[KeyToPath] name:s optional:b
ServiceAccountTokenProjection = audience:s expirationSeconds:i path!:s
QuobyteVolumeSource = group:s readOnly:b registry!:s tenant:s user:s volume!:s
RBDVolumeSource = fsType:s image!:s keyring:s monitors!:[s] pool:s readOnly:b secretRef:LocalObjectReference user:s
ScaleIOVolumeSource = fsType:s gateway!:s protectionDomain:s readOnly:b secretRef!:LocalObjectReference sslEnabled:b
  storageMode:s storagePool:s system!:s volumeName:s
SecretVolumeSource = defaultMode:i items:[KeyToPath] optional:b secretName:s
StorageOSVolumeSource = fsType:s readOnly:b secretRef:LocalObjectReference volumeName:s volumeNamespace:s
VsphereVirtualDiskVolumeSource = fsType:s storagePolicyID:s storagePolicyName:s volumePath!:s
ReplicationController = metadata:ObjectMeta spec:ReplicationControllerSpec status:*
ReplicationControllerSpec = minReadySeconds:i replicas:i selector:{s} template:PodTemplateSpec
PodTemplateSpec = metadata:ObjectMeta spec:PodSpec
PodTemplate = metadata:ObjectMeta template:PodTemplateSpec
Namespace = metadata:ObjectMeta spec:NamespaceSpec status:*
NamespaceSpec = finalizers:[s]
ConfigMap = binaryData:{s} data:{s} immutable:b metadata:ObjectMeta
Service = metadata:ObjectMeta spec:ServiceSpec status:*
ServiceSpec = allocateLoadBalancerNodePorts:b clusterIP:s clusterIPs:[s] externalIPs:[s] externalName:s
  externalTrafficPolicy:s healthCheckNodePort:i internalTrafficPolicy:s ipFamilies:[s] ipFamilyPolicy:s
  loadBalancerClass:s loadBalancerIP:s loadBalancerSourceRanges:[s] ports:[ServicePort] publishNotReadyAddresses:b
  selector:{s} sessionAffinity:s sessionAffinityConfig:SessionAffinityConfig trafficDistribution:s type:s
ServicePort = appProtocol:s name:s nodePort:i port!:i protocol:s targetPort:x
SessionAffinityConfig = clientIP:ClientIPConfig
ClientIPConfig = timeoutSeconds:i
PersistentVolumeClaim = metadata:ObjectMeta spec:PersistentVolumeClaimSpec status:*
Deployment = metadata:ObjectMeta spec:DeploymentSpec status:*
DeploymentSpec = minReadySeconds:i paused:b progressDeadlineSeconds:i replicas:i revisionHistoryLimit:i
  selector!:LabelSelector strategy:DeploymentStrategy template!:PodTemplateSpec
DeploymentStrategy = rollingUpdate:RollingUpdateDeployment type:s
RollingUpdateDeployment = maxSurge:x maxUnavailable:x
ReplicaSet = metadata:ObjectMeta spec:ReplicaSetSpec status:*
ReplicaSetSpec = minReadySeconds:i replicas:i selector!:LabelSelector template:PodTemplateSpec
StatefulSet = metadata:ObjectMeta spec:StatefulSetSpec status:*
StatefulSetSpec = minReadySeconds:i ordinals:StatefulSetOrdinals
  persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy podManagementPolicy:s
  replicas:i revisionHistoryLimit:i selector!:LabelSelector serviceName:s template!:PodTemplateSpec
  updateStrategy:StatefulSetUpdateStrategy volumeClaimTemplates:[PersistentVolumeClaim]
StatefulSetOrdinals = start:i
StatefulSetPersistentVolumeClaimRetentionPolicy = whenDeleted:s whenScaled:s
StatefulSetUpdateStrategy = rollingUpdate:RollingUpdateStatefulSetStrategy type:s
RollingUpdateStatefulSetStrategy = maxUnavailable:x partition:i
DaemonSet = metadata:ObjectMeta spec:DaemonSetSpec status:*
DaemonSetSpec = minReadySeconds:i revisionHistoryLimit:i selector!:LabelSelector template!:PodTemplateSpec
  updateStrategy:DaemonSetUpdateStrategy
DaemonSetUpdateStrategy = rollingUpdate:RollingUpdateDaemonSet type:s
RollingUpdateDaemonSet = maxSurge:x maxUnavailable:x
Job = metadata:ObjectMeta spec:JobSpec status:*
JobSpec = activeDeadlineSeconds:i backoffLimit:i backoffLimitPerIndex:i completionMode:s completions:i managedBy:s
  manualSelector:b maxFailedIndexes:i parallelism:i podFailurePolicy:PodFailurePolicy podReplacementPolicy:s
  selector:LabelSelector successPolicy:SuccessPolicy suspend:b template!:PodTemplateSpec ttlSecondsAfterFinished:i
PodFailurePolicy = rules!:[PodFailurePolicyRule]
PodFailurePolicyRule = action!:s onExitCodes:PodFailurePolicyOnExitCodesRequirement
  onPodConditions:[PodFailurePolicyOnPodConditionsPattern]
PodFailurePolicyOnExitCodesRequirement = containerName:s operator!:s values!:[i]
PodFailurePolicyOnPodConditionsPattern = type!:s status:*
SuccessPolicy = rules!:[SuccessPolicyRule]
SuccessPolicyRule = succeededCount:i succeededIndexes:s
CronJob = metadata:ObjectMeta spec!:CronJobSpec status:*
CronJobSpec = concurrencyPolicy:s failedJobsHistoryLimit:i jobTemplate!:JobTemplateSpec schedule!:s
  startingDeadlineSeconds:i successfulJobsHistoryLimit:i suspend:b timeZone:s
JobTemplateSpec = metadata:ObjectMeta spec:JobSpec
HorizontalPodAutoscaler = metadata:ObjectMeta spec!:HorizontalPodAutoscalerSpec status:*
HorizontalPodAutoscalerSpec = behavior:HorizontalPodAutoscalerBehavior maxReplicas!:i metrics:[MetricSpec]
  minReplicas:i scaleTargetRef!:CrossVersionObjectReference
HorizontalPodAutoscalerBehavior = scaleDown:HPAScalingRules scaleUp:HPAScalingRules
HPAScalingRules = policies:[HPAScalingPolicy] selectPolicy:s stabilizationWindowSeconds:i tolerance:q
HPAScalingPolicy = periodSeconds!:i type!:s value!:i
MetricSpec = containerResource:ContainerResourceMetricSource external:ExternalMetricSource object:ObjectMetricSource
  pods:PodsMetricSource resource:ResourceMetricSource type!:s
ContainerResourceMetricSource = container!:s name!:s target!:MetricTarget
MetricTarget = averageUtilization:i averageValue:q type!:s value:q
ExternalMetricSource = metric!:MetricIdentifier target!:MetricTarget
MetricIdentifier = name!:s selector:LabelSelector
ObjectMetricSource = describedObject!:CrossVersionObjectReference metric!:MetricIdentifier target!:MetricTarget
CrossVersionObjectReference = apiVersion:s kind!:s name!:s
PodsMetricSource = metric!:MetricIdentifier target!:MetricTarget
ResourceMetricSource = name!:s target!:MetricTarget
V1HorizontalPodAutoscaler = metadata:ObjectMeta spec!:V1HorizontalPodAutoscalerSpec status:*
V1HorizontalPodAutoscalerSpec = maxReplicas!:i minReplicas:i scaleTargetRef!:V1CrossVersionObjectReference
  targetCPUUtilizationPercentage:i
V1CrossVersionObjectReference = apiVersion:s kind!:s name!:s
DRAResourceClaim = metadata!:ObjectMeta spec!:ResourceClaimSpec status:*
ResourceClaimTemplate = metadata!:ObjectMeta spec!:ResourceClaimTemplateSpec
ResourceClaimTemplateSpec = metadata:ObjectMeta spec!:ResourceClaimSpec
ResourceClaimSpec = devices:DeviceClaim
DeviceClaim = requests:[DeviceRequest] constraints:[DeviceConstraint] config:[DeviceClaimConfiguration]
DeviceRequest = name!:s exactly:ExactDeviceRequest firstAvailable:[DeviceSubRequest]
ExactDeviceRequest = deviceClassName!:s selectors:[DeviceSelector] allocationMode:s count:i adminAccess:b
  tolerations:[DeviceToleration] capacity:CapacityRequirements
DeviceSubRequest = name!:s deviceClassName!:s selectors:[DeviceSelector] allocationMode:s count:i
  tolerations:[DeviceToleration] capacity:CapacityRequirements
DeviceSelector = cel!:CELDeviceSelector
CELDeviceSelector = expression!:s
DeviceToleration = key:s operator:s value:s effect:s tolerationSeconds:i
CapacityRequirements = requests:{q}
DeviceConstraint = requests:[s] matchAttribute:s distinctAttribute:s
DeviceClaimConfiguration = requests:[s] opaque!:OpaqueDeviceConfiguration
OpaqueDeviceConfiguration = driver!:s parameters!:*
DeviceClass = metadata!:ObjectMeta spec!:DeviceClassSpec
DeviceClassSpec = selectors:[DeviceSelector] config:[DeviceClassConfiguration] extendedResourceName:s
DeviceClassConfiguration = opaque!:OpaqueDeviceConfiguration
ResourceSlice = metadata!:ObjectMeta spec!:ResourceSliceSpec
ResourceSliceSpec = driver!:s pool!:ResourcePool nodeName:s nodeSelector:NodeSelector allNodes:b
  perDeviceNodeSelection:b devices:[Device] sharedCounters:[CounterSet] skipNodeOperations:b partitionTypeAttribute:s
ResourcePool = name!:s generation:i resourceSliceCount!:i
CounterSet = name!:s counters!:{Counter}
Counter = value!:q
Device = name!:s attributes:{DeviceAttribute} capacity:{DeviceCapacity} consumesCounters:[DeviceCounterConsumption]
  nodeName:s nodeSelector:NodeSelector allNodes:b taints:[DeviceTaint] bindsToNode:b bindingConditions:[s]
  bindingFailureConditions:[s] allowMultipleAllocations:b nodeAllocatableResources:*
  nodeAllocatableResourceMappings:{NodeAllocatableResourceMapping}
DeviceAttribute = string:s int:i bool:b version:s strings:[s] ints:[i] bools:[b] versions:[s]
DeviceCapacity = value!:q requestPolicy:CapacityRequestPolicy
CapacityRequestPolicy = default:q validValues:[q] validRange:CapacityRequestPolicyRange
CapacityRequestPolicyRange = min!:q max:q step:q
DeviceCounterConsumption = counterSet!:s counters!:{Counter} compatibilityGroups:[s]
DeviceTaint = key!:s value:s effect!:s timeAdded:s
NodeAllocatableResourceMapping = capacityKey:s allocationMultiplier:q
DeviceTaintRule = metadata!:ObjectMeta spec!:DeviceTaintRuleSpec status:*
DeviceTaintRuleSpec = deviceSelector:DeviceTaintSelector taint!:DeviceTaint
DeviceTaintSelector = driver:s pool:s device:s
ObjectMeta = name:s generateName:s namespace:s labels:{s} annotations:{s} finalizers:[s] ownerReferences:[*] uid:*
  resourceVersion:* generation:* creationTimestamp:* deletionTimestamp:* deletionGracePeriodSeconds:* managedFields:[*]
  selfLink:*
"""

_KINDS: Final = """
admissionregistration.k8s.io/v1 = MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
  MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
  ValidatingWebhookConfiguration
admissionregistration.k8s.io/v1alpha1 = MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
admissionregistration.k8s.io/v1beta1 = MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
apps/v1 = ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet
authentication.k8s.io/v1 = SelfSubjectReview TokenRequest TokenReview
authorization.k8s.io/v1 = LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
  SubjectAccessReview
autoscaling/v1 = HorizontalPodAutoscaler Scale
autoscaling/v2 = HorizontalPodAutoscaler
batch/v1 = CronJob Job
certificates.k8s.io/v1 = CertificateSigningRequest
certificates.k8s.io/v1alpha1 = ClusterTrustBundle
certificates.k8s.io/v1beta1 = ClusterTrustBundle PodCertificateRequest
coordination.k8s.io/v1 = Lease
coordination.k8s.io/v1alpha2 = LeaseCandidate
coordination.k8s.io/v1beta1 = LeaseCandidate
discovery.k8s.io/v1 = EndpointSlice
events.k8s.io/v1 = Event
flowcontrol.apiserver.k8s.io/v1 = FlowSchema PriorityLevelConfiguration
internal.apiserver.k8s.io/v1alpha1 = StorageVersion
networking.k8s.io/v1 = IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR
networking.k8s.io/v1beta1 = IPAddress ServiceCIDR
node.k8s.io/v1 = RuntimeClass
policy/v1 = Eviction PodDisruptionBudget
rbac.authorization.k8s.io/v1 = ClusterRole ClusterRoleBinding Role RoleBinding
resource.k8s.io/v1 = DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice
resource.k8s.io/v1alpha3 = DeviceTaintRule ResourcePoolStatusRequest
resource.k8s.io/v1beta1 = DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice
resource.k8s.io/v1beta2 = DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice
scheduling.k8s.io/v1 = PriorityClass
scheduling.k8s.io/v1alpha2 = PodGroup Workload
storage.k8s.io/v1 = CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
storage.k8s.io/v1beta1 = VolumeAttributesClass
storagemigration.k8s.io/v1beta1 = StorageVersionMigration
v1 = Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
  PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
"""

_SCALARS: Final[Mapping[str, Shape]] = {
    "s": Scalar(text),
    "i": Scalar(integer),
    "b": Scalar(boolean),
    "n": Scalar(number),
    "q": Scalar(quantity),
    "x": Scalar(number_or_text),
    "*": Anything(),
}
# Of these fields an object has one.
_ONE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "DeviceRequest": ("exactly", "firstAvailable"),
    "DeviceConstraint": ("matchAttribute", "distinctAttribute"),
    "DeviceAttribute": (*SCALAR_ATTRIBUTES, *LIST_ATTRIBUTES),
    "ResourceSliceSpec": ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"),
}
_TYPE_OF_KIND: Final[Mapping[tuple[str, str], str]] = {
    ("v1", "Pod"): "Pod",
    ("v1", "ReplicationController"): "ReplicationController",
    ("v1", "PodTemplate"): "PodTemplate",
    ("v1", "Namespace"): "Namespace",
    ("v1", "ConfigMap"): "ConfigMap",
    ("v1", "Service"): "Service",
    ("v1", "PersistentVolumeClaim"): "PersistentVolumeClaim",
    ("apps/v1", "Deployment"): "Deployment",
    ("apps/v1", "ReplicaSet"): "ReplicaSet",
    ("apps/v1", "StatefulSet"): "StatefulSet",
    ("apps/v1", "DaemonSet"): "DaemonSet",
    ("batch/v1", "Job"): "Job",
    ("batch/v1", "CronJob"): "CronJob",
    ("autoscaling/v1", "HorizontalPodAutoscaler"): "V1HorizontalPodAutoscaler",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): "HorizontalPodAutoscaler",
    ("resource.k8s.io/v1", "ResourceClaim"): "DRAResourceClaim",
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): "ResourceClaimTemplate",
    ("resource.k8s.io/v1", "DeviceClass"): "DeviceClass",
    ("resource.k8s.io/v1", "ResourceSlice"): "ResourceSlice",
    ("resource.k8s.io/v1", "DeviceTaintRule"): "DeviceTaintRule",
}


def shape_of(api_version: str, kind: str) -> Object | None:
    """The fields of a workload or DRA kind; None for other kinds."""
    name = _TYPE_OF_KIND.get((api_version, kind))
    if name is None:
        return None
    shape = shape_of_type(name)
    fields = {"apiVersion": _SCALARS["s"], "kind": _SCALARS["s"], **shape.fields}
    return Object(fields, shape.required)


def shape_of_kind(kind: str) -> Object | None:
    """The same, whatever its version."""
    newest = sorted((version for version, name in _TYPE_OF_KIND if name == kind), reverse=True)
    return shape_of(newest[0], kind) if newest else None


def kinds_in(api_version: str) -> frozenset[str]:
    """The kinds of an API version; empty when it is none of Kubernetes' own."""
    return _kinds().get(api_version, frozenset())


def versions_of(kind: str) -> tuple[str, ...]:
    """The API versions that have a kind, the newest of each group first."""
    return tuple(
        sorted((version for version, kinds in _kinds().items() if kind in kinds), key=lambda each: "v1" in each)
    )


@cache
def _kinds() -> Mapping[str, frozenset[str]]:
    return {name: frozenset(rest.split()) for name, rest in _entries(_KINDS)}


@cache
def _types() -> Mapping[str, str]:
    return dict(_entries(_TYPES))


def _entries(table: str) -> list[tuple[str, str]]:
    joined = re.sub(r"\n  ", " ", table.strip())
    return [(line.partition(" = ")[0], line.partition(" = ")[2]) for line in joined.split("\n")]


@cache
def shape_of_type(name: str) -> Object:
    """The fields of one type of the table."""
    fields: dict[str, Shape] = {}
    required = []
    for entry in _types()[name].split():
        field, _, of = entry.partition(":")
        if field.endswith("!"):
            field = field.removesuffix("!")
            required.append(field)
        fields[field] = _shape(of)
    return Object(fields, tuple(required), _ONE_OF.get(name, ()))


def _shape(of: str) -> Shape:
    if of.startswith("["):
        return ListOf(_shape(of[1:-1]))
    if of.startswith("{"):
        return MapOf(_shape(of[1:-1]))
    return _SCALARS.get(of) or shape_of_type(of)
