package workloads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

const (
	// unknownKindRetry is the retry interval for a kind that a cell does not serve.
	unknownKindRetry = 30 * time.Second
	// problemRetry is the retry interval for a target that could not be read.
	problemRetry = 5 * time.Second
)

// workloadName identifies a workload by its kind, in any version, and its name.
type workloadName struct {
	schema.GroupKind
	types.NamespacedName
}

// targetOwner returns the workload that a protector names, without its UID.
func targetOwner(p *v1alpha1.PodProtector) snapshot.Owner {
	ref := p.Spec.TargetRef
	return snapshot.Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}
}

// TargetResult is the target that a protector's targetRef names in this cell; the zero value is that of a protector without
// targetRef.
type TargetResult struct {
	Target *v1alpha1.Target
	// Problem is why the target cannot be determined now. The last known target, if any, stays.
	Problem string
	// Unknown reports that there is no last known target.
	Unknown bool
}

// TargetOf determines the target of a protector.
func (r *Resolver) TargetOf(ctx context.Context, p *v1alpha1.PodProtector, stored *v1alpha1.Aggregation) TargetResult {
	if p.Spec.TargetRef == nil {
		r.index.setTarget(client.ObjectKeyFromObject(p), nil)
		return TargetResult{}
	}
	named := r.workloads.nameOf(targetOwner(p), p.Namespace)
	r.index.setTarget(client.ObjectKeyFromObject(p), &named)
	found, err := r.workloads.resolveTarget(ctx, p.Namespace, targetOwner(p))
	release := r.releaseOf(p)
	known := selectedBy(stored, p) || stored.CountedSpec == quota.CountedSpec(&p.Spec)
	var last *v1alpha1.Target
	if known {
		last = stored.Target
	}
	switch {
	case meta.IsNoMatchError(err): // a CRD may be lost together with all its objects
		r.queue.AddAfter(client.ObjectKeyFromObject(p), unknownKindRetry)
		if release.confirmed {
			return TargetResult{}
		}
		return TargetResult{Target: retained(last)}
	case err != nil:
		r.queue.AddAfter(client.ObjectKeyFromObject(p), problemRetry)
		r.log.Error(err, "Failed to resolve the targetRef of a protector", "protector", client.ObjectKeyFromObject(p), "kind", named.Kind, "name", named.Name)
		return TargetResult{Target: last, Unknown: !known, Problem: clusters.Truncate(fmt.Sprintf("%s %s: %v", named.Kind, named.Name, err), snapshot.MaxProblemBytes)}
	case found == nil && !release.byPolicy && !release.confirmed:
		return TargetResult{Target: retained(last)}
	default:
		return TargetResult{Target: found}
	}
}

// retained returns a target that no longer exists, with its last known values.
func retained(last *v1alpha1.Target) *v1alpha1.Target {
	if last == nil {
		return nil
	}
	kept := *last
	kept.Gone = true
	return &kept
}

// resolveTarget finds a workload by its name; nil if it does not exist.
func (w *workloads) resolveTarget(ctx context.Context, namespace string, o snapshot.Owner) (*v1alpha1.Target, error) {
	object, err := w.object(ctx, namespace, o, false)
	if err != nil || object == nil {
		return nil, err
	}
	o.UID = object.UID
	wanted, err := w.sizeOf(ctx, o, object)
	switch {
	case err != nil:
		return nil, err
	case !wanted.hasScale:
		return nil, errors.New("its kind has no scale subresource, so its pods are unknown: set spec.selector instead of targetRef")
	case wanted.selector == "":
		return nil, errors.New("its scale has no selector, so its pods are unknown: set spec.selector instead of targetRef")
	}
	if _, err := selectors.Parse(wanted.selector); err != nil {
		return nil, fmt.Errorf("the selector of its scale: %w", err)
	}
	return &v1alpha1.Target{UID: object.UID, Selector: wanted.selector, Replicas: wanted.replicas}, nil
}

// replicasOf returns how many pods a target requests; a target that does not exist requests none.
func replicasOf(target *v1alpha1.Target) *int32 {
	replicas := int32(0)
	if target != nil {
		replicas = target.Replicas
	}
	return &replicas
}
