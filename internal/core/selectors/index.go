package selectors

import "hash/maphash"

// Index finds the selectors that match a pod's labels. ID identifies a selector, for example by its protector.
//
// It is not safe for concurrent use, but any number of goroutines may call Query while none calls Set or Delete.
//
// Its memory is linear in the text of the selectors that it holds. Every query in a namespace checks the selectors there that require
// no label to exist (they are empty, or have only NotIn and DoesNotExist). It finds all others by the values that they require.
type Index[ID comparable] struct {
	spaces  map[string]*space[ID]
	entries map[ID]*entry[ID]
	// hash returns the hash of a label value.
	hash func(string) uint64
}

// space is one namespace of an index.
type space[ID comparable] struct {
	namespace string
	// members is the number of entries in the tree. A space without entries is dropped.
	members int
	words   vocabulary[ID]
	root    node[ID]
}

// New returns an empty index.
func New[ID comparable]() *Index[ID] {
	seed := maphash.MakeSeed()
	return newIndex[ID](func(value string) uint64 { return maphash.String(seed, value) })
}

func newIndex[ID comparable](hash func(string) uint64) *Index[ID] {
	return &Index[ID]{spaces: map[string]*space[ID]{}, entries: map[ID]*entry[ID]{}, hash: hash}
}

// Set adds a selector for the pods of a namespace, or replaces the one with this id.
func (x *Index[ID]) Set(id ID, namespace string, s *Selector) {
	x.Delete(id)
	if s.matchesNothing {
		x.entries[id] = &entry[ID]{id: id}
		return
	}
	sp := x.spaces[namespace]
	if sp == nil {
		sp = &space[ID]{namespace: namespace, words: vocabulary[ID]{keys: map[string]*key[ID]{}, hash: x.hash}}
		x.spaces[namespace] = sp
	}
	e := &entry[ID]{id: id, space: sp}
	e.conditions, e.exact = sp.words.translate(s.requirements, e.buffer[:0])
	e.others = e.conditions[len(e.exact):]
	x.entries[id] = e
	sp.members++
	sp.root.insert(e)
}

// Delete removes a selector. It does nothing if there is none with this id.
func (x *Index[ID]) Delete(id ID) {
	e, ok := x.entries[id]
	if !ok {
		return
	}
	delete(x.entries, id)
	if len(x.entries) == 0 {
		// A map never shrinks below its greatest size.
		x.entries, x.spaces = map[ID]*entry[ID]{}, map[string]*space[ID]{}
		return
	}
	if e.space == nil {
		return
	}
	e.detach()
	e.space.words.release(e.conditions)
	e.space.members--
	if e.space.members == 0 {
		delete(x.spaces, e.space.namespace)
	}
}

// Query appends the ids of all selectors in the namespace that match the labels, each once and in no particular order. It allocates
// only to grow found, and for pods with more than 32 labels whose keys selectors name.
func (x *Index[ID]) Query(namespace string, labels map[string]string, found []ID) []ID {
	sp := x.spaces[namespace]
	if sp == nil {
		return found
	}
	var room [32]podLabel[ID]
	p := sp.words.translatePod(labels, room[:0])
	return sp.root.query(&p, found)
}

// Len returns the number of selectors.
func (x *Index[ID]) Len() int {
	return len(x.entries)
}
