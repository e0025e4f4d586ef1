package removal

import (
	"fmt"
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
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

// DecidingFor returns the charge with the object that decides for a cell (rule S6): the protector that of identifies, or its open share in the
// cell. candidates has all objects of the protector's namespace. ok is false if there is neither a protector nor a share. It returns an error
// if the share of the cell is missing or closed.
func DecidingFor(candidates []Charge, of *v1alpha1.ShareOf, cell string) (deciding Charge, ok bool, err error) {
	var family []Charge
	for _, c := range candidates {
		if c.Protector.Spec.ShareOf == nil && quota.IsShareOf(of, c.Protector) {
			family = append(family, c)
		}
	}
	protectors := family
	for _, c := range candidates {
		share := c.Protector.Spec.ShareOf
		if share == nil || share.Name != of.Name {
			continue
		}
		if share.UID == of.UID || slices.ContainsFunc(protectors, func(p Charge) bool { return quota.IsShareOf(share, p.Protector) }) {
			family = append(family, c)
		}
	}
	charges, err := WithShares(family, cell)
	if err != nil || len(charges) == 0 {
		return Charge{}, false, err
	}
	for _, c := range charges {
		if share := c.Protector.Spec.ShareOf; share == nil || !share.Closed {
			return c, true, nil
		}
	}
	return Charge{}, false, fmt.Errorf("the share %s is closed", charges[0])
}
