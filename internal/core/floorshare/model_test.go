package floorshare_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/core/floorshare"
)

// A model of two cells and the processes that move their shares. It explores all states that are reachable from a start by any order of
// events: removals on both paths, settlements, deaths, new counts, restores of the core and of a cell, a discount and the deletion of the second
// cell, a watch of the first cell's share that falls behind, a floor that is unknown for a while, and steps whose second write is delayed, meets another write or never happens.

const (
	modelCells = 2
	// modelPods is the highest number of pods in a cell.
	modelPods = 2
)

// model is a state. It is comparable.
type model struct {
	floor  int8
	cells  [modelCells]modelCell
	delays [3]delayed
	deaths int8
	// mayDrain lets the second Cell be deleted. lacking is how many pods the other cell lacked to the floor when its entry was dropped.
	mayDrain bool
	lacking  int8
	watch    watch
	// mayForget lets the floor be unknown; isUnknown reports that it is. Shares that cannot reach the core do not know that.
	mayForget, isUnknown bool
	// coreBackup and cellBackup are what a restore of the core, or of the first cell, brings back.
	coreBackup, cellBackup backup
}

// backup is the state of the objects of the core, or of a cell, at some time.
type backup struct {
	state    backupState
	recorded [modelCells]modelCell
	local    modelCell
}

// watch is the watch of the share of the first cell.
type watch struct {
	// mayLag lets it fall behind; isBehind reports that it does, and shows the share as shown. missed reports that the share has changed since.
	mayLag, isBehind, missed bool
	shown                    modelCell
}

type backupState int8

const (
	neverTaken backupState = iota
	notTaken
	taken
)

// modelCell is the truth about a cell and its two objects.
type modelCell struct {
	pods int8
	// shared, recorded, counted, reservedCopy and reserved are in the protector: whether the cell has a share, L_c, A_c, a copy of
	// |H_c| of the share, and reservations that the protector has itself. frozen is the copy of these that remains when the share has them.
	shared                                            bool
	recorded, counted, reservedCopy, reserved, frozen int8
	wanted                                            int8
	// void reports that the core was restored, and the cell has neither confirmed its share nor counted since. uncounted reports that it has not
	// counted since.
	void, uncounted bool
	// awaiting reports that the cell's cluster was restored, and its share has not been opened since. noticed reports that the processes which
	// move shares know that.
	awaiting, noticed bool
	// discounted reports that other cells do not rely on the cell, since its Cell is being deleted, and gone that the protector has no entry of
	// it any more.
	discounted, gone bool
	// admitted is how many removals are under way, and died how many pods have died since the protector last counted.
	admitted, died int8
	// exists, closed, local and localReserved are the share: l_c and its reservations.
	exists, closed       bool
	local, localReserved int8
}

// delayed is the second write of a step, which a process has not sent yet.
type delayed struct {
	kind floorshare.Kind
	// floor, counted and reserved are the share, A_c and |H_c| that the write of a protector records.
	floor, counted, reserved int8
	// fresh reports that the object has not changed since the process read it.
	fresh bool
}

func (d delayed) before(o delayed) bool {
	if d.kind != o.kind {
		return d.kind < o.kind
	}
	if d.floor != o.floor {
		return d.floor < o.floor
	}
	if d.counted != o.counted {
		return d.counted < o.counted
	}
	if d.reserved != o.reserved {
		return d.reserved < o.reserved
	}
	return !d.fresh && o.fresh
}

// cellOfProcess maps processes to cells: two processes for the first cell believe to lead it.
func cellOfProcess(process int) int { return []int{0, 0, 1}[process] }

