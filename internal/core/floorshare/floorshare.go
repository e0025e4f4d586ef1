package floorshare

import "slices"

// Protector is what the core records of a protector.
type Protector struct {
	// Floor is F. It is unknown while FloorUnknown is set.
	Floor        int
	FloorUnknown bool
	// Cells are all cells that have counted the protector.
	Cells []Cell
}

// Cell is what the core records of a cell.
type Cell struct {
	Name string
	// Shared reports whether the cell decides on its share; Floor is L_c then.
	Shared bool
	Floor  int
	// Available and Reserved are A_c and |H_c|: the reservations that the protector has for the cell, and those of its share.
	Available, Reserved int
	// Unmoved are the reservations that the protector still has for a cell that is about to decide on its share, or has begun to.
	Unmoved int
	// Uncounted reports that Available is 0 because the pods have not been counted, since the spec changed or a restore.
	Uncounted bool
	// Void reports that the record may be older than a restore of the core, so that nothing relies on it.
	Void bool
	// Discounted reports that no other cell relies on the pods of this one, because its Cell is being deleted, or its aggregator is silent.
	Discounted bool
	// Wanted is the number of removals that the share has denied, and for which the cell asks for budget of other cells.
	Wanted int
}

// Local is the share in the cell's own cluster.
type Local struct {
	Exists bool
	// Closed reports that it admits nothing.
	Closed bool
	// Floor is l_c.
	Floor int
	// Available and Reserved are A_c and |H_c| of the share's own count.
	Available, Reserved int
	// Undone reports that the stored protector does not record the cell, because it was recreated or restored.
	Undone bool
	// Unmerged reports that it has reservations that the core does not record, and that are not void.
	Unmerged bool
}

// Kept returns the number of pods that the cell keeps whatever it can reach. It is not negative for a cell with a share: if more pods are reserved than the
// cell has, some of those do not exist any more.
func (c Cell) Kept() int {
	left := c.Available - c.Reserved
	switch {
	case c.Shared && c.Void:
		return 0
	case c.Shared:
		return min(c.Floor, max(left, 0))
	default:
		return left
	}
}

// Slack returns the number of pods that the cell may still remove by its share.
func (c Cell) Slack() int {
	if !c.Shared || c.Void {
		return 0
	}
	return max(c.Available-c.Reserved-c.Floor, 0)
}

// HasTooFew reports whether the cell has fewer pods left than its share, so that the other cells rely on the number of its pods.
func (p *Protector) HasTooFew(cell string) bool {
	own := p.cell(cell)
	return own.Shared && !own.Void && own.Kept() < own.Floor
}

// wants returns the number of removals for which the cell has no budget, and could use that of other cells.
func (c Cell) wants() int {
	if c.Slack() > 0 {
		return 0
	}
	return max(min(c.Wanted, c.Kept()), 0)
}

// promised is Σ L_c, with the pods that are left in cells without a share.
func (p *Protector) promised() (sum int) {
	for _, c := range p.Cells {
		switch {
		case c.Shared && c.Void:
		case c.Shared:
			sum += c.Floor
		default:
			sum += c.Available - c.Reserved
		}
	}
	return sum
}

// isUncertain reports whether any cell has not recorded its share since a restore, or is not counted.
func (p *Protector) isUncertain() bool {
	return slices.ContainsFunc(p.Cells, func(c Cell) bool { return c.Shared && (c.Void || c.Uncounted) })
}

// kept is Σ min(L_c, A_c − |H_c|).
func (p *Protector) kept() (sum int) {
	for _, c := range p.Cells {
		sum += c.Kept()
	}
	return sum
}

// sum adds up a number of the cells with a share.
func (p *Protector) sum(of func(Cell) int) (sum int) {
	for _, c := range p.Cells {
		if c.Shared {
			sum += of(c)
		}
	}
	return sum
}

// seenBy returns what a cell relies on: of discounted cells it relies on no pods, but on their reservations that exceed their pods.
func (p *Protector) seenBy(cell string) *Protector {
	if !slices.ContainsFunc(p.Cells, func(c Cell) bool { return c.Discounted && c.Name != cell }) {
		return p
	}
	seen := *p
	seen.Cells = slices.Clone(p.Cells)
	for i, c := range seen.Cells {
		if c.Discounted && c.Name != cell {
			seen.Cells[i] = Cell{Name: c.Name, Available: min(c.Available, c.Reserved), Reserved: c.Reserved}
		}
	}
	return &seen
}

// KeepsFloor reports whether the cells keep the floor by themselves: all shares are enough and, if too few pods are left, no share admits a removal.
// So it must be after a write that drops the record of a cell (rule S3). Cells without a share need nothing: the protector decides for them.
func (p *Protector) KeepsFloor() bool {
	p = p.seenBy("")
	if !slices.ContainsFunc(p.Cells, func(c Cell) bool { return c.Shared }) {
		return true
	}
	return !p.FloorUnknown && !p.isUncertain() && p.promised() >= p.Floor && (p.kept() >= p.Floor || p.sum(Cell.Slack) == 0)
}

// cell returns the record of a cell; the zero Cell if there is none.
func (p *Protector) cell(name string) Cell {
	for _, c := range p.Cells {
		if c.Name == name {
			return c
		}
	}
	return Cell{Name: name}
}

// IsVoid reports whether nothing relies on the record of a cell.
func (p *Protector) IsVoid(cell string) bool { return p.cell(cell).Void }

// with returns p with another record of a cell.
func (p *Protector) with(c Cell) *Protector {
	changed := *p
	changed.Cells = slices.Clone(p.Cells)
	at := slices.IndexFunc(changed.Cells, func(o Cell) bool { return o.Name == c.Name })
	if at < 0 {
		changed.Cells = append(changed.Cells, c)
	} else {
		changed.Cells[at] = c
	}
	return &changed
}

// MayRecord reports whether the share of a cell may be recorded as to, in a write of the protector that p describes (rules S3, S4 and S5). A
// share that does not fall may always be recorded.
func (p *Protector) MayRecord(cell string, to int) bool {
	p = p.seenBy(cell)
	own := p.cell(cell)
	if own.Shared && !own.Void && to >= own.Floor {
		return true
	}
	if p.FloorUnknown || !own.Shared && own.Uncounted { // its pods are kept now, and no sum shows them
		return false
	}
	own.Shared, own.Floor, own.Void = true, to, false
	after := p.with(own)
	return after.promised() >= p.Floor && after.kept() >= min(p.Floor, p.kept())
}
