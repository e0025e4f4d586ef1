package selectorindex

import "slices"

// vocabulary holds the keys and values that the selectors of a namespace name. Selectors and pods are
// translated into pointers to them once, and compared by these.
type vocabulary[ID comparable] struct {
	keys map[string]*key[ID]
	// made counts the keys and terms ever made; it deals out their bits.
	made int
}

// key is a label key that selectors name.
type key[ID comparable] struct {
	text string
	// bit is one of 64, shared with other keys: nodes sum up the keys of their branches by it.
	bit uint64
	// uses is the number of conditions on this key.
	uses   int
	values map[string]*term[ID]
	// anyValue stands for the key with whatever value.
	anyValue term[ID]
}

// term is what leads to a branch of the tree: a value of a key, or the key with any value.
type term[ID comparable] struct {
	key  *key[ID]
	text string
	// bit is one of 64, shared with other terms: pods sum up their values by it.
	bit uint64
	// uses is the number of conditions that name this value.
	uses int
	// first is where the term leads to from the root of the tree, or nil. It is kept here because the root has
	// by far the most branches, and a query that reads a pod's labels has the terms at hand.
	first *node[ID]
	// further is the number of other nodes that the term leads to. Most terms have none, and a query need not
	// look for them.
	further int
}

// condition is a requirement in terms of a vocabulary.
type condition[ID comparable] struct {
	key      *key[ID]
	relation relation
	// only is the one value that the condition lists, or nil when it lists none or several.
	only *term[ID]
	// terms are all values that the condition lists.
	terms []*term[ID]
}

// pod is the labels of a pod in terms of a vocabulary, without those whose key no selector names.
type pod[ID comparable] struct {
	labels []podLabel[ID]
	// bits are the bits of all values.
	bits uint64
}

// podLabel is a label of a pod. Its value is nil when no selector names that value.
type podLabel[ID comparable] struct {
	key   *key[ID]
	value *term[ID]
}

// learn translates requirements, and adds the words that it does not have.
func (v *vocabulary[ID]) learn(requirements []requirement) []condition[ID] {
	named := 0
	for i := range requirements {
		named += len(requirements[i].values)
	}
	terms := make([]*term[ID], 0, named) // of all conditions, so that they lie together
	conditions := make([]condition[ID], len(requirements))
	for i := range requirements {
		r, first := &requirements[i], len(terms)
		k := v.key(r.key)
		for _, value := range r.values {
			terms = append(terms, v.term(k, value))
		}
		conditions[i] = condition[ID]{key: k, relation: r.relation, terms: terms[first:len(terms):len(terms)]}
		if len(r.values) == 1 {
			conditions[i].only = terms[first]
		}
	}
	return conditions
}

func (v *vocabulary[ID]) key(text string) *key[ID] {
	k := v.keys[text]
	if k == nil {
		k = &key[ID]{text: text, bit: v.deal(), values: map[string]*term[ID]{}}
		k.anyValue.key = k
		v.keys[text] = k
	}
	k.uses++
	return k
}

func (v *vocabulary[ID]) term(k *key[ID], text string) *term[ID] {
	t := k.values[text]
	if t == nil {
		t = &term[ID]{key: k, text: text, bit: v.deal()}
		k.values[text] = t
	}
	t.uses++
	return t
}

func (v *vocabulary[ID]) deal() uint64 {
	v.made++
	return 1 << (v.made % 64)
}

// forget takes back what learn did, and drops the words that nobody uses any more.
func (v *vocabulary[ID]) forget(conditions []condition[ID]) {
	for _, c := range conditions {
		for _, t := range c.terms {
			t.uses--
			if t.uses == 0 {
				delete(c.key.values, t.text)
			}
		}
		c.key.uses--
		if c.key.uses == 0 {
			delete(v.keys, c.key.text)
		}
	}
}

// read translates the labels of a pod.
func (v *vocabulary[ID]) read(labels map[string]string, room []podLabel[ID]) pod[ID] {
	p := pod[ID]{labels: room}
	for text, value := range labels {
		k := v.keys[text]
		if k == nil {
			continue
		}
		t := k.values[value]
		if t != nil {
			p.bits |= t.bit
		}
		p.labels = append(p.labels, podLabel[ID]{key: k, value: t})
	}
	return p
}

// admits tells whether a pod meets the condition.
func (c *condition[ID]) admits(p pod[ID]) bool {
	for i := range p.labels {
		if p.labels[i].key == c.key {
			return c.relation.admits(true, c.lists(p.labels[i].value))
		}
	}
	return c.relation.admits(false, false)
}

func (c *condition[ID]) lists(value *term[ID]) bool {
	if c.only != nil {
		return c.only == value
	}
	return slices.Contains(c.terms, value)
}

// narrows tells whether the condition asks for the label to be there, so that pods can be led to it.
func (c *condition[ID]) narrows() bool {
	return c.relation == oneOf || c.relation == present
}

// fan is the number of terms that lead to the condition.
func (c *condition[ID]) fan() int {
	if c.relation == present {
		return 1
	}
	return len(c.terms)
}

// share estimates which part of the selectors that ask for this key stays together on one branch: the
// smaller, the better it tells them apart.
func (c *condition[ID]) share() float64 {
	if c.relation == present {
		return 2
	}
	return float64(len(c.terms)) / float64(len(c.key.values))
}
