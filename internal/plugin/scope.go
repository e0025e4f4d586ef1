package plugin

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/cli"
)

// Scope selects the protectors of a command. An empty namespace means all namespaces, and an empty name all protectors.
type Scope struct {
	Namespace, Name string
}

// ScopeFlags are the flags of a command about the protectors of a namespace, of all namespaces, or about one protector.
type ScopeFlags struct {
	*Plugin
	all bool
}

// Bind adds the flags and the argument to a command.
func (f *ScopeFlags) Bind(command *cobra.Command) {
	command.Args, command.ValidArgsFunction = cobra.MaximumNArgs(1), f.completeProtectors
	command.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "protectors of all namespaces")
}

// Scope returns the scope of the flags and of at most one name.
func (f *ScopeFlags) Scope(names []string) (Scope, error) {
	if f.all {
		if len(names) > 0 {
			return Scope{}, errors.New("a protector has one namespace: set --namespace instead of --all-namespaces")
		}
		return Scope{}, nil
	}
	namespace, err := f.Clusters.Namespace()
	if err != nil || len(names) == 0 {
		return Scope{Namespace: namespace}, err
	}
	name, err := cli.ProtectorResource.Parse(names[0])
	return Scope{namespace, name}, err
}

// ReadStates reads the protectors of a command from all cores. If some cores fail, it returns the states of the others with the error.
func (f *ScopeFlags) ReadStates(ctx context.Context, names []string) (of Scope, cores []Core, states []CoreState, err error) {
	if of, err = f.Scope(names); err != nil {
		return of, nil, nil, err
	}
	if cores, err = f.Clusters.Cores(ctx); err != nil {
		return of, nil, nil, err
	}
	states, err = FromEachCore(cores, func(c Core) (CoreState, error) { return readState(ctx, c, of.Namespace, of.Name) })
	return of, cores, states, err
}
