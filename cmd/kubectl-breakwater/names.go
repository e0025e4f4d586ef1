package main

import (
	"fmt"
	"slices"
	"strings"
)

// splitTypeName splits TYPE/NAME, as in kubectl, and TYPE.GROUP/NAME, as printed by kubectl get -o name. The type is lower-case and without its
// group. It is empty for a bare name.
func splitTypeName(text string) (kind, name string) {
	kind, name, found := strings.Cut(text, "/")
	if !found {
		return "", text
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	return kind, name
}

// resourceNames are the names of a resource type, the full name first.
type resourceNames []string

var (
	podResource       = resourceNames{"pod", "pods", "po"}                    //nolint:gochecknoglobals // a constant
	nodeResource      = resourceNames{"node", "nodes", "no"}                  //nolint:gochecknoglobals // a constant
	cellResource      = resourceNames{"cell", "cells"}                        //nolint:gochecknoglobals // a constant
	protectorResource = resourceNames{"podprotector", "podprotectors", "ppr"} //nolint:gochecknoglobals // a constant
)

// parse parses NAME, or TYPE/NAME with one of these names as TYPE.
func (k resourceNames) parse(text string) (string, error) {
	kind, name := splitTypeName(text)
	if name == "" || strings.Contains(name, "/") || kind != "" && !slices.Contains(k, kind) {
		return "", fmt.Errorf("%q: want NAME or %s/NAME", text, k[0])
	}
	return name, nil
}

// parseAll parses names in order and drops duplicates.
func (k resourceNames) parseAll(texts []string) (all []string, err error) {
	for _, text := range texts {
		name, err := k.parse(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

// parsePodName parses pod/NAME, or pod NAME.
func parsePodName(arguments []string) (string, error) {
	text := strings.Join(arguments, "/")
	name, err := podResource.parse(text)
	if err != nil || !strings.Contains(text, "/") { // a bare name is ambiguous
		return "", fmt.Errorf("%q: want pod/NAME", strings.Join(arguments, " "))
	}
	return name, nil
}