func (m *model) protector() *floorshare.Protector {
	p := &floorshare.Protector{Floor: int(m.floor), FloorUnknown: m.isUnknown}
	if m.isUnknown {
		p.Floor = 0 // no decision may depend on it
	}
	for i, c := range m.cells {
		if c.gone {
			continue
		}
		reserved := c.reserved + c.frozen
		if c.shared {
			reserved += c.reservedCopy
		}
		p.Cells = append(p.Cells, floorshare.Cell{
			Name: fmt.Sprint(i), Shared: c.shared, Floor: int(c.recorded), Available: int(c.counted), Reserved: int(reserved), Wanted: int(c.wanted),
			Unmoved: int(c.reserved + c.frozen),
			Void:    c.void, Uncounted: c.uncounted, Discounted: c.discounted,
		})
	}
	return p
}

func (c *modelCell) share() floorshare.Local {
	return floorshare.Local{
		Exists: c.exists, Closed: c.closed || c.awaiting && c.noticed, Floor: int(c.local), Available: int(c.pods), Reserved: int(c.localReserved),
		Unmerged: c.localReserved > 0,
	}
}

// protectorWritten and shareWritten make all reads of an object outdated.
func (m *model) protectorWritten() {
	for i := range m.delays {
		if k := m.delays[i].kind; k == floorshare.Raise || k == floorshare.Leave || k == floorshare.Confirm {
			m.delays[i].fresh = false
		}
	}
}

func (m *model) shareWritten(cell int) {
	if cell == 0 && m.watch.isBehind {
		m.watch.missed = true
	}
	for i := range m.delays {
		if k := m.delays[i].kind; cellOfProcess(i) == cell && (k == floorshare.Lower || k == floorshare.Enter) {
			m.delays[i].fresh = false
		}
	}
}

// successors returns all states after one event.
func (m model) successors(wanted bool) (next []model) {
	add := func(change func(*model) bool) {
		n := m
		if !change(&n) {
			return
		}
		if n.delays[1].before(n.delays[0]) { // both processes are alike
			n.delays[0], n.delays[1] = n.delays[1], n.delays[0]
		}
		next = append(next, n)
	}
	add((*model).stallWatch)
	add((*model).resumeWatch)
	add((*model).forgetFloor)
	add((*model).learnFloor)
	add((*model).startDraining)
	add((*model).drop)
	for i := range m.cells {
		if m.cells[i].gone {
			continue
		}
		add(func(n *model) bool { return n.removeByShare(i) })
		add(func(n *model) bool { return n.removeByProtector(i) })
		add(func(n *model) bool { return n.settle(i) })
		add(func(n *model) bool { return n.die(i) })
		add(func(n *model) bool { return n.count(i) })
		add(func(n *model) bool { n.cells[i].wanted = 1 - n.cells[i].wanted; return n.cells[i].shared })
	}
	add((*model).backUpCore)
	add((*model).restoreCore)
	add((*model).backUpCell)
	add((*model).restoreCell)
	add((*model).noticeRestore)
	for process := range m.delays {
		cell := m.cells[cellOfProcess(process)]
		if cell.gone {
			continue
		}
		for _, wants := range []bool{true, wanted} {
			add(func(n *model) bool { return n.begin(process, wants && !cell.discounted) })
		}
		add(func(n *model) bool { return n.finish(process) })
	}
	return next
}

// removeByShare admits a removal by an open share, whether the webhook's view of the protector is outdated or not.
func (m *model) removeByShare(cell int) bool {
	c := &m.cells[cell]
	if !c.isOpen() || c.pods-c.localReserved-1 < c.local {
		return false
	}
	c.localReserved++
	c.admitted++
	m.shareWritten(cell)
	return true
}

// stallWatch and resumeWatch let the watch of the first cell's share fall behind, and catch up.
func (m *model) stallWatch() bool {
	if !m.watch.mayLag || m.watch.isBehind {
		return false
	}
	m.watch.isBehind, m.watch.missed, m.watch.shown = true, false, m.cells[0].ofShare()
	return true
}

func (m *model) resumeWatch() bool {
	if !m.watch.isBehind || !m.watch.missed { // nothing would change
		return false
	}
	m.watch = watch{mayLag: true}
	return true
}

// forgetFloor and learnFloor let the floor be unknown and known again.
func (m *model) forgetFloor() bool { return m.setUnknown(true) }

