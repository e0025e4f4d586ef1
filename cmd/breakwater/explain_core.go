package main

import (
	"fmt"
	"slices"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// coreConnection is the connection to a core cluster. Its name is empty if there is only one.
type coreConnection struct {
	clusters.Connection
	name, flag string
}

func (f *explainFlags) coreConnections() ([]coreConnection, error) {
	if len(f.cores) == 0 {
		return []coreConnection{{f.core, "", "--kubeconfig"}}, nil
	}
	var all []coreConnection
	for _, argument := range f.cores {
		name, connection, err := clusters.ParseNamed(argument)
		if err != nil {
			return nil, fmt.Errorf("--core: %w", err)
		}
		if slices.ContainsFunc(all, func(other coreConnection) bool { return other.name == name }) {
			return nil, fmt.Errorf("--core %s: %q is given twice", argument, name)
		}
		all = append(all, coreConnection{connection, name, "--core " + argument})
	}
	return all, nil
}
