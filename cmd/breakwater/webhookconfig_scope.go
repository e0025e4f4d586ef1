package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/spf13/pflag"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// scopeFlags are the flags for the namespaces in which the API server calls the webhook for removals.
type scopeFlags struct {
	scope       string
	aggregators []string
}

func (f *scopeFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.scope, "scope", string(webhookconfig.ScopeAll), "namespaces in which the API server calls the webhook for removals: `All|Protected`")
	flags.StringSliceVar(&f.aggregators, "aggregator-users", []string{
		"system:serviceaccount:breakwater-system:breakwater-aggregator", "system:serviceaccount:breakwater-system:breakwater-access",
	}, "with --scope Protected, the user `names` of the cell's aggregators in its cluster")
}

func (f *scopeFlags) isChanged(flags *pflag.FlagSet) bool {
	return flags.Changed("scope") || flags.Changed("aggregator-users")
}

// complete validates the flags and sets the scope.
func (f *scopeFlags) complete(o *register.Options, schedule bool) error {
	o.Scope = webhookconfig.Scope(f.scope)
	switch {
	case !slices.Contains([]webhookconfig.Scope{webhookconfig.ScopeAll, webhookconfig.ScopeProtected}, o.Scope):
		return fmt.Errorf("--scope %q: want All or Protected", f.scope)
	case o.Scope == webhookconfig.ScopeProtected && (schedule || o.Core != ""):
		return errors.New("--scope Protected is for removals of a cell: omit it with --core and --scheduling")
	case o.Scope == webhookconfig.ScopeProtected && len(f.aggregators) == 0:
		return errors.New("--aggregator-users: name the users of the cell's aggregators, or they cannot remove the label")
	case slices.ContainsFunc(f.aggregators, func(user string) bool { return !webhookconfig.IsAggregatorUser(user) }):
		return fmt.Errorf("--aggregator-users %q: want user names without quotes, backslashes and brackets", f.aggregators)
	}
	return nil
}

// policy returns the policy that keeps the label of namespaces with protectors, and its binding, if a scope depends on the label.
func (f *scopeFlags) policy(o *register.Options) []any {
	if o.Scope != webhookconfig.ScopeProtected {
		return nil
	}
	return []any{webhookconfig.ProtectedPolicy(o.Cell, f.aggregators), webhookconfig.ProtectedBinding(o.Cell)}
}
