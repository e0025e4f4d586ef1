package snapshot

import (
	"encoding/binary"
	"slices"
	"strings"
)

// LabelSet is a set of labels that pods share: the pods of one ReplicaSet usually have the same labels. Each pod of a
// StatefulSet has its own, so a set is little more than the text of its values. A map would take a kilobyte.
type LabelSet struct {
	shape *shape
	// values are packed in the order of the shape's keys.
	values string
	users  int
}

// shape groups the label sets that have the same keys.
type shape struct {
	// packed is the keys, packed into one string.
	packed string
	keys   []string
	sets   map[string]*LabelSet // by their packed values
}

// pack appends a string with its length to a packed string; unpack removes the first one.
func pack(packed []byte, text string) []byte {
	return append(binary.AppendUvarint(packed, uint64(len(text))), text...)
}

func unpack(packed string) (first, rest string) {
	length := int(packed[0])
	if length < 0x80 {
		return packed[1 : 1+length], packed[1+length:]
	}
	long, size := binary.Uvarint([]byte(packed[:min(len(packed), binary.MaxVarintLen64)]))
	return packed[size : size+int(long)], packed[size+int(long):]
}

func (s *LabelSet) equal(labels map[string]string) bool {
	if len(s.shape.keys) != len(labels) {
		return false
	}
	rest, own := s.values, ""
	for _, key := range s.shape.keys {
		own, rest = unpack(rest)
		if value, ok := labels[key]; !ok || value != own {
			return false
		}
	}
	return true
}

// ToMap returns the set as a map, in memory that the caller provides and does not use otherwise.
func (s *LabelSet) ToMap(buffer map[string]string) map[string]string {
	clear(buffer)
	rest := s.values
	for _, key := range s.shape.keys {
		buffer[key], rest = unpack(rest)
	}
	return buffer
}

// labelSets stores each distinct set of labels once, by its shape.
type labelSets map[string]*shape

func (sets labelSets) intern(labels map[string]string) *LabelSet {
	var room [512]byte
	of := sets.shape(labels)
	packed := room[:0]
	for _, key := range of.keys {
		packed = pack(packed, labels[key])
	}
	set := of.sets[string(packed)]
	if set == nil {
		set = &LabelSet{shape: of, values: string(packed)}
		of.sets[set.values] = set
	}
	set.users++
	return set
}

func (sets labelSets) shape(labels map[string]string) *shape {
	var keyRoom [32]string
	var room [512]byte
	keys, packed := keyRoom[:0], room[:0]
	for key := range labels {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		packed = pack(packed, key)
	}
	of := sets[string(packed)]
	if of == nil {
		of = &shape{packed: string(packed), sets: map[string]*LabelSet{}}
		for _, key := range keys {
			of.keys = append(of.keys, strings.Clone(key)) // a substring would keep the whole string in memory
		}
		sets[of.packed] = of
	}
	return of
}

func (sets labelSets) release(set *LabelSet) {
	if set.users--; set.users > 0 {
		return
	}
	delete(set.shape.sets, set.values)
	if len(set.shape.sets) == 0 {
		delete(sets, set.shape.packed)
	}
}