func (m *model) learnFloor() bool { return m.setUnknown(false) }

func (m *model) setUnknown(unknown bool) bool {
	if !m.mayForget || m.isUnknown == unknown {
		return false
	}
	m.isUnknown = unknown
	m.protectorWritten()
	return true
}

// ofShare returns what the share has.
func (c *modelCell) ofShare() modelCell {
	return modelCell{pods: c.pods, exists: c.exists, closed: c.closed, awaiting: c.awaiting, noticed: c.noticed, local: c.local, localReserved: c.localReserved}
}

// shown returns the share of a cell as a process reads it for a write after which the protector is p, and whether that is outdated. A step that
// relies on the share reads it live.
func (m *model) shown(cell int, p *floorshare.Protector, decide func(floorshare.Local) floorshare.Step) (share modelCell, outdated bool) {
	c := &m.cells[cell]
	if cell > 0 || !m.watch.missed {
		return c.ofShare(), false
	}
	shown := m.watch.shown
	local := shown.share()
	local.Undone = c.void
	if floorshare.NeedsLive(m.protector(), p, fmt.Sprint(cell), local, decide(local)) {
		return c.ofShare(), false
	}
	return shown, true
}

// startDraining records that the second Cell is being deleted.
func (m *model) startDraining() bool {
	c := &m.cells[1]
	if !m.mayDrain || c.discounted {
		return false
	}
	c.discounted = true
	m.protectorWritten()
	return true
}

// drop drops the entry of the Cell that is being deleted. Its pods are no concern of the protector any more.
func (m *model) drop() bool {
	c := &m.cells[1]
	if !c.discounted || c.gone || c.shared || c.reserved > 0 || c.frozen > 0 || c.isOpen() {
		return false
	}
	after := *m
	after.cells[1].gone = true
	if !after.protector().KeepsFloor() {
		return false
	}
	after.lacking = max(m.floor-after.left()-m.deaths, 0)
	*m = after
	m.protectorWritten()
	return true
}

// removeByProtector admits a removal by compare-and-swap on the protector. It relies on no pods of another cell that is discounted, and admits none in
// a discounted cell, since that is draining.
func (m *model) removeByProtector(cell int) bool {
	c, kept := &m.cells[cell], 0
	for i, one := range m.protector().Cells {
		if one.Discounted && i != cell {
			kept += min(one.Kept(), 0)
		} else {
			kept += one.Kept()
		}
	}
	if m.isUnknown || c.discounted || c.shared || c.void || c.counted-c.reserved < 1 || kept-1 < int(m.floor) {
		return false
	}
	c.reserved++
	c.admitted++
	m.protectorWritten()
	return true
}

// settle ends a removal: the pod is deleted, and the write that drops its reservation counts one pod less.
func (m *model) settle(cell int) bool {
	c := &m.cells[cell]
	switch {
	case c.localReserved > 0:
		c.localReserved--
		m.shareWritten(cell)
	case c.reserved > 0 && !c.shared:
		c.reserved--
		c.counted = c.pods - 1
		m.protectorWritten()
	default:
		return false
	}
	c.pods--
	c.admitted--
	return true
}

// die deletes a pod by itself.
func (m *model) die(cell int) bool {
	c := &m.cells[cell]
	if c.pods-c.localReserved-c.reserved < 1 || m.deaths == 1 {
		return false
	}
	c.pods--
	c.died++
	m.deaths++
	return true
}

