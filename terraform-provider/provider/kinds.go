package provider

import (
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/breakwater-k8s/breakwater/api/crds"
	"github.com/breakwater-k8s/breakwater/terraform-provider/refresh"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// kind is an API kind that is a Terraform resource.
type kind struct {
	*shape.Definition
	// name is the name of the resource, without the prefix breakwater_.
	name string
	// protected means that deletion_protection is on by default: the resource is not deleted unless the user switches it off.
	protected bool
	// kubeconfigs means that the resource can write the Secret that the object refers to.
	kubeconfigs bool
	// derived is the kind of the protectors that a policy generates; nil for a kind that is not a policy.
	derived *kind

	// attributeNames holds the names of the attributes of the spec by the names of the API.
	attributeNames map[string]string
	rules          func() (*shape.Rules, error)
}

// kinds returns all kinds, as their CustomResourceDefinitions define them.
func kinds() []*kind {
	protectors := &kind{name: "pod_protector", protected: true}
	all := []*kind{
		protectors,
		{name: "protection_policy", derived: protectors},
		{name: "cluster_protection_policy", derived: protectors},
		{name: "cell", kubeconfigs: true},
		{name: "cluster_ring"},
		{name: "pod_scheduling_policy"},
		{name: "cluster_pod_scheduling_policy"},
	}
	files := []string{"podprotectors", "protectionpolicies", "clusterprotectionpolicies", "cells", "clusterrings", "podschedulingpolicies",
		"clusterpodschedulingpolicies"}
	for i, k := range all {
		var err error
		if k.Definition, err = shape.Read(crds.FS, "breakwater.dev_"+files[i]+".yaml"); err != nil {
			panic("provider: read the definitions of the API: " + err.Error())
		}
		// admissionHistory is tuning that other field managers may do as well. Terraform does not own it unless the configuration
		// sets it.
		if history := k.Spec.Child("admissionHistory"); history != nil {
			history.LeaveUnowned()
		}
		// Breakwater itself creates and changes the protectors with this field.
		k.Spec.Fields = slices.DeleteFunc(k.Spec.Fields, func(f *shape.Field) bool { return f.JSON == "shareOf" })
		k.attributeNames = map[string]string{}
		attributeNamesOf(k.Spec, k.attributeNames)
		k.rules = sync.OnceValues(k.Rules)
	}
	return all
}

// plural returns the plural of the kind.
func (k *kind) plural() string { return pluralOf(k.Kind.Kind) }

func pluralOf(name string) string {
	if stem, ok := strings.CutSuffix(name, "y"); ok {
		return stem + "ies"
	}
	return name + "s"
}

// attribute returns the attribute of a field. If the field has none, it returns the nearest enclosing attribute.
func (k *kind) attribute(at shape.Path) path.Path {
	switch {
	case len(at) >= 2 && at[0] == "metadata":
		return path.Root(at[1])
	case len(at) < 2 || at[0] != "spec":
		return path.Empty()
	}
	return k.Spec.Attribute(path.Empty(), at[1:])
}

// key returns the key of the kind's objects in a namespace.
func (k *kind) key(namespace string) refresh.Key {
	if !k.Namespaced {
		namespace = ""
	}
	return refresh.Key{Resource: k.Resource, Namespace: namespace}
}
