package scheduling

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is a pod, or a workload with a template of pods, that is about to be stored. It never changes.
type Object struct {
	// Kind of the object, as Deployment.
	Kind string
	// Update tells that it is stored already, and is to be changed.
	Update bool
	// Namespace is that of its metadata, which an object that is created may leave to the request.
	Namespace string
	// Labels are those of the pod, or of the pods that will be made of the template.
	Labels map[string]string

	// path leads to the pod's spec.
	path []string
	// spec is what matters of that.
	spec map[string]any
	// controlled tells that another object controls this one, daemon that it is a DaemonSet which does, or which this one is, and mirror
	// that it stands for a pod that a kubelet runs on its own.
	controlled, daemon, mirror bool
}

// PathOf is the path to the spec of the pods of a kind; false for a kind that has none that is known.
func PathOf(kind schema.GroupKind) ([]string, bool) {
	switch kind.Group + "/" + kind.Kind {
	case "/Pod":
		return []string{"spec"}, true
	case "/ReplicationController", "apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet", "batch/Job":
		return []string{"spec", "template", "spec"}, true
	case "batch/CronJob":
		return []string{"spec", "jobTemplate", "spec", "template", "spec"}, true
	}
	return nil, false
}

// Read reads an object that is created or, with update, changed. The error tells what is missing or of another shape than it has in
// Kubernetes.
func Read(kind schema.GroupKind, update bool, raw []byte) (*Object, error) {
	path, ok := PathOf(kind)
	if !ok {
		return nil, fmt.Errorf("a %s has no spec of pods that is known", kind)
	}
	o := &Object{Kind: kind.Kind, Update: update, path: path, daemon: kind.Kind == "DaemonSet"}
	var own, pod metadata
	if err := descend(raw, []string{"metadata"}, &own); err != nil {
		return nil, err
	}
	if err := descend(raw, append(slices.Clone(path[:len(path)-1]), "metadata"), &pod); err != nil {
		return nil, err
	}
	o.Namespace, o.Labels = own.Namespace, pod.Labels
	if owner := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: own.OwnerReferences}); owner != nil {
		o.controlled, o.daemon = true, o.daemon || owner.Kind == "DaemonSet"
	}
	_, o.mirror = own.Annotations[corev1.MirrorPodAnnotationKey]
	return o, o.readSpec(raw)
}

// metadata is what matters of it.
type metadata struct {
	Namespace       string                  `json:"namespace"`
	Labels          map[string]string       `json:"labels"`
	Annotations     map[string]string       `json:"annotations"`
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
}

// podSpec is the shape of what matters of a pod's spec: what does not have it is not a pod to Kubernetes.
type podSpec struct {
	Affinity                  *corev1.Affinity                  `json:"affinity"`
	NodeName                  string                            `json:"nodeName"`
	NodeSelector              map[string]string                 `json:"nodeSelector"`
	SchedulerName             string                            `json:"schedulerName"`
	SchedulingGates           []corev1.PodSchedulingGate        `json:"schedulingGates"`
	Tolerations               []corev1.Toleration               `json:"tolerations"`
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints"`
}

func (o *Object) readSpec(raw []byte) error {
	var fields map[string]json.RawMessage
	if err := descend(raw, o.path, &fields); err != nil {
		return err
	}
	if fields == nil {
		return fmt.Errorf("/%s is missing", strings.Join(o.path, "/"))
	}
	o.spec = map[string]any{}
	for _, name := range [...]string{"affinity", "nodeName", "nodeSelector", "schedulerName", "schedulingGates", "tolerations", "topologySpreadConstraints"} {
		text, ok := fields[name]
		if !ok {
			continue
		}
		value, err := decode(text)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		o.spec[name] = value
	}
	shape, err := json.Marshal(o.spec)
	if err == nil {
		err = json.Unmarshal(shape, &podSpec{})
	}
	if err != nil {
		return fmt.Errorf("read /%s: %w", strings.Join(o.path, "/"), err)
	}
	return nil
}

func (o *Object) isPod() bool { return o.Kind == "Pod" }

// isFixed tells that the object must stay as it is written. A Deployment knows its ReplicaSets by their templates, and makes a new one for
// each that it does not know. The template of a Job can never be changed. A mirror pod is a picture of one that runs already.
func (o *Object) isFixed() bool {
	return o.mirror || o.Kind == "ReplicaSet" && o.controlled || o.Kind == "Job" && o.Update
}