// count records new counts in the protector.
func (m *model) count(cell int) bool {
	c := &m.cells[cell]
	unconfirmed := c.void && !c.shared
	counted := m.protector()
	counted.Cells[cell].Available = int(c.pods)
	share, outdated := m.shown(cell, counted, func(floorshare.Local) floorshare.Step { return floorshare.Step{} })
	reservedCopy, frozen, reserved := c.reservedCopy, c.frozen, c.reserved
	if c.shared && share.exists {
		reservedCopy = share.localReserved
		if !share.share().Closed { // it has all reservations
			frozen, reserved = 0, 0
		}
	}
	if c.counted == c.pods && c.reservedCopy == reservedCopy && c.frozen == frozen && c.reserved == reserved && !unconfirmed && !c.uncounted {
		return false
	}
	if unconfirmed && (outdated && share.exists || share.isOpen() || share.localReserved > 0) {
		return false // the same write would confirm the share, merge its reservations, or meet another write of it
	}
	if unconfirmed {
		c.void = false
		if share.exists {
			m.shareWritten(cell)
		}
	}
	c.counted, c.uncounted, c.died, c.reservedCopy, c.frozen, c.reserved = c.pods, false, 0, reservedCopy, frozen, reserved
	m.protectorWritten()
	return true
}

// begin reads both objects, decides on a step, and makes its first write.
func (m *model) begin(process int, wants bool) bool {
	cell := cellOfProcess(process)
	c, p := &m.cells[cell], m.protector()
	decide := func(local floorshare.Local) floorshare.Step {
		return floorshare.Next(p, fmt.Sprint(cell), local, wants)
	}
	share, outdated := m.shown(cell, p, decide)
	counted := c.counted
	if share.exists && !c.uncounted { // the share was counted by another stream
		counted = min(counted, share.pods)
		p.Cells[cell].Available = int(counted)
	}
	step := decide(share.share())
	if step.Kind == floorshare.Confirm && !share.share().Closed && c.awaiting { // the process reads live that the cell's cluster was restored
		return false
	}
	if outdated && step.Kind != floorshare.Lower && step.Kind != floorshare.Enter {
		return false // the first write is one of the share
	}
	floor := int8(step.Floor)
	pending := delayed{step.Kind, floor, counted, share.localReserved, !outdated}
	switch step.Kind {
	case floorshare.Create:
		c.exists, c.closed, c.local, c.awaiting, c.noticed = true, true, 0, false, false
		pending = delayed{}
	case floorshare.Delete:
		c.exists, c.closed, c.local, c.awaiting, c.noticed = false, false, 0, false, false
		pending = delayed{}
	case floorshare.Raise, floorshare.Confirm:
		c.local = max(c.local, floor)
	case floorshare.Leave:
		c.closed = true
		c.exists = true
	case floorshare.Lower, floorshare.Enter:
		if !p.MayRecord(fmt.Sprint(cell), step.Floor) {
			return false
		}
		c.shared, c.recorded, c.void, c.counted = true, floor, false, counted
	default:
		return false
	}
	m.delays[process] = pending
	if step.Kind == floorshare.Lower || step.Kind == floorshare.Enter {
		m.protectorWritten()
	} else {
		m.shareWritten(cell)
	}
	return true
}

// finish makes the second write of a step, if it is not outdated.
func (m *model) finish(process int) bool {
	d := m.delays[process]
	m.delays[process] = delayed{}
	if !d.fresh {
		return d.kind != ""
	}
	cell := cellOfProcess(process)
	c := &m.cells[cell]
	switch d.kind {
	case floorshare.Raise, floorshare.Confirm:
		c.shared, c.recorded, c.void, c.counted, c.reservedCopy = true, d.floor, false, d.counted, d.reserved
		m.protectorWritten()
	case floorshare.Leave:
		c.shared, c.recorded, c.wanted, c.void = false, 0, 0, false
		c.reserved, c.localReserved, c.reservedCopy, c.frozen = c.reserved+c.localReserved, 0, 0, 0
		c.counted = c.pods
		m.protectorWritten()
	case floorshare.Lower:
		c.local = d.floor
		m.shareWritten(cell)
	case floorshare.Enter:
		c.closed, c.awaiting, c.noticed, c.local = false, false, false, d.floor
		c.localReserved, c.reserved, c.frozen = c.localReserved+c.reserved, 0, c.frozen+c.reserved
		m.shareWritten(cell)
	default:
		return false
	}
	return true
}

