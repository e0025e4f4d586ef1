package main

import (
	"fmt"
	"slices"
	"strings"
)

// typed splits TYPE/NAME, as in kubectl, and TYPE.GROUP/NAME, as printed by kubectl get -o name. The type is lower-case and without its
// group. It is empty for a bare name.
func typed(text string) (kind, name string) {
	kind, name, found := strings.Cut(text, "/")
	if !found {
		return "", text
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	return kind, name
}

// kinds are the names of a resource type, the full name first.
type kinds []string

var (
	podKinds       = kinds{"pod", "pods", "po"}                    //nolint:gochecknoglobals // a constant
	nodeKinds      = kinds{"node", "nodes", "no"}                  //nolint:gochecknoglobals // a constant
	cellKinds      = kinds{"cell", "cells"}                        //nolint:gochecknoglobals // a constant
	protectorKinds = kinds{"podprotector", "podprotectors", "ppr"} //nolint:gochecknoglobals // a constant
)

// named parses NAME or TYPE/NAME of one of these kinds.
func (k kinds) named(text string) (string, error) {
	kind, name := typed(text)
	if name == "" || strings.Contains(name, "/") || kind != "" && !slices.Contains(k, kind) {
		return "", fmt.Errorf("%q: want NAME or %s/NAME", text, k[0])
	}
	return name, nil
}

// allNamed parses names in order and drops duplicates.
func (k kinds) allNamed(texts []string) (all []string, err error) {
	for _, text := range texts {
		name, err := k.named(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}
