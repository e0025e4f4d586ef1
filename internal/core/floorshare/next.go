package floorshare

import "slices"

// Kind is what a step does. The comments name its writes, in their order: see the package's documentation.
type Kind string

const (
	// Nothing is left to do.
	Nothing Kind = ""
	// Create creates the share, closed.
	Create Kind = "Create"
	// Enter records the share in the protector, and then opens it with all reservations that the protector has for the cell.
	Enter Kind = "Enter"
	// Raise raises the share in the cell's cluster, if it is lower, and then records it in the protector.
	Raise Kind = "Raise"
	// Lower lowers the share in the protector, if it is higher, and then in the cell's cluster.
	Lower Kind = "Lower"
	// Confirm records the share again after a restore of the core: an open one as it is in the cell's cluster, which has the truth, and a closed
	// one as it may be opened then. It writes the share first, so that no step of the lost history can complete.
	Confirm Kind = "Confirm"
	// Leave closes the share, and then gives the cell and all its reservations back to the protector.
	Leave Kind = "Leave"
	// Delete deletes a share that the protector does not record.
	Delete Kind = "Delete"
)

// Step is one step for a cell. Floor is the share after it, for Enter, Raise, Lower and Confirm.
type Step struct {
	Kind  Kind
	Floor int
}

// Next returns the next step for a cell. wanted reports whether the protector wants shares, and the cell can have one: it is false for a
// protector or a Cell that is being deleted. Next is a function of what was read, so all processes that have read the same agree.
func Next(p *Protector, cell string, local Local, wanted bool) Step {
	p = p.seenBy(cell)
	own := p.cell(cell)
	switch {
	case !wanted && own.Shared:
		return Step{Kind: Leave}
	case !wanted && local.Exists && (!local.Closed || local.Unmerged):
		return Step{Kind: Leave}
	case !wanted && local.Exists:
		return Step{Kind: Delete}
	case !wanted:
		return Step{}
	case !local.Exists:
		return Step{Kind: Create}
	case !own.Shared && local.Closed && local.Unmerged:
		return Step{Kind: Leave}
	case !local.Closed && (own.Void || !own.Shared && local.Undone): // a restore of the core has undone the entry or other steps
		return Step{Confirm, local.Floor}
	case !local.Closed && !own.Shared: // a restore of the cell's cluster has undone that it was closed
		return Step{Kind: Leave}
	case own.Shared && own.Void:
		return p.confirmClosed(own)
	case !own.Shared:
		return p.enter(own)
	case local.Closed:
		return Step{Enter, own.Floor}
	default:
		return p.move(own, local)
	}
}

// NeedsLive reports whether a write of the protector relies on the share in the cell's cluster, so that it must be read from the API server, and
// after the protector that the write replaces. after is the protector that is written, by a read of the share that may be late, and step the next
// step by it. All other writes are safe with a late read: each step that writes the share first fails if the share has changed, and a share
// admits only what leaves as many pods as it promises.
func NeedsLive(before, after *Protector, cell string, local Local, step Step) bool {
	was, is := before.cell(cell), after.cell(cell)
	switch {
	case local.Undone: // the write makes counts valid by which the protector decides, unless a share is open
		return true
	case step.Kind == Enter || step.Kind == Lower || step.Kind == Leave:
		return true
	case !is.Shared:
		return false
	case is.Unmoved > 0: // the write drops them if the share is open
		return true
	default: // pods may have died, beside removals that the read does not show
		return is.Available < was.Available || before.HasTooFew(cell)
	}
}

// confirmClosed returns the step by which a closed share is recorded again. Nothing is known of what it promised, so it must be enough with what the
// other cells keep: they may have promised more pods than they have, and no share rises until the cell has been counted (rule S4).
func (p *Protector) confirmClosed(own Cell) Step {
	if p.FloorUnknown {
		return Step{}
	}
	return Step{Confirm, max(own.Floor, p.Floor-p.kept())}
}

// enter returns the step by which a cell gets a share: its part of the floor, or more if the other cells promise, or have, too few pods.
func (p *Protector) enter(own Cell) Step {
	if p.FloorUnknown || own.Void || own.Uncounted {
		return Step{}
	}
	all := 0
	for _, c := range p.Cells {
		all += max(c.Available-c.Reserved, 0)
	}
	part := own.Kept()
	if all > 0 {
		part = divideUp(p.Floor*max(own.Kept(), 0), all)
	}
	promised, kept := p.promised()-own.Kept(), p.kept()-own.Kept()
	if floor := max(part, p.Floor-promised, min(p.Floor, p.kept())-kept, 0); p.MayRecord(own.Name, floor) {
		return Step{Enter, floor}
	}
	return Step{}
}

