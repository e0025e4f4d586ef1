// Package workload decides which controller above some pods states how many of them there should be (rule 16). docs/concepts/overview.md has the
// rule as a table.
package workload

import (
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Scale is what the scale subresource of a controller states.
type Scale struct {
	// Exists reports that the controller's kind has a scale subresource.
	Exists bool
	// Selection is what the selector of the scale has to do with the pods in question.
	Selection Selection
}

// Selection is how the selector of a scale relates to some pods.
type Selection int

// The selections.
const (
	// Unstated means that the scale has no selector, so nothing shows what its number counts.
	Unstated Selection = iota
	// SelectsAll means that the selector matches all of the pods.
	SelectsAll
	// SelectsOthers means that the selector does not match all of the pods: the number counts other objects, or only some of the pods.
	SelectsOthers
)

// Verdict is the decision on one controller above some pods.
type Verdict int

// The verdicts.
const (
	// Ascend means that the controller does not state the number of the pods. The controller above it may.
	Ascend Verdict = iota
	// Counts means that the controller states the number of the pods. Controllers above it are not asked: their numbers may count shards or groups.
	Counts
)

// Decide decides whether a controller states the number of some pods (rule 16). isDirect reports that the pods name it as their controller. A scale
// without a selector counts pods only then. Decide must be called for each controller from the pods upwards, until one counts.
func Decide(scale Scale, isDirect bool) Verdict {
	switch {
	case !scale.Exists, scale.Selection == SelectsOthers:
		return Ascend
	case scale.Selection == Unstated && !isDirect:
		return Ascend
	default:
		return Counts
	}
}

// IsReplaceable reports whether a controller that states the number of its pods may be one of several sets among which another controller
// divides the pods of one workload, as a Deployment does between ReplicaSets. No other kind is: the StatefulSets below one object are
// different workloads.
func IsReplaceable(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Group: "apps", Kind: "ReplicaSet"} || kind == schema.GroupKind{Kind: "ReplicationController"}
}

// Replaces reports whether the controller of a replaceable set states the number of the pods of all its sets, by its scale. Pods are those of the
// set (rule 16).
func Replaces(scale Scale) bool { return scale.Exists && scale.Selection == SelectsAll }

// IsDeployment reports whether a kind is the Deployment of Kubernetes, which replaces its ReplicaSets without exception.
func IsDeployment(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Group: "apps", Kind: "Deployment"}
}

// SelectsOwnPods reports whether the controllers of a kind release pods that their selector does not match. The selector of such a controller
// need not be compared with its pods. It is part of the spec, and so a function of metadata.generation.
func SelectsOwnPods(kind schema.GroupKind) bool {
	return IsDeployment(kind) || IsReplaceable(kind) || kind == schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
}

// SelectionOf compares the selector of a scale, in the syntax of kubectl's --selector, with the labels of some pods. It returns an error for a
// malformed selector. A set of labels may be reused after the iteration has gone on.
func SelectionOf(selector string, pods iter.Seq[map[string]string]) (Selection, error) {
	if selector == "" {
		return Unstated, nil
	}
	parsed, err := labels.Parse(selector)
	if err != nil {
		return Unstated, fmt.Errorf("the selector of its scale: %w", err)
	}
	for pod := range pods {
		if !parsed.Matches(labels.Set(pod)) {
			return SelectsOthers, nil
		}
	}
	return SelectsAll, nil
}
