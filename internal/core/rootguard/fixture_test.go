package rootguard_test

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// now is the time of all questions.
func now() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

// protector returns a handwritten protector of namespace shop for pods with app=NAME.
func protector(name string, floor int32, change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": name}}
	p.Spec.MinAvailable = v1alpha1.Pods(floor)
	for _, c := range change {
		c(p)
	}
	return p
}

// generatedFrom turns a protector into one that was generated from a source.
func generatedFrom(group, version, kind, name string) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		source := policy.Ref{Group: group, Kind: kind, Namespace: p.Namespace, Name: name}
		p.Name = policy.ProtectorName(source)
		p.Labels = map[string]string{policy.LabelManagedBy: policy.ManagedBy, v1alpha1.LabelSourceKind: kind}
		p.Annotations = map[string]string{
			v1alpha1.AnnotationSourceName:       name,
			v1alpha1.AnnotationSourceAPIVersion: schema.GroupVersion{Group: group, Version: version}.String(),
		}
	}
}

func ofDeployment(name string) func(*v1alpha1.PodProtector) {
	return generatedFrom("apps", "v1", "Deployment", name)
}

// counted adds a cell with the given number of available pods.
func counted(cell string, available int32) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: cell, Aggregation: v1alpha1.Aggregation{
			CountedReplicas: available, TotalReplicas: available, CountedSpec: quota.CountedSpec(&p.Spec),
		}})
	}
}

func annotated(key, value string) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

// fields is a JSON object.
type fields = map[string]any

// object returns an object in the format in which an API server sends it.
func object(t *testing.T, apiVersion, kind, resource string, of fields) *rootguard.Object {
	t.Helper()
	group, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	o, err := rootguard.ReadObject(schema.GroupKind{Group: group.Group, Kind: kind}, schema.GroupResource{Group: group.Group, Resource: resource}, raw)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func namespaceNamed(t *testing.T, name string) *rootguard.Object {
	t.Helper()
	return object(t, "v1", "Namespace", "namespaces", fields{"metadata": fields{"name": name, "uid": "n"}})
}

// deploymentNamed returns a Deployment of namespace shop with pods of app=NAME.
func deploymentNamed(t *testing.T, name string) *rootguard.Object {
	t.Helper()
	return object(t, "apps/v1", "Deployment", "deployments", fields{
		"metadata": fields{"namespace": "shop", "name": name, "uid": "u-" + name},
		"spec":     fields{"replicas": 4, "template": fields{"metadata": fields{"labels": fields{"app": name}}}},
	})
}

func definitionOf(t *testing.T, group, kind, plural string) *rootguard.Object {
	t.Helper()
	return object(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", fields{
		"metadata": fields{"name": plural + "." + group}, "spec": fields{"group": group, "names": fields{"kind": kind, "plural": plural}},
	})
}

// floorsOf returns the floors of protectors of the core "core".
func floorsOf(at rootguard.ClusterIdentity, all ...*v1alpha1.PodProtector) (floors []rootguard.Floor) {
	for _, p := range all {
		if f, ok := rootguard.FloorOf("core", p, at, now()); ok {
			floors = append(floors, f)
		}
	}
	return floors
}
