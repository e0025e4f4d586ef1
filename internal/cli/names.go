package cli

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

// ResourceNames are the names of a resource type, the full name first.
type ResourceNames []string

// Resources whose names commands take.
var (
	PodResource       = ResourceNames{"pod", "pods", "po"}                    //nolint:gochecknoglobals // a constant
	NodeResource      = ResourceNames{"node", "nodes", "no"}                  //nolint:gochecknoglobals // a constant
	CellResource      = ResourceNames{"cell", "cells"}                        //nolint:gochecknoglobals // a constant
	ProtectorResource = ResourceNames{"podprotector", "podprotectors", "ppr"} //nolint:gochecknoglobals // a constant
)

// Parse parses NAME, or TYPE/NAME with one of these names as TYPE.
func (k ResourceNames) Parse(text string) (string, error) {
	kind, name := SplitTypeName(text)
	if name == "" || strings.Contains(name, "/") || kind != "" && !slices.Contains(k, kind) {
		return "", fmt.Errorf("%q: want NAME or %s/NAME", text, k[0])
	}
	return name, nil
}

// ParseAll parses names in order and drops duplicates.
func (k ResourceNames) ParseAll(texts []string) (all []string, err error) {
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
	name, err := PodResource.Parse(text)
	if err != nil || !strings.Contains(text, "/") { // a bare name is ambiguous
		return "", fmt.Errorf("%q: want pod/NAME", strings.Join(arguments, " "))
	}
	return name, nil
}

// ShellWord quotes a text as one word of a POSIX shell, if that is necessary.
func ShellWord(text string) string {
	isPlain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !isPlain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
