package selectors

// bucket is how many entries a node holds before it grows branches. To reject so many takes about as long as to
// go down one branch, whose node is seldom in the processor's cache.
const bucket = 32

// node holds entries that the terms on the way from the root have led to. When they become too many, the node
// grows branches and each entry moves down one of them, by a term of a condition of its own. A query goes
// down the branches that the pod's labels lead to, and checks what it finds.
//
// An entry that asks for one of several values lies on a branch for each. A pod has one of them at most, so
// no query meets an entry twice.
type node[ID comparable] struct {
	parent *node[ID]
	// by is the term that leads here from the parent.
	by *term[ID]

	// grown is set when the node has tried to move its entries down. What it holds then cannot move.
	grown bool
	held  held[ID]
	// count is the number of branches. Those of the root are found by their terms, all others by the table.
	count    int
	branches table[node[ID]]
	// keys has the bits of the keys of all branches; bits of branches that are gone may stay.
	keys uint64
}

// query appends the entries at and below the node that match.
func (n *node[ID]) query(p *pod[ID], found []ID) []ID {
	if n.held.one.entry != nil {
		found = n.held.one.query(p, found)
	}
	for i := range n.held.more {
		found = n.held.more[i].query(p, found)
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
			if below := n.below(l.value); below != nil {
				found = below.query(p, found)
			}
		}
		if below := n.below(&l.key.anyValue); below != nil {
			found = below.query(p, found)
		}
	}
	return found
}

// below is the node that a term leads to, or nil.
func (n *node[ID]) below(by *term[ID]) *node[ID] {
	switch {
	case n.parent == nil:
		if by.first.parent == nil {
			return nil
		}
		return &by.first
	case by.further == 0:
		return nil
	default:
		return n.branches.find(by.hash, func(below *node[ID]) bool { return below.by == by })
	}
}

// insert adds an entry at the node or below it.
func (n *node[ID]) insert(e *entry[ID]) {
	if !n.grown && n.held.size() < bucket {
		n.hold(e)
		return
	}
	if !n.grown {
		n.grown = true
		h := n.held
		n.held = held[ID]{}
		for i := range h.size() {
			e := h.at(i).entry
			e.moveFrom(n)
			n.pass(e)
		}
	}
	n.pass(e)
}

// pass moves an entry down, or holds it when there is no way.
func (n *node[ID]) pass(e *entry[ID]) {
	c := e.next(n)
	switch {
	case c == nil:
		n.hold(e)
	case c.relation == present:
		n.branch(&c.key.anyValue).insert(e)
	default:
		for _, t := range c.terms {
			n.branch(t).insert(e)
		}
	}
}

// branch is the node that a term leads to; it grows if there is none.
func (n *node[ID]) branch(by *term[ID]) *node[ID] {
	if below := n.below(by); below != nil {
		return below
	}
	below := &by.first
	if n.parent != nil {
		below = &node[ID]{}
		n.branches.add(by.hash, below)
		by.further++
	}
	below.parent, below.by = n, by
	n.count++
	n.keys |= by.key.bits
	return below
}

// cut removes a branch.
func (n *node[ID]) cut(below *node[ID]) {
	if n.parent == nil {
		*below = node[ID]{}
	} else {
		n.branches.remove(below.by.hash, below)
		below.by.further--
	}
	n.count--
}

func (n *node[ID]) hold(e *entry[ID]) {
	e.places = append(e.places, place[ID]{node: n, at: n.held.size()})
	n.held.add(candidate[ID]{needs: e.needs(), entry: e})
}

// drop removes the entry at an index, and the node itself when it holds nothing more.
func (n *node[ID]) drop(at int) {
	last := n.held.size() - 1
	if at != last {
		*n.held.at(at) = *n.held.at(last)
		n.held.at(at).entry.place(n).at = at
	}
	n.held.removeLast()
	n.prune()
}

// prune removes the node and those above it that neither hold nor lead to an entry.
func (n *node[ID]) prune() {
	for n.count == 0 {
		n.branches, n.keys = table[node[ID]]{}, 0
		n.grown = n.grown && n.held.size() > bucket
		if n.parent == nil || n.held.size() > 0 {
			return
		}
		parent := n.parent
		parent.cut(n) // it knows its parent no more
		n = parent
	}
}