// isOpen reports whether the share admits removals.
func (c *modelCell) isOpen() bool { return c.exists && !c.closed && !c.awaiting }

// isSettled reports whether the protector has no reservations itself. After a restore nothing is admitted until all removals that only the
// lost history knows have ended (rule 11), so that the model needs no restores in between.
func (m *model) isSettled() bool {
	for _, c := range m.cells {
		if c.reserved > 0 || c.frozen > 0 {
			return false
		}
	}
	return true
}

func (m *model) backUpCore() bool {
	if m.coreBackup.state != notTaken || !m.isSettled() {
		return false
	}
	m.coreBackup.state = taken
	for i, c := range m.cells {
		m.coreBackup.recorded[i] = modelCell{shared: c.shared, recorded: c.recorded, reservedCopy: c.reservedCopy}
	}
	return true
}

func (m *model) restoreCore() bool {
	if m.coreBackup.state != taken || !m.isSettled() {
		return false
	}
	for i, was := range m.coreBackup.recorded {
		c := &m.cells[i]
		c.shared, c.recorded, c.counted, c.reservedCopy, c.wanted = was.shared, was.recorded, 0, was.reservedCopy, 0
		c.void, c.uncounted = true, true
	}
	m.coreBackup = backup{}
	m.protectorWritten()
	return true
}

func (m *model) backUpCell() bool {
	c := m.cells[0]
	if m.cellBackup.state != notTaken || c.localReserved > 0 {
		return false
	}
	m.cellBackup = backup{state: taken, local: modelCell{exists: c.exists, closed: c.closed, awaiting: c.awaiting, local: c.local}}
	return true
}

func (m *model) restoreCell() bool {
	c, was := &m.cells[0], m.cellBackup.local
	if m.cellBackup.state != taken || c.localReserved > 0 {
		return false
	}
	c.exists, c.closed, c.local, c.awaiting, c.noticed = was.exists, was.closed, was.local, was.exists, false
	m.cellBackup = backup{}
	m.shareWritten(0)
	return true
}

// noticeRestore makes the counts of the share void.
func (m *model) noticeRestore() bool {
	c := &m.cells[0]
	if !c.awaiting || c.noticed {
		return false
	}
	c.noticed = true
	m.shareWritten(0)
	return true
}

// left is the number of pods that no removal is under way for, in the cells that the protector has.
func (m *model) left() (left int8) {
	for _, c := range m.cells {
		if !c.gone {
			left += c.pods - c.localReserved - c.reserved
		}
	}
	return left
}

// problem returns what is wrong with a state; "" if nothing.
func (m *model) problem() string {
	left := m.left()
	for i, c := range m.cells {
		switch {
		case c.gone:
		case c.admitted > c.localReserved+c.reserved:
			return fmt.Sprintf("rule S6: a reservation of cell %d is lost", i)
		case c.void:
		case c.shared && c.isOpen() && c.local < c.recorded:
			return fmt.Sprintf("rule S2: the share of cell %d is %d, recorded is %d", i, c.local, c.recorded)
		case !c.shared && c.isOpen():
			return fmt.Sprintf("rule S6: cell %d decides on both objects", i)
		case c.shared && !c.uncounted && min(c.recorded, c.counted-c.reservedCopy-c.frozen-c.reserved) > max(c.pods-c.localReserved, 0)+c.died:
			return fmt.Sprintf("rule S4: cell %d has %d pods left, recorded are %d", i, c.pods-c.localReserved, c.counted-c.reservedCopy)
		}
	}
	if left+m.deaths+m.lacking < m.floor {
		return fmt.Sprintf("%d pods are left and %d died, floor %d", left, m.deaths, m.floor)
	}
	return ""
}

// explore visits all states that can be reached from a start, and returns the first path to a problem.
func explore(start model, wanted bool, limit int) (path []model, visited int) {
	before, queue := map[model]model{start: start}, []model{start}
	for len(queue) > 0 && len(before) < limit {
		state := queue[0]
		queue = queue[1:]
		if state.problem() != "" {
			for ; state != start; state = before[state] {
				path = append(path, state)
			}
			return append(path, start), len(before)
		}
		for _, next := range state.successors(wanted) {
			if _, known := before[next]; !known {
				before[next] = state
				queue = append(queue, next)
			}
		}
	}
	return nil, len(before)
}

