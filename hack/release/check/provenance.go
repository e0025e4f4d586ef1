package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/breakwater-k8s/breakwater/hack/release/sums"
)

const (
	// ProvenanceFile is the name of the statement.
	ProvenanceFile = "provenance.json"
	// StatementType is the type of in-toto statements, PredicateType that of SLSA provenance.
	StatementType = "https://in-toto.io/Statement/v1"
	// PredicateType is the type of the predicate.
	PredicateType = "https://slsa.dev/provenance/v1"
)

// Statement is an in-toto statement, https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md.
type Statement struct {
	Type          string         `json:"_type"`
	Subject       []Subject      `json:"subject"`
	PredicateType string         `json:"predicateType"`
	Predicate     map[string]any `json:"predicate"`
}

// Subject is a file.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// provenance checks that the statement is about all other files.
func (c checker) provenance() error {
	raw, err := os.ReadFile(c.path(ProvenanceFile))
	if err != nil {
		return err
	}
	var s Statement
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("%s: %w", ProvenanceFile, err)
	}
	if s.Type != StatementType || s.PredicateType != PredicateType || s.Predicate["buildDefinition"] == nil || s.Predicate["runDetails"] == nil {
		return fmt.Errorf("%s is no SLSA provenance", ProvenanceFile)
	}
	names, err := sums.Files(c.folder)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if name == ProvenanceFile || strings.HasPrefix(name, sums.File) {
			continue
		}
		sum, err := sums.Of(c.path(name))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(s.Subject, func(subject Subject) bool { return subject.Name == name && subject.Digest["sha256"] == sum }) {
			errs = append(errs, fmt.Errorf("%s does not state %s as it is", ProvenanceFile, name))
		}
	}
	return errors.Join(errs...)
}
