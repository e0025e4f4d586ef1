package floorshare_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/internal/core/floorshare"
)

// settled performs the steps of all cells in turn until none is left, as if each process saw every write at once.
func settled(t *rapid.T, p *floorshare.Protector, locals []floorshare.Local) (*floorshare.Protector, int) {
	steps := 0
	for {
		done := true
		for i := range locals {
			name := fmt.Sprint(i)
			step := floorshare.Next(p, name, locals[i], true)
			if step.Kind == floorshare.Nothing {
				continue
			}
			if done, steps = false, steps+1; steps > 1000 {
				t.Fatalf("Next() does not come to rest: %+v, %+v, next %+v", p, locals, step)
			}
			if step.Kind != floorshare.Create && step.Kind != floorshare.Confirm && !p.MayRecord(name, step.Floor) {
				t.Fatalf("Next() = %+v, which MayRecord() does not allow: %+v", step, p)
			}
			perform(&p.Cells[i], &locals[i], step)
		}
		if done {
			return p, steps
		}
	}
}

// perform makes both writes of a step.
func perform(c *floorshare.Cell, l *floorshare.Local, step floorshare.Step) {
	switch step.Kind {
	case floorshare.Create:
		l.Exists, l.Closed = true, true
	case floorshare.Enter:
		l.Closed, l.Floor, l.Available, l.Reserved = false, step.Floor, c.Available, c.Reserved
		c.Shared, c.Floor, c.Void = true, step.Floor, false
	case floorshare.Raise, floorshare.Lower, floorshare.Confirm:
		c.Floor, l.Floor, c.Void = step.Floor, step.Floor, false
	case floorshare.Leave, floorshare.Delete, floorshare.Nothing:
	}
	if c.Shared && c.Wanted > 0 && c.Available-c.Reserved-c.Floor > 0 {
		c.Wanted = 0 // its removal is admitted when it is tried again
	}
}

// All cells get a share, and the shares come to rest: they add up to the floor, dead pods are made up for as far as possible, and a cell
// that wants budget has some if any cell has.
func TestSharesComeToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &floorshare.Protector{Floor: rapid.IntRange(0, 40).Draw(t, "floor")}
		locals := make([]floorshare.Local, rapid.IntRange(1, 5).Draw(t, "cells"))
		for i := range locals {
			p.Cells = append(p.Cells, floorshare.Cell{Name: fmt.Sprint(i), Available: rapid.IntRange(0, 20).Draw(t, "available")})
		}
		if p, _ = settled(t, p, locals); !allShared(p) {
			t.Fatalf("cells without a share: %+v", p)
		}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			at := rapid.IntRange(0, len(locals)-1).Draw(t, "cell")
			c, l := &p.Cells[at], &locals[at]
			switch rapid.SampledFrom([]string{"die", "grow", "want", "floor", "restore", "return"}).Draw(t, "event") {
			case "die":
				c.Available = rapid.IntRange(0, c.Available).Draw(t, "left")
			case "grow":
				c.Available += rapid.IntRange(0, 10).Draw(t, "more")
			case "want":
				if c.Available-c.Reserved <= c.Floor {
					c.Wanted = rapid.IntRange(1, 5).Draw(t, "wanted")
				}
			case "floor":
				p.Floor = rapid.IntRange(0, 40).Draw(t, "floor")
			case "restore": // of the core, to a time when the shares were others
				for i := range p.Cells {
					p.Cells[i].Void, p.Cells[i].Floor = true, rapid.IntRange(0, 20).Draw(t, "restored")
				}
			case "return": // its Cell was deleted, and created again
				*c, *l = floorshare.Cell{Name: c.Name, Available: c.Available}, floorshare.Local{}
			}
			l.Available, l.Reserved = c.Available, c.Reserved
			if p, _ = settled(t, p, locals); !allShared(p) {
				t.Fatalf("cells without a share: %+v", p)
			}
			checkRest(t, p, locals)
		}
	})
}

// A cell that gives budget away keeps a quarter of its part for an outage of the core, unless its part is smaller than four removals.
func TestGivingCellKeepsBudgetForAnOutage(t *testing.T) {
	for _, c := range []struct{ pods, floor, want int }{{100, 180, 2}, {100, 192, 1}, {100, 194, 0}, {5, 9, 0}} {
		p := &floorshare.Protector{Floor: c.floor, Cells: []floorshare.Cell{
			{Name: "a", Shared: true, Floor: c.floor - c.floor/2, Available: c.pods}, {Name: "b", Shared: true, Floor: c.floor / 2, Available: c.pods},
		}}
		p.Cells[0].Reserved, p.Cells[0].Wanted = p.Cells[0].Slack(), c.pods // all that it may remove is being removed
		before := p.Cells[1].Slack()
		step := floorshare.Next(p, "b", floorshare.Local{Exists: true, Floor: p.Cells[1].Floor, Available: c.pods}, true)
		if left := before - (step.Floor - p.Cells[1].Floor); step.Kind != floorshare.Raise || left != c.want {
			t.Errorf("floor %d of %d pods: Next() = %+v, which leaves %d of a budget of %d, want %d", c.floor, 2*c.pods, step, left, before, c.want)
		}
	}
}

