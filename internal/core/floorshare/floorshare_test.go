package floorshare_test

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/core/floorshare"
)

func TestMayRecord(t *testing.T) {
	protector := func(change func(*floorshare.Protector)) *floorshare.Protector {
		p := &floorshare.Protector{Floor: 10, Cells: []floorshare.Cell{
			{Name: "a", Shared: true, Floor: 7, Available: 10}, {Name: "b", Shared: true, Floor: 5, Available: 10},
		}}
		if change != nil {
			change(p)
		}
		return p
	}
	for claim, c := range map[string]struct {
		change func(*floorshare.Protector)
		to     int
		want   bool
	}{
		"a share may fall until all shares are the floor":  {to: 5, want: true},
		"not below that (S3)":                              {to: 4},
		"a share may rise":                                 {to: 20, want: true},
		"not while another cell has too few pods (S4)":     {change: func(p *floorshare.Protector) { p.Cells[1].Available = 3 }, to: 6},
		"but below what its own pods keep anyway":          {change: func(p *floorshare.Protector) { p.Cells[0].Available = 6 }, to: 6, want: true},
		"not because of a void record (S5)":                {change: func(p *floorshare.Protector) { p.Cells[1].Void = true }, to: 5},
		"nor because of one while there are few pods (S5)": {change: func(p *floorshare.Protector) { p.Cells[1].Void, p.Cells[0].Available = true, 5 }, to: 5},
		"a void record may be replaced by what is enough":  {change: func(p *floorshare.Protector) { p.Cells[0].Void = true }, to: 5, want: true},
		"a void record may not be replaced by less":        {change: func(p *floorshare.Protector) { p.Cells[0].Void = true }, to: 4},
		"a cell may not enter before it is counted": {
			change: func(p *floorshare.Protector) {
				p.Cells[0] = floorshare.Cell{Name: "a", Uncounted: true}
				p.Cells[1].Floor = 10
			},
		},
		"not while the floor is unknown": {change: func(p *floorshare.Protector) { p.FloorUnknown = true }, to: 5},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := protector(c.change).MayRecord("a", c.to); got != c.want {
				t.Errorf("MayRecord(%d) = %v, want %v", c.to, got, c.want)
			}
		})
	}
}

func TestKeepsFloor(t *testing.T) {
	type cells = []floorshare.Cell
	shared := func(floor, pods int) floorshare.Cell {
		return floorshare.Cell{Shared: true, Floor: floor, Available: pods}
	}
	for claim, c := range map[string]struct {
		cells cells
		want  bool
	}{
		"all shares are the floor":                              {cells{shared(3, 5), shared(3, 5)}, true},
		"less than the floor (S3)":                              {cells{shared(3, 5), shared(2, 5)}, false},
		"pods of a cell without a share count":                  {cells{shared(3, 5), {Available: 3}}, true},
		"those of a discounted cell do not":                     {cells{shared(3, 5), {Available: 5, Discounted: true}}, false},
		"nor does its share":                                    {cells{shared(3, 5), {Shared: true, Floor: 3, Available: 5, Discounted: true}}, false},
		"too few pods, and another share admits a removal (S4)": {cells{shared(3, 10), shared(3, 1)}, false},
		"too few pods, and no share admits one":                 {cells{shared(5, 5), shared(3, 1)}, true},
		"a share that a restore may have undone (S5)":           {cells{shared(6, 9), {Shared: true, Void: true}}, false},
		"no shares, so that the protector decides":              {cells{{Available: 1}}, true},
		"no cells": {nil, true},
		"the reservations of a discounted cell exceed its pods":   {cells{shared(6, 9), {Available: 1, Reserved: 2, Discounted: true}}, false},
		"a discounted cell with as many pods as its reservations": {cells{shared(6, 9), {Available: 2, Reserved: 2, Discounted: true}}, true},
	} {
		t.Run(claim, func(t *testing.T) {
			p := &floorshare.Protector{Floor: 6, Cells: c.cells}
			for i := range p.Cells {
				p.Cells[i].Name = string(rune('a' + i))
			}
			if got := p.KeepsFloor(); got != c.want {
				t.Errorf("KeepsFloor() = %v, want %v", got, c.want)
			}
			if p.FloorUnknown = true; len(c.cells) > 0 && c.cells[0].Shared && p.KeepsFloor() {
				t.Error("KeepsFloor() while the floor is unknown, want false")
			}
		})
	}
}
