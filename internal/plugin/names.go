package plugin

import (
	"fmt"
	"slices"
	"strings"
)

// SplitTypeName splits TYPE/NAME, as in kubectl, and TYPE.GROUP/NAME, as printed by kubectl get -o name. The type is lower-case and without its
// group. It is empty for a bare name.
func SplitTypeName(text string) (kind, name string) {
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
	NodeResource      = resourceNames{"node", "nodes", "no"}                  //nolint:gochecknoglobals // a constant
	CellResource      = resourceNames{"cell", "cells"}                        //nolint:gochecknoglobals // a constant
	protectorResource = resourceNames{"podprotector", "podprotectors", "ppr"} //nolint:gochecknoglobals // a constant
)

// Parse parses NAME, or TYPE/NAME with one of these names as TYPE.
func (k resourceNames) Parse(text string) (string, error) {
	kind, name := SplitTypeName(text)
	if name == "" || strings.Contains(name, "/") || kind != "" && !slices.Contains(k, kind) {
		return "", fmt.Errorf("%q: want NAME or %s/NAME", text, k[0])
	}
	return name, nil
}

// ParseAll parses names in order and drops duplicates.
func (k resourceNames) ParseAll(texts []string) (all []string, err error) {
	for _, text := range texts {
		name, err := k.Parse(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

// ParsePodName parses pod/NAME, or pod NAME.
func ParsePodName(arguments []string) (string, error) {
	text := strings.Join(arguments, "/")
	name, err := podResource.Parse(text)
	if err != nil || !strings.Contains(text, "/") { // a bare name is ambiguous
		return "", fmt.Errorf("%q: want pod/NAME", strings.Join(arguments, " "))
	}
	return name, nil
}