// A cell without budget gets some although the shares are nearly balanced: the difference of one pod is its whole budget.
func TestBalanceLeavesNoCellWithoutBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { // once would do: settled reports to rapid
		p := &floorshare.Protector{Floor: 4, Cells: []floorshare.Cell{
			{Name: "0", Shared: true, Floor: 2, Available: 2}, {Name: "1", Shared: true, Floor: 2, Available: 10},
		}}
		locals := []floorshare.Local{{Exists: true, Floor: 2, Available: 2}, {Exists: true, Floor: 2, Available: 10}}
		if p, _ = settled(t, p, locals); p.Cells[0].Slack() == 0 {
			t.Errorf("a cell with two pods has no budget beside one with %d: %+v", p.Cells[1].Slack(), p.Cells)
		}
	})
}

func allShared(p *floorshare.Protector) bool {
	for _, c := range p.Cells {
		if !c.Shared {
			return false
		}
	}
	return true
}

func anyWants(p *floorshare.Protector) bool {
	for _, c := range p.Cells {
		if c.Wanted > 0 {
			return true
		}
	}
	return false
}

func checkRest(t *rapid.T, p *floorshare.Protector, locals []floorshare.Local) {
	shares, left, kept := 0, 0, 0
	for i, c := range p.Cells {
		if c.Void || locals[i].Floor != c.Floor {
			t.Fatalf("cell %d has share %d, recorded %+v", i, locals[i].Floor, c)
		}
		shares, left, kept = shares+c.Floor, left+c.Available-c.Reserved, kept+c.Kept()
	}
	if shares < p.Floor {
		t.Fatalf("all shares are %d, want at least the floor %d: %+v", shares, p.Floor, p.Cells)
	}
	if want := min(p.Floor, left); kept != want {
		t.Fatalf("%d pods are kept, want %d: %+v", kept, want, p.Cells)
	}
	slack := 0
	for _, c := range p.Cells {
		slack += c.Slack()
	}
	for i, c := range p.Cells {
		if fair := slack * c.Available / max(left, 1); fair > len(p.Cells)*(1+(slack+7)/8) && c.Slack() == 0 && c.Wanted == 0 && !anyWants(p) {
			t.Fatalf("cell %d has no budget, its part of %d would be %d: %+v", i, slack, fair, p.Cells)
		}
		if c.Wanted > 0 && left > p.Floor && c.Available > c.Reserved && c.Available-c.Reserved <= c.Floor {
			t.Fatalf("cell %d wants budget and has none, %d pods are left, floor %d: %+v", i, left, p.Floor, p.Cells)
		}
	}
}

// A step that has stopped after it raised the share in the cell does not keep the cell from making up for others (rule S4).
func TestNextAfterAnInterruptedRaise(t *testing.T) {
	p := &floorshare.Protector{Floor: 13, Cells: []floorshare.Cell{
		{Name: "a", Shared: true, Floor: 4, Available: 5}, {Name: "b", Shared: true, Floor: 5, Available: 3}, {Name: "c", Shared: true, Floor: 6, Available: 5},
	}}
	got := floorshare.Next(p, "a", floorshare.Local{Exists: true, Floor: 7, Available: 5}, true)
	if want := (floorshare.Step{Kind: floorshare.Raise, Floor: 5}); got != want {
		t.Errorf("Next() = %+v, want %+v", got, want)
	}
}

// A cell also enters while another has fewer pods than its share: the sum of the shares then hides how many pods must be kept (rule S4).
func TestNextEntersBesideTooFewPods(t *testing.T) {
	p := &floorshare.Protector{Floor: 7, Cells: []floorshare.Cell{
		{Name: "a", Available: 5}, {Name: "b", Shared: true, Floor: 2, Available: 1}, {Name: "c", Shared: true, Floor: 1, Available: 9},
	}}
	got := floorshare.Next(p, "a", floorshare.Local{Exists: true, Closed: true}, true)
	if want := (floorshare.Step{Kind: floorshare.Enter, Floor: 5}); got != want {
		t.Errorf("Next() = %+v, want %+v", got, want)
	}
}

