package scheduling

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	own, pod, spec, err := descend(raw, path)
	if err != nil {
		return nil, fmt.Errorf("read a %s: %w", kind, err)
	}
	o.Namespace, o.Labels = own.Namespace, pod.Labels
	if owner := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: own.OwnerReferences}); owner != nil {
		o.controlled, o.daemon = true, o.daemon || owner.Kind == "DaemonSet"
	}
	_, o.mirror = own.Annotations[corev1.MirrorPodAnnotationKey]
	if o.spec, err = readSpec(spec); err != nil {
		return nil, fmt.Errorf("read /%s: %w", strings.Join(path, "/"), err)
	}
	return o, nil
}

// level is an object on the way to a pod's spec.
type level struct {
	Metadata metadata       `json:"metadata"`
	Spec     jsontext.Value `json:"spec"`
}

// inner is a spec on that way.
type inner struct {
	Template    jsontext.Value `json:"template"`
	JobTemplate jsontext.Value `json:"jobTemplate"`
}

// descend reads the metadata of an object and of its pods, and the spec of those.
func descend(raw []byte, path []string) (own, pod metadata, spec jsontext.Value, err error) {
	for at, step := range path {
		switch step {
		case "spec":
			var l level
			err = readAs(raw, &l)
			if at == 0 {
				own = l.Metadata
			}
			pod, raw = l.Metadata, l.Spec
		default:
			var in inner
			err = readAs(raw, &in)
			if raw = in.Template; step == "jobTemplate" {
				raw = in.JobTemplate
			}
		}
		if err != nil || len(raw) == 0 {
			return own, pod, nil, cmp.Or(err, fmt.Errorf("%s is missing", step))
		}
	}
	return own, pod, raw, nil
}

// readAs reads JSON as lenient as apiservers are with what they have stored.
func readAs(raw []byte, into any) error {
	return json.Unmarshal(raw, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
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

// rawSpec is the same as it is written.
type rawSpec struct {
	Affinity                  jsontext.Value `json:"affinity,omitempty"`
	NodeName                  jsontext.Value `json:"nodeName,omitempty"`
	NodeSelector              jsontext.Value `json:"nodeSelector,omitempty"`
	SchedulerName             jsontext.Value `json:"schedulerName,omitempty"`
	SchedulingGates           jsontext.Value `json:"schedulingGates,omitempty"`
	Tolerations               jsontext.Value `json:"tolerations,omitempty"`
	TopologySpreadConstraints jsontext.Value `json:"topologySpreadConstraints,omitempty"`
}

func readSpec(raw jsontext.Value) (map[string]any, error) {
	if raw.Kind() != '{' {
		return nil, fmt.Errorf("it is no object")
	}
	var written rawSpec
	if err := readAs(raw, &written); err != nil {
		return nil, err
	}
	of := map[string]jsontext.Value{
		"affinity": written.Affinity, "nodeName": written.NodeName, "nodeSelector": written.NodeSelector, "schedulerName": written.SchedulerName,
		"schedulingGates": written.SchedulingGates, "tolerations": written.Tolerations, "topologySpreadConstraints": written.TopologySpreadConstraints,
	}
	spec := make(map[string]any, len(of))
	for name, text := range of {
		if len(text) == 0 {
			continue
		}
		value, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		spec[name] = value
	}
	return spec, readAs(raw, &podSpec{})
}

func (o *Object) isPod() bool { return o.Kind == "Pod" }

// isNewPod tells that it is a pod which is created, and for which a scheduler will look for a node.
func (o *Object) isNewPod() bool { return o.isPod() && !o.Update && !o.isFixed() }

// isFixed tells that the object must stay as it is written. A Deployment knows its ReplicaSets by their templates, and makes a new one for
// each that it does not know. The template of a Job can never be changed. A mirror pod is a picture of one that runs already.
func (o *Object) isFixed() bool {
	return o.mirror || o.Kind == "ReplicaSet" && o.controlled || o.Kind == "Job" && o.Update
}
