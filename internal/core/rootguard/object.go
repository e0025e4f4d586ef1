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
	// Namespace is empty for cluster-scoped objects, including Namespaces.
	Namespace, Name string
	UID             types.UID
	Annotations     map[string]string
	// NamespaceAnnotations are the annotations of the object's namespace. They are nil until the caller has set them.
	NamespaceAnnotations map[string]string
	// Terminating reports whether the object is being deleted already.
	Terminating bool
	// ControlledBy is the kind of the object's controller. It is empty if there is none.
	ControlledBy schema.GroupKind
	// Replicas is spec.replicas. It is nil if the object has no such field.
	Replicas *int64
	// TemplateLabels are the labels of spec.template. They are nil if the object has no template.
	TemplateLabels map[string]string
	// Defines and DefinesResource are the kind and the resource that a CustomResourceDefinition defines.
	Defines         schema.GroupKind
	DefinesResource schema.GroupResource
}

// These functions return the kinds that are not workloads.
func namespaceKind() schema.GroupKind { return schema.GroupKind{Kind: "Namespace"} }

func definitionKind() schema.GroupKind {
	return schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

func ownKind(kind string) schema.GroupKind {
	return schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: kind}
}

// fields are the relevant fields of an object of any kind.
type fields struct {
	Metadata *metav1.ObjectMeta `json:"metadata"`
	Spec     any                `json:"spec"`
}

// ReadObject parses the object of a review. It returns an error for an object without a name.
func ReadObject(kind schema.GroupKind, resource schema.GroupResource, raw []byte) (*Object, error) {
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

// readSpec treats fields of unexpected types as absent, since the object may be of any kind.
func (o *Object) readSpec(of any) {
	spec, _ := of.(map[string]any)
	if number, ok := spec["replicas"].(json.Number); ok {
		if replicas, err := number.Int64(); err == nil {
			o.Replicas = &replicas
		}
	}
	o.TemplateLabels = templateLabels(spec["template"])
	if o.Kind == definitionKind() {
		group, names := stringField(spec, "group"), spec["names"]
		o.Defines = schema.GroupKind{Group: group, Kind: stringField(names, "kind")}
		o.DefinesResource = schema.GroupResource{Group: group, Resource: stringField(names, "plural")}
	}
}

func kindOf(apiVersion, kind string) schema.GroupKind {
	version, _ := schema.ParseGroupVersion(apiVersion) // a malformed version results in a kind that no floor depends on
	return schema.GroupKind{Group: version.Group, Kind: kind}
}

func stringField(in any, key string) string {
	fields, _ := in.(map[string]any)
	text, _ := fields[key].(string)
	return text
}

// templateLabels returns the labels of a template. The result is not nil if the template has metadata.
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

// String returns the name of the object for messages.
func (o *Object) String() string {
	if o.Namespace == "" {
		return fmt.Sprintf("%s %q", o.Kind.Kind, o.Name)
	}
	return fmt.Sprintf("%s %q", o.Kind.Kind, o.Namespace+"/"+o.Name)
}

// workload is the class of all objects without a class of their own.
const workload = "Workload"

// Class returns the class of the object for metrics. The set of classes is small and does not depend on client input.
func (o *Object) Class() string {
	switch o.Kind {
	case namespaceKind(), definitionKind(), ownKind("PodProtector"), ownKind("Cell"):
		return o.Kind.Kind
	}
	return workload
}

// isControlledByDeployment reports whether the object is a ReplicaSet of a Deployment. Its deletion was decided with that of the Deployment.
func (o *Object) isControlledByDeployment() bool {
	return o.Kind == schema.GroupKind{Group: "apps", Kind: "ReplicaSet"} && o.ControlledBy == schema.GroupKind{Group: "apps", Kind: "Deployment"}
}