// After a restore of the core, an open share is recorded as it is, a closed one as the floor needs it, and nothing else moves (rule S5).
func TestNextAfterRestore(t *testing.T) {
	recorded := floorshare.Cell{Name: "a", Shared: true, Floor: 3, Available: 9}
	open, closed := floorshare.Local{Exists: true, Floor: 4, Available: 9}, floorshare.Local{Exists: true, Closed: true, Floor: 4}
	undone, unmerged := open, closed
	undone.Undone, unmerged.Unmerged = true, true
	void := func(c floorshare.Cell) floorshare.Cell { c.Void = true; return c }
	holding := func(pods int) floorshare.Cell { return floorshare.Cell{Shared: true, Floor: 9, Available: pods} }
	for claim, c := range map[string]struct {
		own, other floorshare.Cell
		local      floorshare.Local
		want       floorshare.Step
	}{
		"an open share is confirmed":               {void(recorded), recorded, open, floorshare.Step{Kind: floorshare.Confirm, Floor: 4}},
		"also if the restore has undone its entry": {void(floorshare.Cell{Name: "a"}), recorded, open, floorshare.Step{Kind: floorshare.Confirm, Floor: 4}},
		"also if it was counted since":             {floorshare.Cell{Name: "a", Available: 9}, recorded, undone, floorshare.Step{Kind: floorshare.Confirm, Floor: 4}},
		"an open share that the core never undid":  {floorshare.Cell{Name: "a", Available: 9}, recorded, open, floorshare.Step{Kind: floorshare.Leave}},
		"a closed share is what the floor needs":   {void(recorded), recorded, closed, floorshare.Step{Kind: floorshare.Confirm, Floor: 7}},
		"no void record helps it":                  {void(recorded), void(recorded), closed, floorshare.Step{Kind: floorshare.Confirm, Floor: 10}},
		"it may be more than the floor needs":      {void(recorded), holding(9), closed, floorshare.Step{Kind: floorshare.Confirm, Floor: 3}},
		"it makes up for pods that another lacks":  {void(recorded), holding(4), closed, floorshare.Step{Kind: floorshare.Confirm, Floor: 6}},
		"a closed share that is recorded opens":    {recorded, void(recorded), closed, floorshare.Step{Kind: floorshare.Enter, Floor: 3}},
		"a closed share first gives up removals":   {floorshare.Cell{Name: "a", Available: 9}, recorded, unmerged, floorshare.Step{Kind: floorshare.Leave}},
		"other shares wait":                        {recorded, void(recorded), open, floorshare.Step{}},
	} {
		t.Run(claim, func(t *testing.T) {
			c.other.Name = "b"
			p := &floorshare.Protector{Floor: 10, Cells: []floorshare.Cell{c.own, c.other}}
			if got := floorshare.Next(p, "a", c.local, true); got != c.want {
				t.Errorf("Next() = %+v, want %+v", got, c.want)
			}
		})
	}
}

// The shares of the other cells rise until they keep the floor without a discounted cell, whose entry may then be dropped (rule S3).
func TestSharesRiseToReplaceADiscountedCell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &floorshare.Protector{Floor: rapid.IntRange(0, 40).Draw(t, "floor")}
		locals := make([]floorshare.Local, rapid.IntRange(2, 5).Draw(t, "cells"))
		for i := range locals {
			p.Cells = append(p.Cells, floorshare.Cell{Name: fmt.Sprint(i), Available: rapid.IntRange(0, 20).Draw(t, "available")})
		}
		p, _ = settled(t, p, locals)
		for range rapid.IntRange(1, len(locals)-1).Draw(t, "discounted") {
			p.Cells[rapid.IntRange(0, len(locals)-1).Draw(t, "cell")].Discounted = true
		}
		for i := range locals {
			locals[i].Available = p.Cells[i].Available
		}
		p, _ = settled(t, p, locals)
		others := &floorshare.Protector{Floor: p.Floor}
		for _, c := range p.Cells {
			if !c.Discounted {
				others.Cells = append(others.Cells, c)
			}
		}
		if len(others.Cells) > 0 && !others.KeepsFloor() {
			t.Fatalf("without the discounted cells, the shares do not keep the floor: %+v", p)
		}
		for _, c := range p.Cells { // it may be counted again
			if c.Discounted && (!c.Shared || c.Void) {
				t.Fatalf("a discounted cell lost its share: %+v", p)
			}
		}
	})
}

// A cell that promises more pods than it has keeps no more by that, but would want budget for ever. It gives up the promise although nothing is left
// to give away, unless all cells together have too few pods (rule S4).
func TestCellPromisesNoMoreThanItHas(t *testing.T) {
	cells := []floorshare.Cell{
		{Name: "a", Shared: true, Floor: 7, Available: 3, Wanted: 1}, {Name: "b", Shared: true, Floor: 3, Available: 3}, {Name: "c", Shared: true, Floor: 1, Available: 2},
	}
	for floor, isEnough := range map[int]bool{6: true, 7: true, 8: false, 11: false} {
		p := &floorshare.Protector{Floor: floor, Cells: cells}
		got := floorshare.Next(p, "a", floorshare.Local{Exists: true, Floor: 7, Available: 3}, true)
		if want := (floorshare.Step{Kind: floorshare.Lower, Floor: 3}); isEnough && got != want || !isEnough && got.Kind == floorshare.Lower {
			t.Errorf("with floor %d Next() = %+v, want %+v: %v", floor, got, want, isEnough)
		}
	}
}
