package live

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
)

// shareCore is the name that the chart's webhooks give to their own cluster as the core of its shares.
const shareCore = "shares"

// Read reads the Cells of core clusters and their protectors in the given namespaces, and the shares of the cell in its cluster, unless cores include
// them. A cell with shares decides without a core that does not answer, so then only the shares are read. It reads all clusters concurrently, and does
// not wait for a core longer than ctx. notes say what could not be read.
func Read(ctx context.Context, cores []Core, cluster *Cluster, namespaces ...string) (all []explain.Core, notes []string, err error) {
	reads, errs := make([]explain.Core, len(cores)), make([]error, len(cores))
	var running sync.WaitGroup
	for i, core := range cores {
		running.Go(func() { reads[i], errs[i] = core.readWithin(ctx, namespaces) })
	}
	shares, sharesErr := cluster.readShares(ctx, namespaces)
	running.Wait()
	if sharesErr != nil {
		notes = append(notes, "cannot read the shares of the cell in its cluster: "+sharesErr.Error())
	}
	for i, core := range cores {
		read, err := reads[i], errs[i]
		var unanswered *url.Error
		switch {
		case errors.As(err, &unanswered) && len(shares.Protectors) > 0:
			notes = append(notes, fmt.Sprintf("core cluster %q does not answer, so this is only what the shares of the cell decide. "+
				"Webhooks deny removals of pods that other PodProtectors of the core cover (%v)", core.Name, unanswered))
		case err != nil:
			return nil, nil, err
		default:
			all = append(all, read)
		}
	}
	shares.Protectors = slices.DeleteFunc(shares.Protectors, func(share *v1alpha1.PodProtector) bool {
		return slices.ContainsFunc(all, func(core explain.Core) bool {
			return slices.ContainsFunc(core.Protectors, func(p *v1alpha1.PodProtector) bool { return p.UID == share.UID })
		})
	})
	if len(shares.Protectors) > 0 {
		all = append(all, shares)
	}
	return all, notes, nil
}

// readWithin is read, but returns when ctx ends: discovery of the client does not respect ctx.
func (c Core) readWithin(ctx context.Context, namespaces []string) (explain.Core, error) {
	type result struct {
		core explain.Core
		err  error
	}
	done := make(chan result, 1)
	go func() {
		core, err := c.read(ctx, namespaces)
		done <- result{core, err}
	}()
	select {
	case r := <-done:
		return r.core, r.err
	case <-ctx.Done():
		return explain.Core{}, fmt.Errorf("read core cluster %q: %w", c.Name, &url.Error{Op: "Get", URL: c.Host, Err: ctx.Err()})
	}
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
