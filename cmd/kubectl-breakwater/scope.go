package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// scope selects the protectors of a command. An empty namespace means all namespaces, and an empty name all protectors.
type scope struct {
	namespace, name string
}

// scopeFlags are the flags of a command about the protectors of a namespace, of all namespaces, or about one protector.
type scopeFlags struct {
	*plugin
	all bool
}

func (f *scopeFlags) bind(command *cobra.Command) {
	command.Args, command.ValidArgsFunction = cobra.MaximumNArgs(1), f.completeProtectors
	command.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "protectors of all namespaces")
}

// scope returns the scope of the flags and of at most one name.
func (f *scopeFlags) scope(names []string) (scope, error) {
	if f.all {
		if len(names) > 0 {
			return scope{}, errors.New("a protector has one namespace: set --namespace instead of --all-namespaces")
		}
		return scope{}, nil
	}
	namespace, err := f.clusters.Namespace()
	if err != nil || len(names) == 0 {
		return scope{namespace: namespace}, err
	}
	name, err := protectorResource.parse(names[0])
	return scope{namespace, name}, err
}

// readStates reads the protectors of a command from all cores. If some cores fail, it returns the states of the others with the error.
func (f *scopeFlags) readStates(ctx context.Context, names []string) (of scope, cores []core, states []coreState, err error) {
	if of, err = f.scope(names); err != nil {
		return of, nil, nil, err
	}
	if cores, err = f.clusters.Cores(ctx); err != nil {
		return of, nil, nil, err
	}
	states, err = fromEachCore(cores, func(c core) (coreState, error) { return readState(ctx, c, of.namespace, of.name) })
	return of, cores, states, err
}
