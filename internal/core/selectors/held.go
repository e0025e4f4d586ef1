package selectors

// candidate is an entry, with bits that reject it for most pods without a read of the entry.
type candidate[ID comparable] struct {
	needs uint64
	entry *entry[ID]
}

// query appends the entry's id if the entry matches.
func (c *candidate[ID]) query(p *pod[ID], found []ID) []ID {
	if c.needs&^p.bits == 0 && c.entry.matches(p) {
		return append(found, c.entry.id)
	}
	return found
}

// held is the set of entries of a node. If there are many nodes, most are leaves with one entry, which a query finds without a
// further read.
type held[ID comparable] struct {
	one  candidate[ID]
	more []candidate[ID]
}

func (h *held[ID]) size() int {
	if h.one.entry == nil {
		return 0
	}
	return 1 + len(h.more)
}

// at returns the candidate at an index. Index 0 is the field one.
func (h *held[ID]) at(i int) *candidate[ID] {
	if i == 0 {
		return &h.one
	}
	return &h.more[i-1]
}

func (h *held[ID]) add(c candidate[ID]) {
	if h.one.entry == nil {
		h.one = c
	} else {
		h.more = append(h.more, c)
	}
}

// removeLast limits the capacity to four times the length.
func (h *held[ID]) removeLast() {
	last := len(h.more) - 1
	if last < 0 {
		h.one = candidate[ID]{}
		return
	}
	h.more[last] = candidate[ID]{}
	h.more = h.more[:last]
	if cap(h.more) > bucket && last < cap(h.more)/4 {
		h.more = append(make([]candidate[ID], 0, cap(h.more)/2), h.more...)
	}
}
