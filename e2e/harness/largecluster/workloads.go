// Package largecluster generates the pods of a large cluster and their protectors, for benchmarks. The pods are as large as real
// ones: 13 KB of JSON each with their managed fields.
package largecluster

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// The pods are distributed over this many ReplicaSets, each the only one of its application, in this many namespaces.
const (
	ReplicaSets = 1000
	Namespaces  = 50
)

// Namespace returns the namespace of an application.
func Namespace(app int) string { return fmt.Sprintf("team-%02d-production", app%Namespaces) }

// App returns the name of an application.
func App(app int) string { return fmt.Sprintf("checkout-service-%04d", app) }

// Pod returns the i-th pod of the cluster, as its controller would create it.
func Pod(i int) *corev1.Pod { return PodOf(i%ReplicaSets, i) }

// PodOf returns a pod of an application, which need not be an application of Pod. Serials of one application give unique names if they
// differ by at least ReplicaSets.
func PodOf(app, serial int) *corev1.Pod {
	yes := true
	name, hash := App(app), fmt.Sprintf("%010x", 0x5d9c6b5f4d+app)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: Namespace(app), Name: fmt.Sprintf("%s-%s-%05x", name, hash, serial/ReplicaSets),
		GenerateName: name + "-" + hash + "-",
		Labels: map[string]string{
			"app": name, "pod-template-hash": hash,
			"app.kubernetes.io/name": name, "app.kubernetes.io/instance": name + "-production",
			"app.kubernetes.io/version": "2026.11.21-r4", "app.kubernetes.io/component": "api",
			"app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "Helm",
			"topology.example.com/tier": "critical", "security.istio.io/tlsMode": "istio",
		},
		Annotations: map[string]string{
			"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "prometheus.io/path": "/metrics",
			"checksum/config": "b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c",
			"checksum/secret": "7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730",
			"sidecar.istio.io/status": `{"initContainers":["istio-init"],"containers":["istio-proxy"],"volumes":["istio-envoy",` +
				`"istio-data","istio-podinfo","istio-token","istiod-ca-cert"],"imagePullSecrets":null,"revision":"default"}`,
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-" + hash,
			UID:        types.UID(fmt.Sprintf("8f14e45f-ceea-467f-a8f5-%012x", app)),
			Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}}
	p.Spec = specOf(name)
	p.Spec.NodeName = fmt.Sprintf("ip-10-%d-%d-17.eu-central-1.compute.internal", serial%40, serial%250)
	return p
}

func specOf(app string) corev1.PodSpec {
	grace, seconds := int64(45), int64(300)
	token := "kube-api-access-x7k2p"
	spec := corev1.PodSpec{
		ServiceAccountName: app, TerminationGracePeriodSeconds: &grace, PriorityClassName: "",
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config"}}}},
			{Name: "secrets", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: app + "-secrets"}}},
			{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: token, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds},
			{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds},
		},
	}
	for i, container := range []string{"api", "istio-proxy", "log-shipper"} {
		spec.Containers = append(spec.Containers, containerOf(app, container, token, int32(i)))
	}
	return spec
}

func containerOf(app, name, token string, serial int32) corev1.Container {
	c := corev1.Container{
		Name: name, Image: fmt.Sprintf("registry.example.com/shop/%s/%s:2026.11.21-r4", app, name),
		Ports: []corev1.ContainerPort{
			{Name: fmt.Sprint("http-", serial), ContainerPort: 8080 + serial},
			{Name: fmt.Sprint("metrics-", serial), ContainerPort: 9090 + serial},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("512Mi")},
			Limits:   corev1.ResourceList{"memory": resource.MustParse("512Mi")},
		},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 5, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/healthz/ready", Port: intstr.FromInt32(8080 + serial)}}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/" + app, ReadOnly: true}, {Name: "secrets", MountPath: "/etc/secrets", ReadOnly: true},
			{Name: "cache", MountPath: "/var/cache"},
			{Name: token, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
			{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}},
		},
	}
	for _, variable := range []string{"DATABASE_URL", "CACHE_URL", "QUEUE_URL", "TRACING_ENDPOINT"} {
		c.Env = append(c.Env, corev1.EnvVar{Name: variable, Value: "https://" + app + ".internal.example.com:8443/v1/" + variable})
	}
	return c
}

// Status returns the status that a kubelet would write for a ready pod.
func Status(p *corev1.Pod, at metav1.Time) corev1.PodStatus {
	yes := true
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "10.0.17.4", PodIP: "10.244.17.93", StartTime: &at, QOSClass: corev1.PodQOSBurstable,
		PodIPs: []corev1.PodIP{{IP: "10.244.17.93"}}, HostIPs: []corev1.HostIP{{IP: "10.0.17.4"}},
	}
	for _, condition := range []corev1.PodConditionType{
		"PodReadyToStartContainers", corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: at, ObservedGeneration: 1})
	}
	for _, c := range p.Spec.Containers {
		digest := "@sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865"
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image + digest, Ready: true, Started: &yes,
			ContainerID: "containerd://53c234e5e8472b6ac51c1ae1cab3fe06fad053beb8ebfd8977b010655bfdd3c3",
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		})
	}
	return status
}

// Protector returns the protector of an application.
func Protector(app int) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(app), Name: App(app)}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{
		"app.kubernetes.io/name": App(app), "app.kubernetes.io/instance": App(app) + "-production",
	}}
	p.Spec.MinAvailable = v1alpha1.Pods(1)
	return p
}

// Received returns the pod as an API server returns it after it has run for a while.
func Received(p *corev1.Pod, serial int) *corev1.Pod {
	p.UID = types.UID(fmt.Sprintf("c4ca4238-a0b9-4382-8dcc-%012x", serial))
	p.ResourceVersion = fmt.Sprint(1000 + serial)
	at := metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	p.Status = Status(p, at)
	fields := "{" + strings.Repeat(`"f:name":{},`, 120) + `"f:value":{}}`
	for _, manager := range []string{"kube-controller-manager", "kubelet"} {
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields),
		})
	}
	return p
}
