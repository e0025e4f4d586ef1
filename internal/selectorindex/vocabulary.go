package selectorindex

import "slices"

// vocabulary holds the keys and values that the selectors of a namespace name. Selectors and pods are
// translated into pointers to them once, and compared by these.
type vocabulary struct {
	keys map[string]*key
	// made counts the keys and terms ever made; it deals out their bits.
	made int
}

// key is a label key that selectors name.
type key struct {
	text string
	// bit is one of 64, shared with other keys: nodes sum up the keys of their branches by it.
	bit uint64
	// uses is the number of conditions on this key.
	uses   int
	values map[string]*term
	// anyValue stands for the key with whatever value.
	anyValue term
}

// term is what leads to a branch of the tree: a value of a key, or the key with any value.
type term struct {
	key  *key
	text string
	// bit is one of 64, shared with other terms: pods sum up their values by it.
	bit uint64
	// uses is the number of conditions that name this value.
	uses int
	// branches is the number of nodes that this term leads to. Most terms of a pod lead nowhere, and a query
	// need not try them.
	branches int
}

// condition is a requirement in terms of a vocabulary.
type condition struct {
	key      *key
	relation relation
	// only is the one value that the condition lists, or nil when it lists none or several.
	only *term
	// terms are all values that the condition lists.
	terms []*term
}

// pod is the labels of a pod in terms of a vocabulary, without those whose key no selector names.
type pod struct {
	labels []podLabel
	// bits are the bits of all values.
	bits uint64
}

// podLabel is a label of a pod. Its value is nil when no selector names that value.
type podLabel struct {
	key   *key
	value *term
}

// learn translates requirements, and adds the words that it does not have.
func (v *vocabulary) learn(requirements []requirement) []condition {
	named := 0
	for i := range requirements {
		named += len(requirements[i].values)
	}
	terms := make([]*term, 0, named) // of all conditions, so that they lie together
	conditions := make([]condition, len(requirements))
	for i := range requirements {
		r, first := &requirements[i], len(terms)
		k := v.key(r.key)
		for _, value := range r.values {
			terms = append(terms, v.term(k, value))
		}
		conditions[i] = condition{key: k, relation: r.relation, terms: terms[first:len(terms):len(terms)]}
		if len(r.values) == 1 {
			conditions[i].only = terms[first]
		}
	}
	return conditions
}

func (v *vocabulary) key(text string) *key {
	k := v.keys[text]
	if k == nil {
		k = &key{text: text, bit: v.deal(), values: map[string]*term{}}
		k.anyValue.key = k
		v.keys[text] = k
	}
	k.uses++
	return k
}

func (v *vocabulary) term(k *key, text string) *term {
	t := k.values[text]
	if t == nil {
		t = &term{key: k, text: text, bit: v.deal()}
		k.values[text] = t
	}
	t.uses++
	return t
}

func (v *vocabulary) deal() uint64 {
	v.made++
	return 1 << (v.made % 64)
}

// forget takes back what learn did, and drops the words that nobody uses any more.
func (v *vocabulary) forget(conditions []condition) {
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
func (v *vocabulary) read(labels map[string]string, room []podLabel) pod {
	p := pod{labels: room}
	for text, value := range labels {
		k := v.keys[text]
		if k == nil {
			continue
		}
		t := k.values[value]
		if t != nil {
			p.bits |= t.bit
		}
		p.labels = append(p.labels, podLabel{key: k, value: t})
	}
	return p
}

// admits tells whether a pod meets the condition.
func (c *condition) admits(p pod) bool {
	for i := range p.labels {
		if p.labels[i].key == c.key {
			return c.relation.admits(true, c.lists(p.labels[i].value))
		}
	}
	return c.relation.admits(false, false)
}

func (c *condition) lists(value *term) bool {
	if c.only != nil {
		return c.only == value
	}
	return slices.Contains(c.terms, value)
}

// narrows tells whether the condition asks for the label to be there, so that pods can be led to it.
func (c *condition) narrows() bool {
	return c.relation == oneOf || c.relation == present
}

// fan is the number of terms that lead to the condition.
func (c *condition) fan() int {
	if c.relation == present {
		return 1
	}
	return len(c.terms)
}

// share estimates which part of the selectors that ask for this key stays together on one branch: the
// smaller, the better it tells them apart.
func (c *condition) share() float64 {
	if c.relation == present {
		return 2
	}
	return float64(len(c.terms)) / float64(len(c.key.values))
}
