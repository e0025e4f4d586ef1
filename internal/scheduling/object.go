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

// Object is a pod, or a workload with a pod template, that is about to be stored. It is immutable.
type Object struct {
	// Kind is the kind of the object, as Deployment.
	Kind string
	// Update reports that the object exists already, and is being updated.
	Update bool
	// Namespace is metadata.namespace, which may be empty in an object that is being created.
	Namespace string
	// Labels are the labels of the pod, or of the template's future pods.
	Labels map[string]string

	// path is the path of the pod spec.
	path []string
	// spec has the relevant fields of the pod spec.
	spec map[string]any
	// controlled reports that the object has a controller. daemon reports that the object or its controller is a DaemonSet. mirror
	// reports that the object is a mirror pod, which represents a static pod of a kubelet.
	controlled, daemon, mirror bool
}

// PathOf returns the path of the pod spec in objects of a kind. It returns false for an unsupported kind.
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

// Read parses an object that is created or, with update, updated. It returns an error if a part is missing or has an invalid type.
func Read(kind schema.GroupKind, update bool, raw []byte) (*Object, error) {
	path, ok := PathOf(kind)
	if !ok {
		return nil, fmt.Errorf("kind %s has no known path of a pod spec", kind)
	}
	o := &Object{Kind: kind.Kind, Update: update, path: path, daemon: kind.Kind == "DaemonSet"}
	own, pod, spec, err := findPodSpec(raw, path)
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

// objectLevel is an object on the path to the pod spec.
type objectLevel struct {
	Metadata metadata       `json:"metadata"`
	Spec     jsontext.Value `json:"spec"`
}

// innerSpec is a spec on that path.
type innerSpec struct {
	Template    jsontext.Value `json:"template"`
	JobTemplate jsontext.Value `json:"jobTemplate"`
}

// findPodSpec returns the metadata of an object and of its pods, and the pod spec.
func findPodSpec(raw []byte, path []string) (own, pod metadata, spec jsontext.Value, err error) {
	for at, step := range path {
		switch step {
		case "spec":
			var l objectLevel
			err = parseLenient(raw, &l)
			if at == 0 {
				own = l.Metadata
			}
			pod, raw = l.Metadata, l.Spec
		default:
			var in innerSpec
			err = parseLenient(raw, &in)
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

// parseLenient parses JSON as leniently as API servers read stored objects.
func parseLenient(raw []byte, into any) error {
	return json.Unmarshal(raw, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// metadata has the relevant fields of an object's metadata.
type metadata struct {
	Namespace       string                  `json:"namespace"`
	Labels          map[string]string       `json:"labels"`
	Annotations     map[string]string       `json:"annotations"`
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
}

// podSpec has the types of the relevant fields of a pod spec. Kubernetes rejects a pod whose fields have other types.
type podSpec struct {
	Affinity                  *corev1.Affinity                  `json:"affinity"`
	NodeName                  string                            `json:"nodeName"`
	NodeSelector              map[string]string                 `json:"nodeSelector"`
	SchedulerName             string                            `json:"schedulerName"`
	SchedulingGates           []corev1.PodSchedulingGate        `json:"schedulingGates"`
	Tolerations               []corev1.Toleration               `json:"tolerations"`
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints"`
}

// rawSpec has the same fields, unparsed.
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
		return nil, fmt.Errorf("it is not a JSON object")
	}
	var rawFields rawSpec
	if err := parseLenient(raw, &rawFields); err != nil {
		return nil, err
	}
	values := map[string]jsontext.Value{
		"affinity": rawFields.Affinity, "nodeName": rawFields.NodeName, "nodeSelector": rawFields.NodeSelector, "schedulerName": rawFields.SchedulerName,
		"schedulingGates": rawFields.SchedulingGates, "tolerations": rawFields.Tolerations, "topologySpreadConstraints": rawFields.TopologySpreadConstraints,
	}
	spec := make(map[string]any, len(values))
	for name, text := range values {
		if len(text) == 0 {
			continue
		}
		value, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		spec[name] = value
	}
	return spec, parseLenient(raw, &podSpec{})
}

func (o *Object) isPod() bool { return o.Kind == "Pod" }

// isNewPod reports whether the object is a pod that is being created and that a scheduler will place.
func (o *Object) isNewPod() bool { return o.isPod() && !o.Update && !o.isFixed() }

// isFixed reports whether the object must not be changed. A Deployment identifies its ReplicaSets by their templates, and creates a
// new one for each template that it does not find. The template of a Job is immutable. A mirror pod represents a pod that already
// runs.
func (o *Object) isFixed() bool {
	return o.mirror || o.Kind == "ReplicaSet" && o.controlled || o.Kind == "Job" && o.Update
}
