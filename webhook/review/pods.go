package review

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

// podReader reads pods from their cells: for evictions, whose reviews do not contain the pod, and for break-glass removals, whose reviews are not
// trusted.
type podReader struct {
	cells  *Cells
	cores  *reserve.Cores
	tracer *tracing.Tracer
}

// ofEviction reads the pod of an eviction, or returns the denial: the pod does not exist, cannot be read, or is not the one that the client means.
func (p *podReader) ofEviction(ctx context.Context, cell string, r removal.Request) (*removal.Pod, *removal.Denial) {
	pod, err := p.read(ctx, cell, r)
	switch {
	case err != nil:
		return nil, denyUnread(err)
	case pod == nil:
		denial := &removal.Denial{Cause: removal.CauseNoPod}
		// A dry run, such as that of kubectl breakwater doctor, learns which core is known to make the webhook deny removals of pods that exist.
		if err := p.cores.KnownErr(); err != nil && r.DryRun {
			denial.Detail = err.Error()
		}
		return nil, denial
	}
	if why := r.FailedPrecondition(pod); why != "" {
		return removal.NewPod(pod), &removal.Denial{Cause: removal.CausePrecondition, Detail: why}
	}
	return removal.NewPod(pod), nil
}

// confirmBreakGlass reads the pod of a request that claims to be break-glass, and returns the request with the annotation of that
// pod (rule 15). exists is false if the pod does not exist. If the pod cannot be read, the request is not break-glass and
// unread is the denial for the case that it is denied. The pod of an eviction was read from its cell already.
func (p *podReader) confirmBreakGlass(ctx context.Context, cell string, r removal.Request) (_ removal.Request, exists bool, unread *removal.Denial) {
	if r.Operation == v1alpha1.OperationEvict || !r.IsBreakGlass() {
		return r, true, nil
	}
	pod, err := p.read(ctx, cell, r)
	switch {
	case err != nil:
		return r.WithBreakGlassOf(nil), true, denyUnread(err)
	case pod == nil:
		return r, false, nil
	}
	return r.WithBreakGlassOf(pod), true, nil
}

func denyUnread(err error) *removal.Denial {
	return &removal.Denial{Cause: removal.CauseUnreadPod, Detail: reserve.ClientReason(err)}
}

// read reads a pod from its cell. It returns nil if the pod does not exist.
func (p *podReader) read(ctx context.Context, cell string, r removal.Request) (*corev1.Pod, error) {
	client, err := p.cells.client(cell)
	if err != nil {
		return nil, err
	}
	ctx, span := p.tracer.Call(ctx, tracing.SpanReadPod)
	defer span.End()
	var pod *corev1.Pod
	err = p.ask(ctx, cell, func(ctx context.Context) (err error) {
		pod, err = client.CoreV1().Pods(r.Namespace).Get(ctx, r.PodName, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	tracing.RecordError(span, err)
	return pod, err
}

// ask makes a request to the cluster of a cell. If its API server is that of a core, too, as in a single cluster, the request fails at once while
// that core is known not to answer.
func (p *podReader) ask(ctx context.Context, cell string, request func(context.Context) error) error {
	if config, err := p.cells.Config(cell); err == nil {
		for _, core := range p.cores.All {
			if core.Host == config.Host {
				return core.Ask(ctx, request)
			}
		}
	}
	return request(ctx)
}
