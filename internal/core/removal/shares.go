package removal

import (
	"fmt"
	"slices"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// WithShares replaces each protector that has given the cell a share by that share, and leaves out shares that do not apply: those of other
// cells, and those of protectors that have not given the cell a share. A share whose protector the webhook does not know applies, because
// the protector may be lost. It returns an error if a share is missing (rule S6).
func WithShares(covering []Charge, cell string) ([]Charge, error) {
	isShareOf := func(c, of Charge) bool {
		share := c.Protector.Spec.ShareOf
		return share != nil && share.Cell == cell && quota.IsShareOf(share, of.Protector)
	}
	var charges []Charge
	for _, c := range covering {
		of := c.Protector.Spec.ShareOf
		switch {
		case of == nil && !quota.HasShare(c.Protector, cell):
			charges = append(charges, c)
		case of == nil:
			if !slices.ContainsFunc(covering, func(share Charge) bool { return isShareOf(share, c) }) {
				return nil, fmt.Errorf("the share of PodProtector %s in cell %q cannot be read in the cluster of the cell", c, cell)
			}
		case of.Cell == cell:
			known := slices.IndexFunc(covering, func(protector Charge) bool { return isShareOf(c, protector) })
			if known < 0 || quota.HasShare(covering[known].Protector, cell) {
				charges = append(charges, c)
			}
		}
	}
	return charges, nil
}
