package aggregator

import (
	"hash/maphash"
	"maps"
)

// labelSet is a set of labels that pods share: those of one ReplicaSet mostly have the same.
type labelSet struct {
	labels map[string]string
	sum    uint64
	users  int
}

func (s *labelSet) equal(labels map[string]string) bool { return maps.Equal(s.labels, labels) }

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
	set := &labelSet{labels: labels, sum: sum, users: 1}
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
