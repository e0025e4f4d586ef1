package webhook

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// Protection answers reviews. It keeps no state of its own: what it knows is in the core clusters.
type Protection struct {
	cores []*core
	// cells reach the worker clusters, to look at the pod of an eviction.
	cells   *cells
	metrics *metrics
	log     logr.Logger
	refused *refusals
	nudger  *nudger
	// nodes tell in which domains pods are.
	nodes *nodeLabels
	// insistent holds back what the scheduler is told again and again.
	insistent insistence
	now       func() time.Time
	// background is what is still given back.
	background sync.WaitGroup
}

// Review answers one review of a cell, before ctx ends.
func (p *Protection) Review(ctx context.Context, cell string, review *admissionv1.AdmissionRequest) Answer {
	if !p.cells.known(cell) {
		return refuseUnknownCell(cell)
	}
	request, guarded, err := Parse(review)
	switch {
	case err != nil:
		return refuseMalformed(err)
	case !guarded:
		return allow(VerdictUnguarded)
	}
	if request.Pod == nil {
		if request.Pod, err = p.podOf(ctx, cell, request); err != nil {
			return refuseUnreadablePod(cell, request, err)
		}
		if request.Pod == nil {
			return refuseNoPod(cell, request)
		}
	}
	// Before anything that could fail: a pod that is going must go, or nodes never finish their work.
	if facts := podhealth.FactsOf(request.Pod); facts.Gone() || request.Pod.Spec.NodeName == "" {
		return allow(VerdictNotAvailable)
	}
	return p.protect(ctx, cell, request)
}

// podOf reads the pod of an eviction from its cell; nil if there is none.
func (p *Protection) podOf(ctx context.Context, cell string, r Request) (*corev1.Pod, error) {
	client, err := p.cells.client(cell)
	if err != nil {
		return nil, err
	}
	pod, err := client.CoreV1().Pods(r.Namespace).Get(ctx, r.PodName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return pod, err
}

// charge is one protector that a removal costs budget.
type charge struct {
	core      *core
	key       types.NamespacedName
	protector *v1alpha1.PodProtector
	// vanished tells that the protector is not there although nobody has released it.
	vanished bool
	// domain is that of the pod, where the protector minds the loss of others; unlocated is why it is not known.
	domain    quota.Domain
	unlocated error
}

// ask is what is asked of the protector.
func (c charge) ask(removal quota.Removal) quota.Removal {
	removal.Domain = c.domain
	return removal
}

func (c charge) ref() protectorRef { return protectorRef{c.core, c.key} }

func (c charge) String() string { return c.ref().String() }

// protectorRef is which protector of which core.
type protectorRef struct {
	core *core
	key  types.NamespacedName
}

func (r protectorRef) String() string { return r.core.name + "/" + r.key.String() }

// protect asks the protectors of a pod that is scheduled and alive. When somebody has broken the glass for it, it may go
// whatever they say.
func (p *Protection) protect(ctx context.Context, cell string, r Request) Answer {
	answer := p.guard(ctx, cell, r)
	if r.forced() {
		answer = p.breakGlass(cell, r, answer)
	}
	if !answer.Allowed {
		p.refused.note(answer)
		p.nudger.note(cell, r, answer)
		p.insistent.hold(ctx, r, time.Now())
	}
	return answer
}

// guard reserves the removal of a pod with all its protectors, or says why not.
func (p *Protection) guard(ctx context.Context, cell string, r Request) Answer {
	charges, covered, err := p.charges(ctx, cell, r)
	switch {
	case err != nil:
		return refuseUnknown(r, err)
	case !covered && !p.belongs(cell, r):
		return allow(VerdictOtherCell)
	case !covered:
		return allow(VerdictUnprotected)
	case len(charges) == 0:
		return allow(VerdictNotAvailable)
	}
	removal := quota.Removal{
		Cell: cell, PodUID: r.Pod.UID, PodName: r.PodName, Operation: r.Operation,
		At: p.now(), Token: newToken(), Force: r.forced(), Generation: r.Generation, Containers: r.Containers,
	}
	if len(charges) > 1 {
		removal.RevocableUntil = removal.At.Add(giveBackTime)
	}
	if i := slices.IndexFunc(charges, func(c charge) bool { return c.vanished }); i >= 0 && (!r.forced() || r.DryRun) {
		return refuse(charges, charges[i], charges[i].vanishedVerdict(), r)
	}
	p.locate(ctx, cell, r, charges)
	if refusal := preview(charges, removal, r); refusal != nil {
		return *refusal
	}
	if r.DryRun {
		return admit(VerdictDryRun, charges)
	}
	return p.reserveAll(ctx, charges, removal, r)
}

// newToken draws what no other attempt has: two of a million for one pod share it with a probability of 3e-8.
func newToken() string { return strconv.FormatUint(rand.Uint64(), 36) } //nolint:gosec // it must differ, not be secret

// charges returns the protectors that would lose an available pod, in the order in which they are asked. covered
// tells whether any protector covers the pod at all.
func (p *Protection) charges(ctx context.Context, cell string, r Request) (charges []charge, covered bool, err error) {
	facts := podhealth.FactsOf(r.Pod)
	for _, core := range p.cores {
		if !core.read.Load() {
			return nil, false, fmt.Errorf("the PodProtectors of core cluster %q have not been read yet", core.name)
		}
		if !core.has(cell, r) {
			continue // another cell of the same cluster is asked as well
		}
		for _, key := range core.coverages.covering(cell, r.Namespace, r.Pod.Labels) {
			protector, vanished, err := core.newest(ctx, key)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, false, fmt.Errorf("PodProtector %s of core cluster %q: %w", key, core.name, err)
			}
			if floor, known := quota.Floor(protector); vanished && known && floor == 0 {
				continue // it would refuse nothing
			}
			if !guards(&protector.Spec, r.Operation) {
				continue
			}
			covered = true
			health := facts.At(protector.Spec.MinReadySeconds, p.noEarlierThan(protector, cell))
			if health.Charged(protector.Spec.Criterion) || r.Criterion != "" && health.Meets(r.Criterion) {
				charges = append(charges, charge{core: core, key: key, protector: protector, vanished: vanished})
			}
		}
	}
	slices.SortFunc(charges, func(a, b charge) int { return cmp.Compare(a.String(), b.String()) })
	return charges, covered, nil
}

// belongs tells whether a pod belongs to a cell in any core cluster.
func (p *Protection) belongs(cell string, r Request) bool {
	return slices.ContainsFunc(p.cores, func(c *core) bool { return c.has(cell, r) })
}

// guards tells whether an operation costs a protector budget. One that is older than the field guards removals.
func guards(spec *v1alpha1.PodProtectorSpec, operation v1alpha1.Operation) bool {
	if len(spec.Operations) == 0 {
		return operation == v1alpha1.OperationDelete || operation == v1alpha1.OperationEvict
	}
	return slices.Contains(spec.Operations, operation)
}

// noEarlierThan is the time at which a pod's age is judged: now, but not before the aggregator counted. A pod
// that its clock took for available must not pass uncharged because ours is behind.
func (p *Protection) noEarlierThan(protector *v1alpha1.PodProtector, cellID string) time.Time {
	now := p.now()
	if cell := quota.CellOf(protector, cellID); cell != nil && cell.Aggregation.LastEventTime.After(now) {
		return cell.Aggregation.LastEventTime.Time
	}
	return now
}
