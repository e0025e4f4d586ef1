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

// entrySet is the set of entries of a node. If there are many nodes, most are leaves with one entry, which a query finds without a
// further read.
type entrySet[ID comparable] struct {
	first candidate[ID]
	rest  []candidate[ID]
}

func (h *entrySet[ID]) size() int {
	if h.first.entry == nil {
		return 0
	}
	return 1 + len(h.rest)
}

// at returns the candidate at an index. Index 0 is the field one.
func (h *entrySet[ID]) at(i int) *candidate[ID] {
	if i == 0 {
		return &h.first
	}
	return &h.rest[i-1]
}

func (h *entrySet[ID]) add(c candidate[ID]) {
	if h.first.entry == nil {
		h.first = c
	} else {
		h.rest = append(h.rest, c)
	}
}

// removeLast limits the capacity to four times the length.
func (h *entrySet[ID]) removeLast() {
	last := len(h.rest) - 1
	if last < 0 {
		h.first = candidate[ID]{}
		return
	}
	h.rest[last] = candidate[ID]{}
	h.rest = h.rest[:last]
	if cap(h.rest) > maxEntriesPerNode && last < cap(h.rest)/4 {
		h.rest = append(make([]candidate[ID], 0, cap(h.rest)/2), h.rest...)
	}
}
