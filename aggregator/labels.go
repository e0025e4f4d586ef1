package aggregator

import (
	"hash/maphash"
	"unique"
)

// label is one label of a pod.
type label struct{ key, value string }

// labelSet is a set of labels that pods share: those of one ReplicaSet mostly have the same. Those of a StatefulSet
// do not, and so each label is held once for all sets that have it: a map of its own would take a kilobyte for
// each pod.
type labelSet struct {
	labels []unique.Handle[label]
	sum    uint64
	users  int
}

func newLabelSet(labels map[string]string, sum uint64) *labelSet {
	set := &labelSet{labels: make([]unique.Handle[label], 0, len(labels)), sum: sum}
	for key, value := range labels {
		set.labels = append(set.labels, unique.Make(label{key, value}))
	}
	return set
}

func (s *labelSet) equal(labels map[string]string) bool {
	if len(s.labels) != len(labels) {
		return false
	}
	for _, handle := range s.labels {
		own := handle.Value()
		if value, ok := labels[own.key]; !ok || value != own.value {
			return false
		}
	}
	return true
}

// read returns the set as a map, in memory that the caller gives and has no other use for.
func (s *labelSet) read(room map[string]string) map[string]string {
	clear(room)
	for _, handle := range s.labels {
		own := handle.Value()
		room[own.key] = own.value
	}
	return room
}

// labelSets holds each distinct set of labels once, by a sum over its pairs.
type labelSets map[uint64][]*labelSet

var labelSeed = maphash.MakeSeed() //nolint:gochecknoglobals // a seed has to be the same for all sums

func labelSum(labels map[string]string) uint64 {
	var sum uint64
	for key, value := range labels {
		sum += maphash.String(labelSeed, key)*31 + maphash.String(labelSeed, value)
	}
	return sum
}

func (sets labelSets) intern(labels map[string]string) *labelSet {
	sum := labelSum(labels)
	for _, set := range sets[sum] {
		if set.equal(labels) {
			set.users++
			return set
		}
	}
	set := newLabelSet(labels, sum)
	set.users = 1
	sets[sum] = append(sets[sum], set)
	return set
}

func (sets labelSets) release(set *labelSet) {
	if set.users--; set.users > 0 {
		return
	}
	same := sets[set.sum]
	for i := range same {
		if same[i] == set {
			same[i] = same[len(same)-1]
			sets[set.sum] = same[:len(same)-1]
			break
		}
	}
	if len(sets[set.sum]) == 0 {
		delete(sets, set.sum)
	}
}
