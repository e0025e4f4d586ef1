package snapshot

import (
	"maps"
	"slices"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// This file has the methods by which the watch of nodes updates nodes.

// set replaces all nodes, of which the watch has read these labels.
func (n *nodes) set(all []*metav1.PartialObjectMetadata, labels []string) {
	for _, label := range labels {
		n.setLabel(all, label)
	}
}

func (n *nodes) setLabel(all []*metav1.PartialObjectMetadata, label string) {
	domains := map[unique.Handle[string]]unique.Handle[string]{}
	for _, node := range all {
		if value, has := node.Labels[label]; has {
			domains[unique.Make(node.Name)] = unique.Make(value)
		}
	}
	n.mu.Lock()
	l := n.labels[label]
	if l == nil {
		n.mu.Unlock()
		return
	}
	before, protectors := l.domains, slices.Collect(maps.Keys(l.protectors))
	l.domains = domains
	n.mu.Unlock()
	if before == nil {
		n.notifyRead(protectors)
		return
	}
	other := map[unique.Handle[string]]bool{}
	for name, domain := range domains {
		if was, had := before[name]; !had || was != domain {
			other[name] = true
		}
	}
	for name := range before {
		if _, has := domains[name]; !has {
			other[name] = true
		}
	}
	if len(other) > 0 {
		n.onMoved(sortByName(protectors), other)
	}
}

func (n *nodes) notifyRead(protectors []types.NamespacedName) {
	for _, protector := range sortByName(protectors) {
		n.onRead(protector)
	}
}

// sortByName sorts protectors by name, which is the order in which they are written.
func sortByName(protectors []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(protectors, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return protectors
}

// put updates a node; nil labels mean that the node was deleted.
func (n *nodes) put(node string, labels map[string]string) {
	name := unique.Make(node)
	var protectors []types.NamespacedName
	n.mu.Lock()
	for label, l := range n.labels {
		if l.domains == nil {
			continue // the nodes are not all read yet
		}
		was, had := l.domains[name]
		value, has := labels[label]
		if has == had && (!has || was.Value() == value) {
			continue
		}
		if delete(l.domains, name); has {
			l.domains[name] = unique.Make(value)
		}
		protectors = slices.AppendSeq(protectors, maps.Keys(l.protectors))
	}
	n.mu.Unlock()
	if len(protectors) > 0 {
		n.onMoved(sortByName(protectors), map[unique.Handle[string]]bool{name: true})
	}
}

// clearProblem clears the reason why nodes could not be read, because no protector needs them.
func (n *nodes) clearProblem() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.problem, n.denied = "", false
}

// recordFailure records why nodes cannot be read. It keeps the first reason, unless the API server now denies access.
func (n *nodes) recordFailure(problem string, denied bool) (isNew bool) {
	n.mu.Lock()
	if n.denied || n.problem != "" && !denied {
		n.mu.Unlock()
		return false
	}
	n.problem, n.denied = problem, denied
	var protectors []types.NamespacedName
	for _, l := range n.labels {
		if denied || l.domains == nil {
			protectors = slices.AppendSeq(protectors, maps.Keys(l.protectors))
		}
	}
	n.mu.Unlock()
	n.notifyRead(protectors)
	return true
}

// recordSuccess records that nodes can be read.
func (n *nodes) recordSuccess() (isNew bool) {
	n.mu.Lock()
	var protectors []types.NamespacedName
	for _, l := range n.labels {
		if n.denied && l.domains != nil {
			protectors = slices.AppendSeq(protectors, maps.Keys(l.protectors))
		}
	}
	isNew = n.problem != ""
	n.problem, n.denied = "", false
	n.mu.Unlock()
	n.notifyRead(protectors)
	return isNew
}
