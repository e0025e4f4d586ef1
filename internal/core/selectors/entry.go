package selectors

// entry is a selector in the tree of its namespace.
type entry[ID comparable] struct {
	id ID
	// exact are the values of the conditions that ask for one value, which most conditions do. They are mostly in
	// room, where a query has them at hand.
	exact []*term[ID]
	room  [4]*term[ID]
	// others are the other conditions.
	others []condition[ID]

	space      *space[ID]
	conditions []condition[ID]
	// places is where the tree holds the entry.
	places []place[ID]
}

// place is an index in what a node holds.
type place[ID comparable] struct {
	node *node[ID]
	at   int
}

// needs has the bits of all values that the selector cannot do without.
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

// next is the condition by which the entry goes down from a node, or nil if it has to stay: the one that best
// tells selectors apart, of those that the way from the root has not used.
//
// A condition with several values makes as many places of one, and conditions below each other multiply. The
// product stays within the number of values in the selector, so that 5 keys with 10 values take 10 places and
// not 10^5.
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

// decides tells whether the way from the root to the node goes by a term of this key.
func (n *node[ID]) decides(k *key[ID]) bool {
	for ; n.parent != nil; n = n.parent {
		if n.by.key == k {
			return true
		}
	}
	return false
}

// leave takes the entry out of the tree.
func (e *entry[ID]) leave() {
	for _, p := range e.places {
		p.node.drop(p.at)
	}
	e.places = nil
}

// moveFrom forgets the place at a node, which has let go of the entry.
func (e *entry[ID]) moveFrom(n *node[ID]) {
	last := len(e.places) - 1
	*e.place(n) = e.places[last]
	e.places[last] = place[ID]{}
	e.places = e.places[:last]
}

// place is the entry's place at a node that holds it. There is one: two ways never lead to one node.
func (e *entry[ID]) place(n *node[ID]) *place[ID] {
	for i := range e.places {
		if e.places[i].node == n {
			return &e.places[i]
		}
	}
	return nil
}
