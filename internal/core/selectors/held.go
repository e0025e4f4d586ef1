package selectors

// candidate is an entry, with what is enough to reject it for most pods without a look at it.
type candidate[ID comparable] struct {
	needs uint64
	entry *entry[ID]
}

// query appends the id of the entry if it matches.
func (c *candidate[ID]) query(p *pod[ID], found []ID) []ID {
	if c.needs&^p.bits == 0 && c.entry.matches(p) {
		return append(found, c.entry.id)
	}
	return found
}

// held is what a node holds. Most nodes of many are leaves with one entry, and a query finds that at once.
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

// at is the candidate at an index; that of one is 0.
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

// removeLast keeps no more room than four times what is held.
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
