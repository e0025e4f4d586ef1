// Package check finds out whether an installation works, from within a cluster.
package check

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Finding is what was found of one thing.
type Finding struct {
	What string
	// Problem is what is wrong and what to do; empty is nothing.
	Problem string
}

// Checker looks at one cluster.
type Checker struct {
	Client    client.Reader
	Discovery discovery.ServerResourcesInterface
	// Core is whether the cluster is a core, in which there are Cells.
	Core bool
	// Rings is whether a sharder is to look after the ClusterRings of the cluster.
	Rings bool
	// Configurations are the names of those that make this cluster's apiserver ask the webhook about removals and protectors.
	Configurations []string
	// SchedulingConfigurations are the names of those that make it ask what scheduling policies add.
	SchedulingConfigurations []string
	// Namespace is one without protectors, in which a removal is asked about that is none.
	Namespace string
	// Dial reaches Services; nil is as everybody does.
	Dial Dial
}

// Rules are what the Checker needs.
func (c *Checker) Rules() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	const admission = "admissionregistration.k8s.io"
	get := func(resource string, names []string) {
		if len(names) > 0 {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{admission}, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"get"}})
		}
	}
	list := func(group, resource string) {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list"}})
	}
	get("validatingwebhookconfigurations", c.Configurations)
	get("mutatingwebhookconfigurations", c.SchedulingConfigurations)
	if c.Core {
		list(v1alpha1.GroupVersion.Group, "cells")
	}
	if c.Rings {
		list(v1alpha1.GroupVersion.Group, "clusterrings")
		list(admission, "mutatingwebhookconfigurations")
	}
	return rules
}

// Look looks once at everything.
func (c *Checker) Look(ctx context.Context) []Finding {
	var all []Finding
	if c.Core {
		all = append(all, c.api())
	}
	for _, name := range c.Configurations {
		all = append(all, c.configuration(ctx, name)...)
	}
	for _, name := range c.SchedulingConfigurations {
		all = append(all, c.scheduling(ctx, name)...)
	}
	if c.Core {
		all = append(all, c.cells(ctx)...)
	}
	if c.Rings {
		all = append(all, c.rings(ctx)...)
	}
	return all
}

func (c *Checker) api() Finding {
	f := Finding{What: "API " + v1alpha1.GroupVersion.String()}
	if _, err := c.Discovery.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String()); err != nil {
		f.Problem = fmt.Sprintf("is not served: install the chart breakwater-crds: %v", err)
	}
	return f
}

// configuration is a finding for each webhook of a configuration, or one that there is none.
func (c *Checker) configuration(ctx context.Context, name string) []Finding {
	what := "ValidatingWebhookConfiguration " + name
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := c.Client.Get(ctx, client.ObjectKey{Name: name}, configuration)
	switch {
	case apierrors.IsNotFound(err):
		return []Finding{{what, "is not there, and removals pass unasked: install or sync the chart breakwater"}}
	case err != nil:
		return []Finding{{what, err.Error()}}
	case len(configuration.Webhooks) == 0:
		return []Finding{{what, "is empty, and removals pass unasked: sync the chart breakwater"}}
	}
	var all []Finding
	for i := range configuration.Webhooks {
		f := Finding{What: what + ", " + configuration.Webhooks[i].Name}
		if err := c.Ask(ctx, &configuration.Webhooks[i]); err != nil {
			f.Problem = err.Error()
		}
		all = append(all, f)
	}
	return all
}
