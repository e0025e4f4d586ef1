package main

import (
	"fmt"
	"slices"
	"strings"
)

// typed splits TYPE/NAME, as kubectl takes it, and TYPE.GROUP/NAME, as kubectl get -o name writes it. The type is in small letters and without
// its group; it is empty of a name alone.
func typed(text string) (kind, name string) {
	kind, name, found := strings.Cut(text, "/")
	if !found {
		return "", text
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	return kind, name
}

// kinds are the names of a type of objects, the one that is written out first.
type kinds []string

var (
	podKinds       = kinds{"pod", "pods", "po"}                    //nolint:gochecknoglobals // a constant
	nodeKinds      = kinds{"node", "nodes", "no"}                  //nolint:gochecknoglobals // a constant
	cellKinds      = kinds{"cell", "cells"}                        //nolint:gochecknoglobals // a constant
	protectorKinds = kinds{"podprotector", "podprotectors", "ppr"} //nolint:gochecknoglobals // a constant
)

// named is the name of one of these: NAME, or TYPE/NAME.
func (k kinds) named(text string) (string, error) {
	kind, name := typed(text)
	if name == "" || strings.Contains(name, "/") || kind != "" && !slices.Contains(k, kind) {
		return "", fmt.Errorf("%q: want NAME or %s/NAME", text, k[0])
	}
	return name, nil
}

// allNamed are names in their order, each once.
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