// move returns the step by which the share of a cell changes.
func (p *Protector) move(own Cell, local Local) Step {
	if local.Floor < own.Floor {
		return Step{Raise, own.Floor} // a restore of the cell's cluster has undone a raise
	}
	if p.FloorUnknown || p.isUncertain() {
		return Step{}
	}
	if more := max(p.missing(own, local), p.given(own, local), p.balanced(own, local)); more > 0 {
		return Step{Raise, own.Floor + more}
	}
	if less := p.taken(own); less > 0 && p.MayRecord(own.Name, own.Floor-less) {
		return Step{Lower, own.Floor - less}
	}
	if local.Floor > own.Floor {
		return Step{Lower, own.Floor} // an earlier step has stopped between its writes
	}
	return Step{}
}

// missing returns by how much the cell must raise its share because the floor is not kept (rule S4): its part by the budget that it has left
// or, if all cells together have too few pods, by what is missing beside all of them. So new pods are kept in whichever cell they appear.
func (p *Protector) missing(own Cell, local Local) int {
	short, slack := p.Floor-p.kept(), p.sum(Cell.Slack)
	switch {
	case short <= 0:
		return 0
	case short > slack:
		return max(own.Available-own.Reserved, 0) + short - slack - own.Floor
	default:
		left := max(own.Available, local.Available) - local.Reserved
		return min(divideUp(short*own.Slack(), slack), own.Slack(), max(left-own.Floor, 0))
	}
}

// given returns by how much the cell raises its share so that other cells can lower theirs: half of the budget of all cells that do not want
// more themselves, or as much as is wanted if that is more, but not what each of them keeps for an outage. It gives nothing while the others have not
// taken what was given before.
func (p *Protector) given(own Cell, local Local) int {
	wanted := p.sum(Cell.wants)
	spare := p.sum(func(c Cell) int {
		if c.wants() > 0 {
			return 0
		}
		return p.spare(c)
	})
	if wanted == 0 || own.wants() > 0 || spare == 0 || p.surplus() > 0 {
		return 0
	}
	give := min(max(divideUp(spare, 2), wanted), spare)
	return min(divideUp(give*p.spare(own), spare), p.spare(own), max(local.Available-local.Reserved-local.Floor, 0))
}

// spare is the budget that a cell may give away. It keeps a quarter of its part, so that an outage of the core in the midst of rollouts leaves it some: a
// rollout continues with little budget, and stops without any. The part is that of all pods, since those of a rollout come back. Parts of fewer than four
// removals are given away whole: otherwise no cell could use them.
func (p *Protector) spare(c Cell) int {
	part := c.Available - p.divide(c, func(c Cell) int { return c.Available })
	return max(c.Slack()-max(part, 0)/4, 0)
}

// balanced returns by how much the cell raises its share because its part of the budget is much larger than that of other cells, in proportion
// to their pods. Otherwise some cell could have no budget left in an outage. It does nothing while any cell wants budget, and tolerates an
// eighth of the budget, so that shares do not follow each pod, unless a cell has none.
func (p *Protector) balanced(own Cell, local Local) int {
	slack := p.sum(Cell.Slack)
	more, tolerated := p.target(own)-own.Floor, max(divideUp(slack, 8), 1)
	if slices.ContainsFunc(p.Cells, func(c Cell) bool { return c.Shared && c.Slack() == 0 && c.Floor > p.target(c) }) {
		tolerated = 0
	}
	if p.sum(Cell.wants) > 0 || p.surplus() > 0 || more <= tolerated {
		return 0
	}
	return max(min(more, own.Slack(), local.Available-local.Reserved-local.Floor), 0)
}

// target returns the share of a cell in proportion to its pods, rounded down.
func (p *Protector) target(c Cell) int {
	return p.divide(c, func(c Cell) int { return max(c.Available-c.Reserved, 0) })
}

// divide returns the part of a cell of what cells without a share leave of the floor, in proportion to a number of pods, rounded down.
func (p *Protector) divide(c Cell, pods func(Cell) int) int {
	unshared, all := 0, p.sum(pods)
	for _, o := range p.Cells {
		if !o.Shared {
			unshared += pods(o)
		}
	}
	if all == 0 {
		return 0
	}
	return max(p.Floor-unshared, 0) * pods(c) / all
}

// surplus is by how much shares may fall.
func (p *Protector) surplus() int {
	return max(min(p.promised(), p.kept())-p.Floor, 0)
}

// taken returns by how much the cell lowers its share: what it promises beyond its pods while all cells have enough, which keeps no pod, or else its
// part of the surplus, by what cells want or, if no cell wants more, by how much their shares are above those in proportion to their pods. A cell that
// promises more than it has would want budget for ever, and the others would give theirs away for it.
func (p *Protector) taken(own Cell) int {
	if empty := min(own.Floor-max(own.Available-own.Reserved, 0), p.promised()-p.Floor); empty > 0 && p.kept() >= p.Floor {
		return empty
	}
	surplus, part := p.surplus(), Cell.wants
	if p.sum(part) == 0 {
		part = func(c Cell) int { return max(c.Floor-p.target(c), 0) }
	}
	all := p.sum(part)
	if surplus == 0 || all == 0 || part(own) == 0 {
		return 0
	}
	return min(divideUp(surplus*part(own), all), own.Floor)
}

// divideUp returns a/b, rounded up.
func divideUp(a, b int) int { return (a + b - 1) / b }
