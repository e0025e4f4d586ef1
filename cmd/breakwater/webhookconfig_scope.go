package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/webhook"
)

// scopeFlags are the flags of webhook-config for the namespaces whose removals the webhook reviews.
type scopeFlags struct {
	scope string
	// aggregators are users and groups.
	aggregators []string
}

func (f *scopeFlags) bind(flags *pflag.FlagSet, options *webhook.ConfigurationOptions) {
	flags.StringSliceVar(&options.Namespaces, "namespaces", nil, "`namespaces` of the Cell, if it includes only some of its cluster")
	flags.StringSliceVar(&options.ExemptNamespaces, "exempt-namespaces", webhook.DefaultExemptNamespaces(), "`namespaces` that are never protected")
	flags.StringVar(&f.scope, "scope", string(webhookconfig.ScopeAll), "namespaces whose removals the webhook reviews, apart from exempt ones: `All|Protected`; Protected selects those with protectors")
	flags.StringSliceVar(&f.aggregators, "aggregators", webhookconfig.DefaultAggregators(), "with --scope Protected, `users` and groups of the cell's aggregators, which may remove the label of namespaces")
}

func (f *scopeFlags) isProtected() bool { return f.scope == string(webhookconfig.ScopeProtected) }

// apply validates the flags and sets the scope of the configuration for removals.
func (f *scopeFlags) apply(o *webhook.ConfigurationOptions, schedule bool, flags *pflag.FlagSet) error {
	switch {
	case !f.isProtected() && f.scope != string(webhookconfig.ScopeAll):
		return fmt.Errorf("--scope %q: want All or Protected", f.scope)
	case f.isProtected() && (schedule || o.Core != ""):
		return errors.New("--scope Protected is for the removals of a cell: it excludes --scheduling and --core")
	case !f.isProtected() && flags.Changed("aggregators"):
		return errors.New("--aggregators needs --scope Protected")
	case len(f.aggregators) == 0, slices.ContainsFunc(f.aggregators, isQuoted):
		return fmt.Errorf("--aggregators %q: want the names of users and groups", f.aggregators)
	}
	o.Scope = webhookconfig.Scope(f.scope)
	return nil
}

// isQuoted reports whether a name is no user or group, or would end a string of an expression.
func isQuoted(name string) bool { return name == "" || strings.ContainsAny(name, `'\`) }

// objects returns the policy that keeps the label of namespaces, and its binding; none if the scope does not depend on the label.
func (f *scopeFlags) objects(cell string) []any {
	if !f.isProtected() {
		return nil
	}
	return []any{webhookconfig.ProtectedPolicy(cell, f.aggregators), webhookconfig.ProtectedBinding(cell)}
}
