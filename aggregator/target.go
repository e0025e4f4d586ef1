package aggregator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

const (
	// unknownKindPause is the retry interval for a kind that a cell does not serve.
	unknownKindPause = 30 * time.Second
	// problemPause is the retry interval for a target that could not be read.
	problemPause = 5 * time.Second
)

// workloadName identifies a workload by its kind, in any version, and its name.
type workloadName struct {
	schema.GroupKind
	types.NamespacedName
}

func nameOf(p *v1alpha1.PodProtector) workloadName {
	ref := p.Spec.TargetRef
	return workloadName{
		owner{apiVersion: ref.APIVersion, kind: ref.Kind}.groupKind(), types.NamespacedName{Namespace: p.Namespace, Name: ref.Name},
	}
}

// aim is the target that a protector's targetRef names in this cell; the zero value is that of a protector without
// targetRef.
type aim struct {
	target *v1alpha1.Target
	// problem is why the target cannot be determined now. The last known target, if any, stays.
	problem string
	// unknown reports that there is no last known target.
	unknown bool
}

// aimOf determines the target of a protector.
func (t *term) aimOf(ctx context.Context, p *v1alpha1.PodProtector, stored *v1alpha1.Aggregation) aim {
	if p.Spec.TargetRef == nil {
		t.followed.follow(keyOf(p), nil)
		return aim{}
	}
	named := nameOf(p)
	t.followed.follow(keyOf(p), &named)
	found, err := t.workloads.named(ctx, named.Namespace, p.Spec.TargetRef)
	release := t.releaseOf(p)
	known := stored.SelectedSpec == quota.SelectedSpec(&p.Spec) || stored.CountedSpec == quota.CountedSpec(&p.Spec)
	var last *v1alpha1.Target
	if known {
		last = stored.Target
	}
	switch {
	case meta.IsNoMatchError(err): // a CRD may be lost together with all its objects
		t.queue.AddAfter(keyOf(p), unknownKindPause)
		if release.confirmed {
			return aim{}
		}
		return aim{target: retain(last)}
	case err != nil:
		t.queue.AddAfter(keyOf(p), problemPause)
		t.log.Error(err, "It cannot be found out what a protector names", "protector", keyOf(p), "kind", named.Kind, "name", named.Name)
		return aim{target: last, unknown: !known, problem: clusters.Shorten(fmt.Sprintf("%s %s: %v", named.Kind, named.Name, err), longestProblem)}
	case found == nil && !release.byPolicy && !release.confirmed:
		return aim{target: retain(last)}
	default:
		return aim{target: found}
	}
}

// retain returns a target that no longer exists, with its last known values.
func retain(last *v1alpha1.Target) *v1alpha1.Target {
	if last == nil {
		return nil
	}
	kept := *last
	kept.Gone = true
	return &kept
}

// named finds a workload by its name; nil if it does not exist.
func (w *workloads) named(ctx context.Context, namespace string, ref *v1alpha1.TargetRef) (*v1alpha1.Target, error) {
	o := owner{apiVersion: ref.APIVersion, kind: ref.Kind, name: ref.Name}
	object, err := w.object(ctx, namespace, o, false)
	if err != nil || object == nil {
		return nil, err
	}
	o.uid = object.UID
	wanted, err := w.size(ctx, o, object)
	switch {
	case err != nil:
		return nil, err
	case wanted.selector == "":
		return nil, errors.New("its scale tells no selector, so that its pods are not known: give spec.selector in the place of targetRef")
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

// giveUpCounting writes why nothing is counted. It keeps reservations and the record of who has counted up to which version.
func (t *term) giveUpCounting(p *v1alpha1.PodProtector, unknown aim) {
	t.snapshot.Uncover(keyOf(p))
	cell := t.entry(p)
	stored := cell.Aggregation
	cell.Aggregation = v1alpha1.Aggregation{
		TargetProblem: unknown.problem, LastEventTime: metav1.NewMicroTime(t.clock.now()),
		SnapshotVersion: stored.SnapshotVersion, SettledVersion: stored.SettledVersion,
		TermVersion: formatVersion(t.version), Epoch: cmp.Or(stored.Epoch, t.epochOf(p.Namespace)), Holder: cmp.Or(stored.Holder, t.holder()),
	}
}
