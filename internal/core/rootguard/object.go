package rootguard

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Object is an object that a client wants to delete.
type Object struct {
	Kind     schema.GroupKind
	Resource schema.GroupResource
	// Namespace is empty for objects without one, Namespaces among them.
	Namespace, Name string
	UID             types.UID
	Annotations     map[string]string
	// NamespaceAnnotations are those of its namespace; nil while they are not known.
	NamespaceAnnotations map[string]string
	// Terminating reports whether the object is being deleted already.
	Terminating bool
	// ControlledBy is the kind of the owner that controls it; empty when there is none.
	ControlledBy schema.GroupKind
	// Replicas is spec.replicas; nil when the object has none.
	Replicas *int64
	// TemplateLabels are those of spec.template; nil when the object has none.
	TemplateLabels map[string]string
	// Defines is the kind, and DefinesResource the resource, that a CustomResourceDefinition defines.
	Defines         schema.GroupKind
	DefinesResource schema.GroupResource
}

// The kinds that are not workloads.
func namespaceKind() schema.GroupKind { return schema.GroupKind{Kind: "Namespace"} }

func definitionKind() schema.GroupKind {
	return schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

func own(kind string) schema.GroupKind {
	return schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: kind}
}

// fields are the parts of any object that count.
type fields struct {
	Metadata *metav1.ObjectMeta `json:"metadata"`
	Spec     any                `json:"spec"`
}

// Read reads the object of a review. An object without metadata is an error.
func Read(kind schema.GroupKind, resource schema.GroupResource, raw []byte) (*Object, error) {
	f := fields{}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	if err := decoder.Decode(&f); err != nil {
		return nil, fmt.Errorf("read the %s: %w", kind.Kind, err)
	}
	if f.Metadata == nil || f.Metadata.Name == "" {
		return nil, fmt.Errorf("the %s has no name", kind.Kind)
	}
	m := f.Metadata
	o := &Object{
		Kind: kind, Resource: resource, Namespace: m.Namespace, Name: m.Name, UID: m.UID, Annotations: m.Annotations,
		Terminating: m.DeletionTimestamp != nil,
	}
	if kind == namespaceKind() {
		o.Namespace = ""
	}
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
		o.ControlledBy = kindOf(owner.APIVersion, owner.Kind)
	}
	o.readSpec(f.Spec)
	return o, nil
}

// readSpec takes fields of other types than it wants for absent, since the object may be of any kind.
func (o *Object) readSpec(of any) {
	spec, _ := of.(map[string]any)
	if number, ok := spec["replicas"].(json.Number); ok {
		if replicas, err := number.Int64(); err == nil {
			o.Replicas = &replicas
		}
	}
	o.TemplateLabels = templateLabels(spec["template"])
	if o.Kind == definitionKind() {
		group, names := textAt(spec, "group"), spec["names"]
		o.Defines = schema.GroupKind{Group: group, Kind: textAt(names, "kind")}
		o.DefinesResource = schema.GroupResource{Group: group, Resource: textAt(names, "plural")}
	}
}

func kindOf(apiVersion, kind string) schema.GroupKind {
	version, _ := schema.ParseGroupVersion(apiVersion) // a malformed one names no kind that anything depends on
	return schema.GroupKind{Group: version.Group, Kind: kind}
}

func textAt(in any, key string) string {
	fields, _ := in.(map[string]any)
	text, _ := fields[key].(string)
	return text
}

// templateLabels are never nil when there is a template with metadata.
func templateLabels(template any) map[string]string {
	fields, _ := template.(map[string]any)
	meta, ok := fields["metadata"].(map[string]any)
	if !ok {
		return nil
	}
	labels := map[string]string{}
	found, _ := meta["labels"].(map[string]any)
	for key, value := range found {
		if text, ok := value.(string); ok {
			labels[key] = text
		}
	}
	return labels
}

// String names the object in messages.
func (o *Object) String() string {
	if o.Namespace == "" {
		return fmt.Sprintf("%s %q", o.Kind.Kind, o.Name)
	}
	return fmt.Sprintf("%s %q", o.Kind.Kind, o.Namespace+"/"+o.Name)
}

// workload is the class of all objects that are not of a kind of their own here.
const workload = "Workload"

// Class is what kind of root the object is, for metrics: a few words, whatever clients send.
func (o *Object) Class() string {
	switch o.Kind {
	case namespaceKind(), definitionKind(), own("PodProtector"), own("Cell"):
		return o.Kind.Kind
	}
	return workload
}

// isOfDeployment reports whether the object is a ReplicaSet of a Deployment: the answer was given when that was deleted.
func (o *Object) isOfDeployment() bool {
	return o.Kind == schema.GroupKind{Group: "apps", Kind: "ReplicaSet"} && o.ControlledBy == schema.GroupKind{Group: "apps", Kind: "Deployment"}
}
