package selectors

// maxEntriesPerNode is the number of entries that a node holds before it grows branches. Rejecting that many takes about as long as descending
// one branch, whose node is seldom in the CPU cache.
const maxEntriesPerNode = 32

// node holds the entries that the terms on the path from the root have led to. When there are too many, the node grows branches, and
// each entry moves down one of them by a term of one of its own conditions. A query descends the branches of the pod's labels, and
// checks the entries that it finds.
//
// An entry that requires one of several values is on a branch for each of them. A pod has at most one of them, so no query meets an
// entry twice.
type node[ID comparable] struct {
	parent *node[ID]
	// term is the term that leads here from the parent.
	term *term[ID]

	// grown is set once the node has tried to move its entries down. The entries that it holds after that cannot move.
	grown   bool
	entries entrySet[ID]
	// count is the number of branches. The branches of the root are found by their terms, all others by the table.
	count    int
	branches table[node[ID]]
	// keys has the bits of the keys of all branches. It may also have bits of removed branches.
	keys uint64
}

// query appends the matching entries at and below the node.
func (n *node[ID]) query(p *pod[ID], found []ID) []ID {
	if n.entries.first.entry != nil {
		found = n.entries.first.query(p, found)
	}
	for i := range n.entries.rest {
		found = n.entries.rest[i].query(p, found)
	}
	if n.count == 0 {
		return found
	}
	for i := range p.labels {
		l := &p.labels[i]
		if l.key.bits&^n.keys != 0 {
			continue
		}
		if l.value != nil {
			if below := n.child(l.value); below != nil {
				found = below.query(p, found)
			}
		}
		if below := n.child(&l.key.anyValue); below != nil {
			found = below.query(p, found)
		}
	}
	return found
}

// child returns the node that a term leads to, or nil.
func (n *node[ID]) child(by *term[ID]) *node[ID] {
	switch {
	case n.parent == nil:
		if by.first.parent == nil {
			return nil
		}
		return &by.first
	case by.further == 0:
		return nil
	default:
		return n.branches.find(by.hash, func(found *node[ID]) bool { return found.term == by })
	}
}

// insert adds an entry at the node or below it.
func (n *node[ID]) insert(e *entry[ID]) {
	if !n.grown && n.entries.size() < maxEntriesPerNode {
		n.addEntry(e)
		return
	}
	if !n.grown {
		n.grown = true
		h := n.entries
		n.entries = entrySet[ID]{}
		for i := range h.size() {
			e := h.at(i).entry
			e.moveFrom(n)
			n.descend(e)
		}
	}
	n.descend(e)
}

// descend moves an entry down, or holds it if no condition leads further down.
func (n *node[ID]) descend(e *entry[ID]) {
	c := e.nextCondition(n)
	switch {
	case c == nil:
		n.addEntry(e)
	case c.relation == present:
		n.ensureChild(&c.key.anyValue).insert(e)
	default:
		for _, t := range c.terms {
			n.ensureChild(t).insert(e)
		}
	}
}

// ensureChild returns the node that a term leads to. It creates the node if there is none.
func (n *node[ID]) ensureChild(by *term[ID]) *node[ID] {
	if below := n.child(by); below != nil {
		return below
	}
	below := &by.first
	if n.parent != nil {
		below = &node[ID]{}
		n.branches.add(by.hash, below)
		by.further++
	}
	below.parent, below.term = n, by
	n.count++
	n.keys |= by.key.bits
	return below
}

// removeChild removes a branch.
func (n *node[ID]) removeChild(below *node[ID]) {
	if n.parent == nil {
		*below = node[ID]{}
	} else {
		n.branches.remove(below.term.hash, below)
		below.term.further--
	}
	n.count--
}

func (n *node[ID]) addEntry(e *entry[ID]) {
	e.positions = append(e.positions, position[ID]{node: n, index: n.entries.size()})
	n.entries.add(candidate[ID]{needs: e.needs(), entry: e})
}

// removeEntry removes the entry at an index, and the node itself if it is then empty.
func (n *node[ID]) removeEntry(at int) {
	last := n.entries.size() - 1
	if at != last {
		*n.entries.at(at) = *n.entries.at(last)
		n.entries.at(at).entry.positionAt(n).index = at
	}
	n.entries.removeLast()
	n.prune()
}

// prune removes the node, and its ancestors, as long as they neither hold nor lead to an entry.
func (n *node[ID]) prune() {
	for n.count == 0 {
		n.branches, n.keys = table[node[ID]]{}, 0
		n.grown = n.grown && n.entries.size() > maxEntriesPerNode
		if n.parent == nil || n.entries.size() > 0 {
			return
		}
		parent := n.parent
		parent.removeChild(n) // this may clear n.parent
		n = parent
	}
}
