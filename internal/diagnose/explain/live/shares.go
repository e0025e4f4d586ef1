package live

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
)

// shareCore is the name that the chart's webhooks give to their own cluster as the core of its shares.
const shareCore = "shares"

// ReadWithShares reads like Read, and the shares of the cell in its cluster, unless cores include them. If they cannot be read, it returns a
// note.
func ReadWithShares(ctx context.Context, cores []Core, cluster *Cluster, namespaces ...string) (all []explain.Core, note string, err error) {
	all, err = Read(ctx, cores, namespaces...)
	if err != nil {
		return nil, "", err
	}
	shares, err := cluster.readShares(ctx, namespaces)
	if err != nil {
		return all, "cannot read the shares of the cell in its cluster: " + err.Error(), nil
	}
	shares.Protectors = slices.DeleteFunc(shares.Protectors, func(share *v1alpha1.PodProtector) bool {
		return slices.ContainsFunc(all, func(core explain.Core) bool {
			return slices.ContainsFunc(core.Protectors, func(p *v1alpha1.PodProtector) bool { return p.UID == share.UID })
		})
	})
	if len(shares.Protectors) > 0 {
		all = append(all, shares)
	}
	return all, "", nil
}

// readShares reads the shares of the cell. A cluster that does not serve PodProtectors has none.
func (c *Cluster) readShares(ctx context.Context, namespaces []string) (explain.Core, error) {
	core := explain.Core{Name: shareCore, Cells: map[string]*v1alpha1.Cell{}}
	for _, namespace := range namespaces {
		all := &v1alpha1.PodProtectorList{}
		err := c.shares.List(ctx, all, client.InNamespace(namespace))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return core, nil
		}
		if err != nil {
			return core, err
		}
		for i := range all.Items {
			if of := all.Items[i].Spec.ShareOf; of != nil && of.Cell == c.Cell {
				core.Protectors = append(core.Protectors, &all.Items[i])
			}
		}
	}
	if len(core.Protectors) == 0 {
		return core, nil
	}
	cell := &v1alpha1.Cell{}
	if err := c.shares.Get(ctx, client.ObjectKey{Name: c.Cell}, cell); err == nil { // it only adds when its aggregator reported
		core.Cells[c.Cell] = cell
	}
	return core, nil
}
