package provider

import (
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/breakwater-k8s/breakwater/api/crds"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// kind is a kind of the API that is a resource of Terraform.
type kind struct {
	*shape.Definition
	// name is that of the resource, without breakwater_.
	name string
	// protected resources are not deleted unless deletion_protection is switched off.
	protected bool
	// kubeconfigs tells that the resource can write the Secret that the object refers to.
	kubeconfigs bool
	// derived is the kind of the protectors that a policy generates; nil for a kind that is not a policy.
	derived *kind

	rules func() (*shape.Rules, error)
}

// kinds are all of them, as their CustomResourceDefinitions say.
func kinds() ([]*kind, error) {
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
			return nil, err
		}
		// How admitted removals are booked is tuning, which others may do as well: it is nobody's unless it is said.
		if history := k.Spec.Child("admissionHistory"); history != nil {
			history.Leave()
		}
		k.rules = sync.OnceValues(k.Rules)
	}
	return all, nil
}

// plural is what several objects of the kind are called.
func (k *kind) plural() string {
	if stem, ok := strings.CutSuffix(k.Kind.Kind, "y"); ok {
		return stem + "ies"
	}
	return k.Kind.Kind + "s"
}

// attribute leads to the attribute of a field; where that has none, to the nearest one around it.
func (k *kind) attribute(at shape.Path) path.Path {
	switch {
	case len(at) >= 2 && at[0] == "metadata":
		return path.Root(at[1])
	case len(at) < 2 || at[0] != "spec":
		return path.Empty()
	}
	return k.Spec.Attribute(path.Empty(), at[1:])
}
