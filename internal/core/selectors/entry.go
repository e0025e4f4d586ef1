package selectors

// entry is a selector in the tree of its namespace.
type entry[ID comparable] struct {
	id ID
	// exact are the values of the conditions that require a single value, as most conditions do. They are mostly stored in room, so
	// that a query reads them from the entry itself.
	exact []*term[ID]
	room  [4]*term[ID]
	// others are the other conditions.
	others []condition[ID]

	space      *space[ID]
	conditions []condition[ID]
	// places are the places in the tree that hold the entry.
	places []place[ID]
}

// place is an index into the entries of a node.
type place[ID comparable] struct {
	node *node[ID]
	at   int
}

// needs returns the bits of all values that the selector requires.
func (e *entry[ID]) needs() uint64 {
	var bits uint64
	for _, t := range e.exact {
		bits |= t.bits
	}
	return bits
}

func (e *entry[ID]) matches(p *pod[ID]) bool {
	for _, t := range e.exact {
		if !p.has(t) {
			return false
		}
	}
	for i := range e.others {
		if !e.others[i].admits(p) {
			return false
		}
	}
	return true
}

// next returns the condition by which the entry moves down from a node, or nil if it must stay. It chooses the condition that best
// distinguishes selectors, among those that the path from the root has not used.
//
// A condition with several values takes one place for each of them, and nested conditions multiply. The product stays within the
// number of values in the selector, so that 5 keys with 10 values take 10 places and not 10^5.
func (e *entry[ID]) next(from *node[ID]) *condition[ID] {
	allowed, taken := 1, 1
	for i := range e.conditions {
		c := &e.conditions[i]
		allowed += len(c.terms)
		if c.narrows() && from.decides(c.key) {
			taken *= c.fan()
		}
	}
	var best *condition[ID]
	for i := range e.conditions {
		c := &e.conditions[i]
		if !c.narrows() || taken*c.fan() > allowed || from.decides(c.key) {
			continue
		}
		if best == nil || c.share() < best.share() {
			best = c
		}
	}
	return best
}

// decides reports whether the path from the root to the node has a term of this key.
func (n *node[ID]) decides(k *key[ID]) bool {
	for ; n.parent != nil; n = n.parent {
		if n.by.key == k {
			return true
		}
	}
	return false
}

// leave removes the entry from the tree.
func (e *entry[ID]) leave() {
	for _, p := range e.places {
		p.node.drop(p.at)
	}
	e.places = nil
}

// moveFrom removes the place at a node that no longer holds the entry.
func (e *entry[ID]) moveFrom(n *node[ID]) {
	last := len(e.places) - 1
	*e.place(n) = e.places[last]
	e.places[last] = place[ID]{}
	e.places = e.places[:last]
}

// place returns the entry's place at a node that holds it. There is exactly one, because two paths never lead to one node.
func (e *entry[ID]) place(n *node[ID]) *place[ID] {
	for i := range e.places {
		if e.places[i].node == n {
			return &e.places[i]
		}
	}
	return nil
}
