package main

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// componentSettings are the flags of components that decide about deletions.
type componentSettings struct {
	limits  brake.Limits
	optedIn labels.Selector
	// namespace and account belong to the generator. They are empty if its Deployment was not found.
	namespace, account string
	// rootGuard is empty if the Deployment of the webhook was not found.
	rootGuard  rootguard.Mode
	ownerKinds []schema.GroupResource
}

// readSettings reads the Deployments of the generator and of the webhook. It uses defaults, and adds a note, for what it cannot find.
func (r *deletionReader) readSettings(ctx context.Context) (*componentSettings, error) {
	s := &componentSettings{limits: brake.DefaultLimits(), optedIn: labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"})}
	var all []appsv1.Deployment
	err := listPages(ctx, r.core, &appsv1.DeploymentList{}, func(l *appsv1.DeploymentList) { all = append(all, l.Items...) },
		client.MatchingLabels{doctor.LabelPartOf: doctor.PartOfBreakwater})
	if err := r.ignoreForbidden(err, "the simulation assumes the default flags of the generator and of the webhook"); err != nil {
		return nil, err
	}
	of := func(component string) *appsv1.Deployment {
		at := slices.IndexFunc(all, func(d appsv1.Deployment) bool { return d.Labels[doctor.LabelComponent] == component })
		if at < 0 {
			return nil
		}
		return &all[at]
	}
	switch generator := of("generator"); {
	case generator != nil:
		s.readGenerator(r, generator)
	case err == nil:
		r.addNote("the Deployment of the generator was not found in the core cluster: the simulation assumes its default flags (a limit of %d or %d %% per %s)",
			s.limits.Count, s.limits.Percent, s.limits.Window)
	}
	if webhook := of("webhook"); webhook != nil {
		s.readWebhook(r, webhook)
	}
	return s, nil
}

func (s *componentSettings) readGenerator(r *deletionReader, d *appsv1.Deployment) {
	s.namespace = d.Namespace
	s.account = "system:serviceaccount:" + d.Namespace + ":" + cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default")
	decreases, selector := cli.DecreaseFlags{}, ""
	flags := componentFlagSet()
	decreases.Bind(flags)
	flags.StringVar(&selector, "workload-selector", s.optedIn.String(), "")
	err := flags.Parse(argumentsOf(d))
	if err == nil {
		s.limits, err = decreases.Validate()
	}
	if err == nil {
		s.optedIn, err = labels.Parse(selector)
	}
	if err != nil {
		s.limits, s.optedIn = brake.DefaultLimits(), labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"})
		r.addNote("the flags of Deployment %s/%s cannot be read, and the simulation assumes the defaults: %v", d.Namespace, d.Name, err)
	}
}

func (s *componentSettings) readWebhook(r *deletionReader, d *appsv1.Deployment) {
	mode, audit, owners := "", false, []string(nil)
	flags := componentFlagSet()
	flags.StringVar(&mode, "root-guard", string(rootguard.Warn), "")
	flags.BoolVar(&audit, "audit", false, "")
	flags.StringSliceVar(&owners, "root-guard-owner-kinds", nil, "")
	err := flags.Parse(argumentsOf(d))
	if err == nil {
		s.rootGuard, err = rootguard.ParseMode(mode)
	}
	if err != nil {
		s.rootGuard = rootguard.Warn
		r.addNote("the flags of Deployment %s/%s cannot be read, and the simulation assumes the defaults: %v", d.Namespace, d.Name, err)
	}
	if audit && s.rootGuard == rootguard.Deny {
		s.rootGuard = rootguard.Warn
	}
	for _, owner := range owners {
		s.ownerKinds = append(s.ownerKinds, schema.ParseGroupResource(owner))
	}
}

// componentFlagSet returns a flag set that ignores unknown flags.
func componentFlagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	return flags
}

func argumentsOf(d *appsv1.Deployment) []string {
	for i := range d.Spec.Template.Spec.Containers {
		if c := &d.Spec.Template.Spec.Containers[i]; c.Name == d.Labels[doctor.LabelComponent] || i == 0 {
			return slices.Concat(c.Command, c.Args)
		}
	}
	return nil
}
