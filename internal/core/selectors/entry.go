package selectors

// entry is a selector in the tree of its namespace.
type entry[ID comparable] struct {
	id ID
	// exact are the values of the conditions that require a single value, as most conditions do. They are mostly stored in room, so
	// that a query reads them from the entry itself.
	exact  []*term[ID]
	buffer [4]*term[ID]
	// others are the other conditions.
	others []condition[ID]

	space      *space[ID]
	conditions []condition[ID]
	// positions are the places in the tree that hold the entry.
	positions []position[ID]
}

// position is an index into the entries of a node.
type position[ID comparable] struct {
	node  *node[ID]
	index int
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

// nextCondition returns the condition by which the entry moves down from a node, or nil if it must stay. It chooses the condition that best
// distinguishes selectors, among those that the path from the root has not used.
//
// A condition with several values takes one place for each of them, and nested conditions multiply. The product stays within the
// number of values in the selector, so that 5 keys with 10 values take 10 places and not 10^5.
func (e *entry[ID]) nextCondition(from *node[ID]) *condition[ID] {
	allowed, taken := 1, 1
	for i := range e.conditions {
		c := &e.conditions[i]
		allowed += len(c.terms)
		if c.narrows() && from.decides(c.key) {
			taken *= c.branchCount()
		}
	}
	var best *condition[ID]
	for i := range e.conditions {
		c := &e.conditions[i]
		if !c.narrows() || taken*c.branchCount() > allowed || from.decides(c.key) {
			continue
		}
		if best == nil || c.selectivity() < best.selectivity() {
			best = c
		}
	}
	return best
}

// decides reports whether the path from the root to the node has a term of this key.
func (n *node[ID]) decides(k *key[ID]) bool {
	for ; n.parent != nil; n = n.parent {
		if n.term.key == k {
			return true
		}
	}
	return false
}

// detach removes the entry from the tree.
func (e *entry[ID]) detach() {
	for _, p := range e.positions {
		p.node.removeEntry(p.index)
	}
	e.positions = nil
}

// moveFrom removes the place at a node that no longer holds the entry.
func (e *entry[ID]) moveFrom(n *node[ID]) {
	last := len(e.positions) - 1
	*e.positionAt(n) = e.positions[last]
	e.positions[last] = position[ID]{}
	e.positions = e.positions[:last]
}

// positionAt returns the entry's place at a node that holds it. There is exactly one, because two paths never lead to one node.
func (e *entry[ID]) positionAt(n *node[ID]) *position[ID] {
	for i := range e.positions {
		if e.positions[i].node == n {
			return &e.positions[i]
		}
	}
	return nil
}
