// Package check tests from within a cluster whether an installation works.
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
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// Finding is the result of one check.
type Finding struct {
	What string
	// Problem says what is wrong and how to fix it. It is empty if the check passed.
	Problem string
}

// Checker checks one cluster.
type Checker struct {
	Client    client.Reader
	Discovery discovery.ServerResourcesInterface
	// Core reports whether the cluster is a core cluster, which holds Cells.
	Core bool
	// Rings reports whether a sharder serves the ClusterRings of the cluster.
	Rings bool
	// Configurations are the names of the ValidatingWebhookConfigurations that send removals and PodProtectors to the webhook.
	Configurations []string
	// SchedulingConfigurations are the names of the MutatingWebhookConfigurations of scheduling policies.
	SchedulingConfigurations []string
	// Namespace has no PodProtectors. The Checker asks about removals in it.
	Namespace string
	// Dial connects to Services; nil uses the default dialer.
	Dial Dial
}

// Rules returns the RBAC rules that the Checker needs.
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

// Run runs all checks once.
func (c *Checker) Run(ctx context.Context) []Finding {
	var all []Finding
	if c.Core {
		all = append(all, c.checkAPI())
	}
	for _, name := range c.Configurations {
		all = append(all, c.checkConfiguration(ctx, name)...)
	}
	for _, name := range c.SchedulingConfigurations {
		all = append(all, c.checkScheduling(ctx, name)...)
	}
	if c.Core {
		all = append(all, c.checkCells(ctx)...)
	}
	if c.Rings {
		all = append(all, c.checkRings(ctx)...)
	}
	return all
}

func (c *Checker) checkAPI() Finding {
	f := Finding{What: "API " + v1alpha1.GroupVersion.String()}
	if _, err := c.Discovery.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String()); err != nil {
		f.Problem = fmt.Sprintf("is not served: install the chart breakwater-crds: %v", err)
	}
	return f
}

// checkConfiguration returns one finding per webhook of a ValidatingWebhookConfiguration, or a single finding if it has none.
func (c *Checker) checkConfiguration(ctx context.Context, name string) []Finding {
	what := "ValidatingWebhookConfiguration " + name
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := c.Client.Get(ctx, client.ObjectKey{Name: name}, configuration)
	if problem := configurationProblem(err, len(configuration.Webhooks), "removals are not reviewed"); problem != "" {
		return []Finding{{what, problem}}
	}
	var all []Finding
	for i := range configuration.Webhooks {
		f := Finding{What: what + ", " + configuration.Webhooks[i].Name}
		if err := c.CallWebhook(ctx, &configuration.Webhooks[i]); err != nil {
			f.Problem = err.Error()
		}
		all = append(all, f)
	}
	return all
}

// configurationProblem says why a webhook configuration has no effect; empty if it has one.
func configurationProblem(err error, webhooks int, consequence string) string {
	switch {
	case apierrors.IsNotFound(err):
		return "does not exist, so " + consequence + ": install or sync the chart breakwater"
	case err != nil:
		return err.Error()
	case webhooks == 0:
		return "is empty, so " + consequence + ": sync the chart breakwater"
	}
	return ""
}

// checkCells returns one finding per Cell, or a single finding if there are no Cells.
func (c *Checker) checkCells(ctx context.Context) []Finding {
	list := &v1alpha1.CellList{}
	if err := c.Client.List(ctx, list); err != nil {
		return []Finding{{"Cells", fmt.Sprintf("cannot be listed: %v", err)}}
	}
	if len(list.Items) == 0 {
		return []Finding{{"Cells", "there are none, so no pod is counted: add a worker with breakwater join, or list one in the chart's values"}}
	}
	var all []Finding
	for i := range list.Items {
		all = append(all, Finding{"Cell " + list.Items[i].Name, status.CellProblem(&list.Items[i])})
	}
	return all
}
