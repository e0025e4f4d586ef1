package selectorindex

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
	held  []candidate[ID]
	// count is the number of branches. Those of the root are found by their terms, all others by the map.
	count    int
	branches map[*term[ID]]*node[ID]
	// keys has the bits of the keys of all branches; bits of branches that are gone may stay.
	keys uint64
}

// candidate is an entry, with what is enough to reject it for most pods without a look at it.
type candidate[ID comparable] struct {
	needs uint64
	entry *entry[ID]
}

// query appends the entries at and below the node that match.
func (n *node[ID]) query(p pod[ID], found []ID) []ID {
	for i := range n.held {
		c := &n.held[i]
		if c.needs&^p.bits == 0 && c.entry.matches(p) {
			found = append(found, c.entry.id)
		}
	}
	if n.count == 0 {
		return found
	}
	for i := range p.labels {
		l := &p.labels[i]
		if n.keys&l.key.bit == 0 {
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
		return by.first
	case by.further == 0:
		return nil
	default:
		return n.branches[by]
	}
}

// insert adds an entry at the node or below it.
func (n *node[ID]) insert(e *entry[ID]) {
	if !n.grown && len(n.held) < bucket {
		n.hold(e)
		return
	}
	if !n.grown {
		n.grown = true
		held := n.held
		n.held = nil
		for _, c := range held {
			c.entry.moveFrom(n)
			n.pass(c.entry)
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
	below := &node[ID]{parent: n, by: by}
	if n.parent == nil {
		by.first = below
	} else {
		if n.branches == nil {
			n.branches = map[*term[ID]]*node[ID]{}
		}
		n.branches[by] = below
		by.further++
	}
	n.count++
	n.keys |= by.key.bit
	return below
}

// cut removes the branch that a term leads to.
func (n *node[ID]) cut(by *term[ID]) {
	if n.parent == nil {
		by.first = nil
	} else {
		delete(n.branches, by)
		by.further--
	}
	n.count--
}

func (n *node[ID]) hold(e *entry[ID]) {
	e.places = append(e.places, place[ID]{node: n, at: len(n.held)})
	n.held = append(n.held, candidate[ID]{needs: e.needs(), entry: e})
}

// drop removes the entry at an index, and the node itself when it holds nothing more.
func (n *node[ID]) drop(at int) {
	last := len(n.held) - 1
	if at != last {
		n.held[at] = n.held[last]
		n.held[at].entry.place(n).at = at
	}
	n.held[last] = candidate[ID]{}
	n.held = n.held[:last]
	if cap(n.held) > bucket && last < cap(n.held)/4 {
		n.held = append(make([]candidate[ID], 0, cap(n.held)/2), n.held...)
	}
	n.prune()
}

// prune removes the node and those above it that neither hold nor lead to an entry.
func (n *node[ID]) prune() {
	for ; n.count == 0; n = n.parent {
		n.branches, n.keys = nil, 0
		n.grown = n.grown && len(n.held) > bucket
		if n.parent == nil || len(n.held) > 0 {
			return
		}
		n.parent.cut(n.by)
	}
}
