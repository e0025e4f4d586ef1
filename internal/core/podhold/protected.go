package podhold

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Protected states which pods a protector covers, as the aggregator of a cell publishes it for node guards.
type Protected struct {
	// List is the name of the ConfigMap that has the entry. Readers set it.
	List string `json:"-"`
	// Namespace is the namespace of the pods, and Name that of the protector.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Selector selects the pods; Exempt, unless it is nil, those of them that are not covered.
	Selector *metav1.LabelSelector `json:"selector"`
	Exempt   *metav1.LabelSelector `json:"exempt,omitempty"`
}

const (
	// LabelProtected is the label of the ConfigMaps with Protected entries, in the namespace of Breakwater in a worker cluster. Aggregators
	// write them, and never delete them: the list of one that is not needed any more is empty. So one that disappears was lost.
	LabelProtected = "breakwater.dev/node-guard"
	// ProtectedKey is their key with a JSON list of entries.
	ProtectedKey = "protectors.json"
	// AnnotationVersion is their annotation with a number that grows with each change. One with a lower number than before was restored from
	// an older backup.
	AnnotationVersion = "breakwater.dev/node-guard-version"
)

// Published is a list of entries as an aggregator published it, with the version of its ConfigMap.
type Published struct {
	Version   int64       `json:"version"`
	Protected []Protected `json:"protected"`
}

// Newest returns the newest lists by the names of their ConfigMaps, given those that were known and those that were read now. A cluster that
// was restored from a backup has lost lists, or has older ones. They must not end the protection of pods that the same restore has lost.
func Newest(known, read map[string]Published) map[string]Published {
	newest := maps.Clone(known)
	if newest == nil {
		newest = map[string]Published{}
	}
	for name, now := range read {
		if last, ok := known[name]; !ok || now.Version >= last.Version {
			newest[name] = now
		}
	}
	return newest
}

// Index answers which protectors cover a pod. In the zero value, none does.
type Index struct {
	byNamespace map[string][]compiled
}

type compiled struct {
	ref              Ref
	selector, exempt labels.Selector
}

// NewIndex compiles the entries.
func NewIndex(all []Protected) (Index, error) {
	x := Index{byNamespace: map[string][]compiled{}}
	for _, p := range all {
		selector, err := metav1.LabelSelectorAsSelector(p.Selector)
		if err != nil {
			return Index{}, fmt.Errorf("selector of PodProtector %s/%s: %w", p.Namespace, p.Name, err)
		}
		exempt, err := metav1.LabelSelectorAsSelector(p.Exempt) // selects nothing if it is nil
		if err != nil {
			return Index{}, fmt.Errorf("exempt selector of PodProtector %s/%s: %w", p.Namespace, p.Name, err)
		}
		x.byNamespace[p.Namespace] = append(x.byNamespace[p.Namespace], compiled{RefOf(p), selector, exempt})
	}
	return x, nil
}

// Covers reports whether a protector covers the pod.
func (x Index) Covers(p *corev1.Pod) bool { return len(x.Covering(p)) > 0 }

// Covering returns the protectors that cover the pod.
func (x Index) Covering(p *corev1.Pod) []Ref {
	var covering []Ref
	for _, c := range x.byNamespace[p.Namespace] {
		if c.selector.Matches(labels.Set(p.Labels)) && !c.exempt.Matches(labels.Set(p.Labels)) {
			covering = append(covering, c.ref)
		}
	}
	return covering
}

// AdmittedEvent returns the name of the Event, in the pod's namespace, by which the webhook records that it admitted the removal of a pod
// without a grace period.
func AdmittedEvent(uid types.UID) string { return "breakwater-admitted-" + string(uid) }

// ReasonRemovalAdmitted is the reason of that Event.
const ReasonRemovalAdmitted = "RemovalAdmitted"
