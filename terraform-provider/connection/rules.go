package connection

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// problem is an error in one attribute, or in the environment variable that replaces it.
type problem struct {
	at   path.Path
	text string
}

// Validate returns the errors of the configuration. Unknown values are no errors.
func (m *Model) Validate() diag.Diagnostics {
	var d diag.Diagnostics
	for _, p := range (&settings{Model: *m}).problems() {
		d.AddAttributeError(p.at, "Invalid configuration of the provider", p.text+".")
	}
	return d
}

func (s *settings) problems() []*problem {
	return slices.Concat(s.validateStrings(), s.validatePairs(), s.validatePaths(), s.validateExec(), s.validateInCluster())
}

func (s *settings) newProblem(attribute, format string, arguments ...any) *problem {
	return &problem{at: path.Root(attribute), text: s.name(attribute) + " " + fmt.Sprintf(format, arguments...)}
}

// isSet reports whether an attribute has a known value.
func isSet(v attr.Value) bool { return !v.IsNull() && !v.IsUnknown() }

// emptyProblem is the error for an empty attribute. If the provider ignored an empty attribute that should select a cluster, it could
// use another cluster.
const emptyProblem = "is empty: remove it, or set it to null"

func (s *settings) validateStrings() (all []*problem) {
	for _, t := range s.stringAttributes() {
		switch {
		case !isSet(t.value):
		case strings.TrimSpace(t.value.ValueString()) == "":
			all = append(all, s.newProblem(t.attribute, emptyProblem))
		case t.validate != nil:
			if text := t.validate(t.value.ValueString()); text != "" {
				all = append(all, s.newProblem(t.attribute, "%s", text))
			}
		}
	}
	if s.invalidInsecure != "" {
		all = append(all, s.newProblem("insecure", "is neither true nor false"))
	}
	return all
}

// validatePairs returns errors for attributes that exclude each other, or that need each other.
func (s *settings) validatePairs() (all []*problem) {
	values := s.values()
	both := func(a, b string) bool { return isSet(values[a]) && isSet(values[b]) }
	for _, pair := range [][2]string{
		{"config_path", "kubeconfig"}, {"config_paths", "kubeconfig"}, {"config_paths", "config_path"},
		{"exec", "token"}, {"exec", "username"}, {"username", "token"},
	} {
		if a, b := pair[0], pair[1]; both(a, b) {
			all = append(all, s.newProblem(a, "and %s are mutually exclusive: set one of them", s.name(b)))
		}
	}
	for _, pair := range [][2]string{{"client_certificate", "client_key"}, {"username", "password"}} {
		for _, p := range [][2]string{pair, {pair[1], pair[0]}} {
			if isSet(values[p[0]]) && values[p[1]].IsNull() {
				all = append(all, s.newProblem(p[0], "needs %s: set both, or neither", p[1]))
			}
		}
	}
	if isSet(s.ClusterCACertificate) && s.Insecure.ValueBool() {
		all = append(all, s.newProblem("insecure", "disables verification, but %s configures it: remove one of them", s.name("cluster_ca_certificate")))
	}
	if both("client_certificate", "client_key") {
		certificate, key := s.ClientCertificate.ValueString(), s.ClientKey.ValueString()
		if certificatesProblem(certificate)+keyProblem(key) != "" {
			return all
		}
		if _, err := tls.X509KeyPair([]byte(certificate), []byte(key)); err != nil {
			all = append(all, s.newProblem("client_key", "is not the key of %s: take both from one source", s.name("client_certificate")))
		}
	}
	return all
}

func (s *settings) validatePaths() (all []*problem) {
	if !isSet(s.ConfigPaths) {
		return nil
	}
	paths := s.ConfigPaths.Elements()
	if len(paths) == 0 {
		return []*problem{s.newProblem("config_paths", emptyProblem)}
	}
	for i, v := range paths {
		if p, ok := v.(types.String); ok && !p.IsUnknown() && p.ValueString() == "" {
			all = append(all, &problem{at: path.Root("config_paths").AtListIndex(i), text: "a path in config_paths is empty: remove it"})
		}
	}
	return all
}

// validateInCluster returns errors for the attributes that contradict in_cluster.
func (s *settings) validateInCluster() (all []*problem) {
	if !s.InCluster.ValueBool() {
		return nil
	}
	values := s.values()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == "in_cluster" || name == "timeout" || name == "field_manager" || !isSet(values[name]) || name == "insecure" && !s.Insecure.ValueBool() {
			continue
		}
		all = append(all, s.newProblem(name, "has no effect with in_cluster, which uses the ServiceAccount of the pod: remove one of them"))
	}
	return all
}
