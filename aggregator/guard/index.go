package guard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// guardIndex knows which pods of a cell are protected, by slot. Protectors change with each count, but what they cover seldom does.
type guardIndex struct {
	cell    string
	scope   scope.Scope
	entries [slot.Count]map[types.NamespacedName]*guardEntry
	// round is the number of the current round; see update.
	round int
	// changed are the slots whose entries have changed since they were published. incomplete are those that have protectors which could not
	// be read.
	changed, incomplete slot.Set
}

// guardEntry is the published entry of a protector, and what it was computed from.
type guardEntry struct {
	round      int
	uid        types.UID
	generation int64
	target     string
	// json is nil if the protector covers no pods of the cell.
	json []byte
}

// update makes the index that of some slots, which have the given protectors. readStub reads a protector of which only the metadata is given;
// it returns nil if it does not exist.
func (x *guardIndex) update(slots slot.Set, protectors []*v1alpha1.PodProtector, readStub func(types.NamespacedName) (*v1alpha1.PodProtector, error)) {
	x.round++
	x.incomplete = slot.Set{}
	for _, p := range protectors {
		key := client.ObjectKeyFromObject(p)
		n := slot.Of(key.Namespace)
		if !slots.Has(n) || !x.scope.HasNamespace(key.Namespace) {
			continue
		}
		entry := x.entries[n][key]
		if clusters.IsStub(p) {
			var err error
			switch p, err = readStub(key); {
			case err == nil && p == nil:
				continue
			case err != nil && entry == nil:
				x.incomplete = x.incomplete.With(n)
			}
		}
		if p != nil {
			entry = x.entryOf(n, key, p)
		}
		if entry != nil { // what cannot be read stays
			entry.round = x.round
		}
	}
	for n := range x.entries {
		for key, entry := range x.entries[n] {
			if entry.round != x.round {
				x.changed = x.changed.With(n)
				delete(x.entries[n], key)
			}
		}
	}
}

// entryOf returns the entry of a protector, and computes it if necessary. While the workload that a protector names is unknown, the last
// entry stays; nil means that there is none.
func (x *guardIndex) entryOf(n int, key types.NamespacedName, p *v1alpha1.PodProtector) *guardEntry {
	last := x.entries[n][key]
	target, known := x.targetOf(p)
	if !known {
		return last
	}
	text := ""
	if target != nil {
		text = "exists " + target.Selector
	}
	if last != nil && last.uid == p.UID && last.generation == p.Generation && last.target == text {
		return last
	}
	entry := &guardEntry{uid: p.UID, generation: p.Generation, target: text}
	if protected := protectedBy(p, target, x.scope); protected != nil {
		entry.json, _ = json.Marshal(protected) // strings and lists of them
	}
	if last == nil && entry.json != nil || last != nil && !bytes.Equal(last.json, entry.json) {
		x.changed = x.changed.With(n)
	}
	if x.entries[n] == nil {
		x.entries[n] = map[types.NamespacedName]*guardEntry{}
	}
	x.entries[n][key] = entry
	return entry
}

// targetOf returns the workload that a protector names, as counted last in this cell; nil if it names none, or it does not exist.
func (x *guardIndex) targetOf(p *v1alpha1.PodProtector) (target *v1alpha1.Target, known bool) {
	if !removal.NamesWorkload(p) {
		return nil, true
	}
	cell := quota.CellOf(p, x.cell)
	if cell == nil || cell.Aggregation.CountedSpec != quota.CountedSpec(&p.Spec) {
		return nil, false
	}
	return cell.Aggregation.Target, true
}

// protectedBy returns which pods of a cell a protector covers; nil if none. The selectors are canonical, so that a node guard can parse them
// whatever the protector has.
func protectedBy(p *v1alpha1.PodProtector, target *v1alpha1.Target, cell scope.Scope) *podhold.Protected {
	coverage, _ := selectors.CoverageOf(&p.Spec, target) // with a mistake it has too many pods rather than too few
	covered := coverage.Intersect(cell.Selector())
	if !covered.CanMatch() {
		return nil
	}
	protected := &podhold.Protected{Namespace: p.Namespace, Name: p.Name, Selector: labelSelectorOf(covered)}
	if exempt := p.Spec.ExemptPodSelector; exempt != nil {
		if compiled, err := selectors.Compile(*exempt); err == nil && compiled.CanMatch() {
			protected.Exempt = labelSelectorOf(compiled)
		}
	}
	return protected
}

// labelSelectorOf returns a selector that can match as one of Kubernetes.
func labelSelectorOf(s *selectors.Selector) *metav1.LabelSelector {
	parsed, err := metav1.ParseToLabelSelector(s.Key())
	if err != nil {
		return &metav1.LabelSelector{} // everything: cannot happen, since the key is in the syntax of Kubernetes
	}
	return parsed
}

// maxPartBytes limits the list in one ConfigMap. etcd stores at most about 1.5 MiB in a key.
const maxPartBytes = 500 << 10

// parts returns the lists of a slot, each for one ConfigMap.
func (x *guardIndex) parts(n int) []string {
	var keys []types.NamespacedName
	for key, entry := range x.entries[n] {
		if entry.json != nil {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var parts []string
	var part bytes.Buffer
	flush := func() {
		if part.Len() > 0 {
			parts = append(parts, "["+part.String()+"]")
			part.Reset()
		}
	}
	for _, key := range keys {
		entry := x.entries[n][key].json
		if part.Len()+len(entry) > maxPartBytes {
			flush()
		}
		if part.Len() > 0 {
			part.WriteString(",\n")
		}
		part.Write(entry)
	}
	flush()
	return parts
}
