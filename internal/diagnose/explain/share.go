package explain

import (
	"fmt"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/floorshare"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Share describes the protector that a share belongs to.
type Share struct {
	// Of is the name of the protector. Known reports whether a core has it.
	Of    string `json:"of"`
	Known bool   `json:"known"`
	// Floor is the floor of the protector. Elsewhere is how many further removals the cell could admit with the budget of other cells, which
	// moves while the core is reachable.
	Floor     int `json:"floor,omitempty"`
	Elsewhere int `json:"elsewhere"`
}

// explainShare describes the protector of a share, as the core records it.
func (s Situation) explainShare(of *v1alpha1.ShareOf) *Share {
	share := &Share{Of: of.Name}
	at := slices.IndexFunc(s.ShareOwners, func(p *v1alpha1.PodProtector) bool { return quota.IsShareOf(of, p) })
	if at < 0 {
		return share
	}
	recorded := quota.SharesOf(s.ShareOwners[at], 0)
	share.Known, share.Floor, share.Elsewhere = true, recorded.Floor, movableTo(recorded, s.Cell)
	return share
}

// movableTo returns how many further removals a cell could admit if all other cells kept as many pods as they can.
func movableTo(p *floorshare.Protector, cell string) int {
	if p.FloorUnknown {
		return 0
	}
	own, others := floorshare.Cell{}, 0
	for _, c := range p.Cells {
		if c.Name == cell {
			own = c
		} else if !c.Void {
			others += max(c.Available-c.Reserved, 0)
		}
	}
	lowest := max(p.Floor-others, 0)
	return max(own.Available-own.Reserved-lowest-own.Slack(), 0)
}

// remedy describes how the share gets budget from other cells, or why it cannot. name is that of the share.
func (s *Share) remedy(name string) string {
	switch {
	case s.Elsewhere > 0:
		return fmt.Sprintf("%s: the budget of other cells, which have enough for %s: it moves within seconds while the core is reachable", name, formatRemovals(s.Elsewhere))
	case s.Known:
		return fmt.Sprintf("%s: more available pods in other cells, which have no budget, or a lower floor of PodProtector %s (now %d)", name, s.Of, s.Floor)
	default:
		return fmt.Sprintf("%s: PodProtector %s in its core, from which the share gets budget", name, s.Of)
	}
}
