package selectors

import "slices"

// vocabulary holds the keys and values that the selectors of a namespace name. Selectors and pods are translated once into pointers
// to them, and compared by these pointers.
type vocabulary[ID comparable] struct {
	keys map[string]*key[ID]
	// hash returns the hash of a value's text.
	hash func(string) uint64
	// created counts all keys and terms created so far. Their bits are derived from it.
	created int
}

// key is a label key that selectors name.
type key[ID comparable] struct {
	text string
	// bits are two of 64, shared with other keys. A node combines the bits of its branches' keys.
	bits uint64
	// uses is the number of conditions on this key.
	uses   int
	values table[term[ID]]
	// anyValue is the term for the key with any value.
	anyValue term[ID]
}

// term leads to a branch of the tree: it is a value of a key, or the key with any value.
type term[ID comparable] struct {
	key  *key[ID]
	word word
	// hash is the hash of the word.
	hash uint64
	// bits are two of 64, shared with other terms. A pod combines the bits of its values.
	bits uint64
	// uses is the number of conditions that name this value.
	uses int
	// first is the node that the term leads to from the root of the tree, unless it has no parent. It is stored here because the root
	// has by far the most branches, and a query that translates a pod's labels has just read the terms.
	first node[ID]
	// further is the number of other nodes that the term leads to. Most terms have none, and a query then skips the lookup.
	further int
}

// condition is a requirement translated into a vocabulary.
type condition[ID comparable] struct {
	key      *key[ID]
	relation relation
	// terms are the values that the condition lists.
	terms []*term[ID]
}

// pod has a pod's labels translated into a vocabulary, without those whose key no selector names.
type pod[ID comparable] struct {
	labels []podLabel[ID]
	// bits combines the bits of all values.
	bits uint64
}

// podLabel is a label of a pod. Its value is nil if no selector names that value.
type podLabel[ID comparable] struct {
	key   *key[ID]
	value *term[ID]
}

// translate translates requirements, and adds missing words. The conditions that require a single value come first, and exact has their
// values. Values are stored in room if it is large enough.
func (v *vocabulary[ID]) translate(
	requirements []requirement, room []*term[ID],
) (conditions []condition[ID], exact []*term[ID]) {
	named := 0
	for i := range requirements {
		named += len(requirements[i].values)
	}
	terms := slices.Grow(room, named) // for all conditions, so that they are contiguous
	conditions = make([]condition[ID], 0, len(requirements))
	for _, wantExact := range []bool{true, false} {
		for i := range requirements {
			r, first := &requirements[i], len(terms)
			if r.exact() != wantExact {
				continue
			}
			k := v.key(r.key)
			for _, value := range r.values {
				terms = append(terms, v.term(k, value))
			}
			conditions = append(conditions, condition[ID]{key: k, relation: r.relation, terms: slices.Clip(terms[first:])})
		}
		if wantExact {
			exact = slices.Clip(terms)
		}
	}
	return conditions, exact
}

func (v *vocabulary[ID]) key(text string) *key[ID] {
	k := v.keys[text]
	if k == nil {
		k = &key[ID]{text: text, bits: v.nextBits()}
		k.anyValue.key, k.anyValue.hash = k, v.hash(text)
		v.keys[text] = k
	}
	k.uses++
	return k
}

// value returns the term of a text with this hash, or nil.
func (k *key[ID]) value(hash uint64, text string) *term[ID] {
	return k.values.find(hash, func(t *term[ID]) bool { return t.word.is(text) })
}

func (v *vocabulary[ID]) term(k *key[ID], text string) *term[ID] {
	hash := v.hash(text)
	t := k.value(hash, text)
	if t == nil {
		t = &term[ID]{key: k, word: newWord(text), hash: hash, bits: v.nextBits()}
		k.values.add(hash, t)
	}
	t.uses++
	return t
}

// nextBits assigns two bits. With only one, a pod with some labels would have the bits of too many selectors that do not match it.
func (v *vocabulary[ID]) nextBits() uint64 {
	v.created++
	return 1<<(v.created%64) | 1<<((v.created+v.created/64+1)%64)
}

// release reverts learn, and drops the words that no selector uses any more.
func (v *vocabulary[ID]) release(conditions []condition[ID]) {
	for _, c := range conditions {
		for _, t := range c.terms {
			t.uses--
			if t.uses == 0 {
				c.key.values.remove(t.hash, t)
			}
		}
		c.key.uses--
		if c.key.uses == 0 {
			delete(v.keys, c.key.text)
		}
	}
}

// translatePod translates the labels of a pod.
func (v *vocabulary[ID]) translatePod(labels map[string]string, room []podLabel[ID]) pod[ID] {
	p := pod[ID]{labels: room}
	for text, value := range labels {
		k := v.keys[text]
		if k == nil {
			continue
		}
		t := k.value(v.hash(value), value)
		if t != nil {
			p.bits |= t.bits
		}
		p.labels = append(p.labels, podLabel[ID]{key: k, value: t})
	}
	return p
}

// has reports whether a pod has this value.
func (p *pod[ID]) has(t *term[ID]) bool {
	for i := range p.labels {
		if p.labels[i].value == t {
			return true
		}
	}
	return false
}

// admits reports whether a pod satisfies the condition.
func (c *condition[ID]) admits(p *pod[ID]) bool {
	for i := range p.labels {
		if p.labels[i].key == c.key {
			return c.relation.admits(true, slices.Contains(c.terms, p.labels[i].value))
		}
	}
	return c.relation.admits(false, false)
}

// narrows reports whether the condition requires the label to exist, so that the tree can branch by it.
func (c *condition[ID]) narrows() bool {
	return c.relation == oneOf || c.relation == present
}

// branchCount returns the number of terms that lead to the condition.
func (c *condition[ID]) branchCount() int {
	if c.relation == present {
		return 1
	}
	return len(c.terms)
}

// selectivity estimates which fraction of the selectors with this key stays together on one branch. A smaller fraction distinguishes them
// better.
func (c *condition[ID]) selectivity() float64 {
	if c.relation == present {
		return 2
	}
	return float64(len(c.terms)) / float64(c.key.values.used)
}
