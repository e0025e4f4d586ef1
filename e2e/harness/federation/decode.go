package federation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// topologyDecoder walks the nodes of a topology file and collects all errors with their positions.
type topologyDecoder struct {
	file string
	errs []error
}

func (d *topologyDecoder) addError(at *yaml.Node, field, format string, arguments ...any) {
	where := fmt.Sprintf("%s:%d: ", d.file, at.Line)
	if field != "" {
		where += field + ": "
	}
	d.errs = append(d.errs, fmt.Errorf("%s%s", where, fmt.Sprintf(format, arguments...)))
}

func (d *topologyDecoder) topology(node *yaml.Node) *Topology {
	fields, ok := d.mapping(node, "", "name", "clusters")
	if !ok {
		return nil
	}
	t := &Topology{}
	if name, ok := d.required(node, fields, "", "name"); ok {
		t.Name = d.label(name, "name")
	}
	list, ok := d.required(node, fields, "", "clusters")
	if !ok {
		return nil
	}
	items, ok := d.sequence(list, "clusters")
	if !ok {
		return nil
	}
	lineOf := map[string]int{}
	for i, item := range items {
		field := fmt.Sprintf("clusters[%d]", i)
		spec := d.cluster(item, field)
		if first, exists := lineOf[spec.Name]; exists {
			d.addError(item, field+".name", "%q is already the name of the cluster in line %d", spec.Name, first)
		} else if spec.Name != "" {
			lineOf[spec.Name] = item.Line
		}
		t.Clusters = append(t.Clusters, spec)
	}
	for _, role := range []Role{Core, Worker} {
		if !slices.ContainsFunc(t.Clusters, func(c ClusterSpec) bool { return c.HasRole(role) }) {
			d.addError(list, "clusters", "no cluster has the role %s: want at least one", role)
		}
	}
	return t
}

func (d *topologyDecoder) cluster(node *yaml.Node, field string) ClusterSpec {
	var spec ClusterSpec
	fields, ok := d.mapping(node, field, "name", "roles", "nodes")
	if !ok {
		return spec
	}
	if name, ok := d.required(node, fields, field, "name"); ok {
		spec.Name = d.label(name, field+".name")
	}
	if roles, ok := d.required(node, fields, field, "roles"); ok {
		spec.Roles = d.roles(roles, field+".roles")
	}
	nodes, has := fields["nodes"]
	switch {
	case has && len(spec.Roles) > 0 && !spec.HasRole(Worker):
		d.addError(nodes, field+".nodes", "only a cluster with the role worker has nodes")
	case has:
		spec.Nodes = d.nodes(nodes, field+".nodes")
	case spec.HasRole(Worker):
		d.addError(node, field+".nodes", "missing: a worker needs 1 to %d nodes to run pods on", MaxNodes)
	}
	return spec
}

func (d *topologyDecoder) roles(node *yaml.Node, field string) []Role {
	items, ok := d.sequence(node, field)
	if !ok {
		return nil
	}
	if len(items) == 0 {
		d.addError(node, field, "empty: want %s, %s or both", Core, Worker)
	}
	var roles []Role
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", field, i)
		text, ok := d.text(item, at)
		if !ok {
			continue
		}
		role := Role(text)
		switch {
		case role != Core && role != Worker:
			d.addError(item, at, "unknown role %q: want %s or %s", text, Core, Worker)
		case slices.Contains(roles, role):
			d.addError(item, at, "role %s is listed twice", role)
		default:
			roles = append(roles, role)
		}
	}
	return roles
}

func (d *topologyDecoder) nodes(node *yaml.Node, field string) int {
	if node.Kind != yaml.ScalarNode || node.Tag != "!!int" {
		d.addError(node, field, "%s: want a whole number from 1 to %d", describe(node), MaxNodes)
		return 0
	}
	n, err := strconv.Atoi(node.Value)
	if err != nil || n < 1 || n > MaxNodes {
		d.addError(node, field, "%s: want a whole number from 1 to %d", node.Value, MaxNodes)
	}
	return n
}

func (d *topologyDecoder) label(node *yaml.Node, field string) string {
	text, ok := d.text(node, field)
	if !ok {
		return ""
	}
	if faults := validation.IsDNS1123Label(text); len(faults) > 0 {
		d.addError(node, field, "%q: %s", text, strings.Join(faults, "; "))
	}
	return text
}

func (d *topologyDecoder) text(node *yaml.Node, field string) (string, bool) {
	if node.Kind != yaml.ScalarNode || node.Tag != "!!str" {
		d.addError(node, field, "%s: want a string", describe(node))
		return "", false
	}
	return node.Value, true
}

func (d *topologyDecoder) sequence(node *yaml.Node, field string) ([]*yaml.Node, bool) {
	if node.Kind != yaml.SequenceNode {
		d.addError(node, field, "%s: want a list", describe(node))
		return nil, false
	}
	return node.Content, true
}

// mapping returns the values of a mapping by key. Unknown and repeated keys are errors.
func (d *topologyDecoder) mapping(node *yaml.Node, field string, known ...string) (map[string]*yaml.Node, bool) {
	if node.Kind != yaml.MappingNode {
		d.addError(node, field, "%s: want the fields %s", describe(node), strings.Join(known, ", "))
		return nil, false
	}
	values := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := join(field, key.Value)
		switch _, exists := values[key.Value]; {
		case !slices.Contains(known, key.Value):
			d.addError(key, at, "unknown field: want one of %s", strings.Join(known, ", "))
		case exists:
			d.addError(key, at, "the field is set twice")
		default:
			values[key.Value] = value
		}
	}
	return values, true
}

func (d *topologyDecoder) required(parent *yaml.Node, fields map[string]*yaml.Node, field, name string) (*yaml.Node, bool) {
	value, ok := fields[name]
	if !ok {
		d.addError(parent, join(field, name), "missing")
	}
	return value, ok
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// describe names an unexpected node. Anchors and aliases are unexpected too: a topology is too small to need them.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if node.Tag == "!!null" {
		return "nothing"
	}
	return fmt.Sprintf("%s (%s)", node.Value, strings.TrimPrefix(node.Tag, "!!"))
}