var states = flag.Int("states", 60_000, "limit of the states that TestAllStatesKeepTheFloor visits for each start; there are up to 10 million")

// No order of events breaks the rules, whatever is delayed.
func TestAllStatesKeepTheFloor(t *testing.T) {
	for floor := range int8(4) {
		for _, wanted := range []bool{true, false} {
			exploreFrom(t, fmt.Sprintf("floor=%d/leaving=%v", floor, !wanted), model{floor: floor}, wanted)
		}
	}
	exploreFrom(t, "restored core", model{floor: 2, coreBackup: backup{state: notTaken}}, true)
	exploreFrom(t, "restored cell", model{floor: 2, cellBackup: backup{state: notTaken}}, true)
	for floor := range int8(4) {
		exploreFrom(t, fmt.Sprintf("floor=%d/deleted Cell", floor), model{floor: floor, mayDrain: true}, true)
	}
	for _, wanted := range []bool{true, false} {
		exploreFrom(t, fmt.Sprintf("unknown floor/leaving=%v", !wanted), model{floor: 2, mayForget: true}, wanted)
		for floor := range int8(4) {
			exploreFrom(t, fmt.Sprintf("floor=%d/late watch/leaving=%v", floor, !wanted), model{floor: floor, watch: watch{mayLag: true}}, wanted)
		}
		// A process does not see that the share was closed, and then that it has not opened again.
		entered := model{floor: 2, watch: watch{mayLag: true}}
		entered.cells = [modelCells]modelCell{{exists: true, shared: true, recorded: 1, local: 1}, {}}
		entered.watch = watch{mayLag: true, isBehind: true, shown: entered.cells[0]}
		entered.watch.shown.pods = modelPods
		exploreFrom(t, fmt.Sprintf("late watch of an entered cell/leaving=%v", !wanted), entered, wanted)
		// A restore of the core has undone that the cell entered, and a process does not see its share.
		undone := model{floor: 2, watch: watch{mayLag: true, isBehind: true, missed: true, shown: modelCell{pods: modelPods}}}
		undone.cells = [modelCells]modelCell{{exists: true, local: 1, void: true, uncounted: true}, {}}
		exploreFrom(t, fmt.Sprintf("late watch of a restored core/leaving=%v", !wanted), undone, wanted)
	}
	// The cell has left since its backup, and the other cell relies on its pods.
	left := model{floor: 2, cellBackup: backup{state: taken, local: modelCell{exists: true, local: 1}}}
	left.cells = [modelCells]modelCell{{exists: true, closed: true}, {exists: true, shared: true}}
	exploreFrom(t, "restored cell that had left", left, true)
	// The core was restored too, or its protector was lost, before the restore of the cell is noticed.
	both := model{floor: 2}
	both.cells = [modelCells]modelCell{
		{void: true, uncounted: true, exists: true, awaiting: true, local: 1},
		{void: true, uncounted: true, exists: true, shared: true},
	}
	exploreFrom(t, "restored core, and restored cell that had left", both, true)
	exploreFrom(t, "restored core and cell", model{floor: 2, coreBackup: backup{state: notTaken}, cellBackup: backup{state: notTaken}}, false)
}

func exploreFrom(t *testing.T, name string, start model, wanted bool) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for i := range start.cells {
			if start.cells[i].pods = modelPods; !start.cells[i].uncounted {
				start.cells[i].counted = modelPods
			}
		}
		path, visited := explore(start, wanted, *states)
		t.Logf("%d states, complete %v", visited, visited < *states)
		for i := len(path) - 1; i >= 0; i-- {
			t.Logf("%+v", path[i])
		}
		if len(path) > 0 {
			t.Error(path[0].problem())
		}
	})
}
