package webhook

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/wake"
)

// Protection answers reviews. It keeps no durable state of its own: that state is in the core clusters. A removal takes
// this path through its parts:
//
//	podReviewer      parses the review, reads the pod if necessary, and confirms break-glass
//	decider          finds the protectors of the pod, and looks at all budgets
//	chargeReserver   reserves with each protector in turn; returner gives back reservations of a removal that another protector denies
//	reserver         of the protector's core: joins a batch, of this replica or of another one
//	batchWriter      decides and stores the reservations of the batch, in one compare-and-swap
//	removalRecorder  records a removal without a grace period in its cell, for node guards
//	breakGlass       admits a removal that was refused, if its pod allows that
//	refusalReporter  counts and reports refusals, and wakes the refused controllers later
type Protection struct {
	cores coreSet
	// cells reach the worker clusters, to read the pod of an eviction.
	cells   *cells
	metrics *metrics
	// tracer creates spans; nil creates none.
	tracer   *tracing.Tracer
	log      logr.Logger
	pods     *podReviewer
	refusals *refusalReporter
	// returner gives reservations back in the background.
	returner *returner
}

// newProtection connects the parts of a Protection. It needs all cores. now is the wall clock, by which removals are decided;
// the parts that only measure intervals use the clock of the machine.
func newProtection(
	cores coreSet, cells *cells, retrier *wake.Retrier, metrics *metrics, tracer *tracing.Tracer, log logr.Logger, now func() time.Time,
) *Protection {
	events := newRefusalEvents(time.Now)
	reader := &podReader{cells: cells, cores: cores, tracer: tracer}
	back := &returner{metrics: metrics, log: log}
	for _, core := range cores {
		core.routePending = cores.routePendingCharges
	}
	refusals := &refusalReporter{cores: cores, counter: metrics.refusals, events: events, retrier: retrier, now: time.Now}
	return &Protection{
		cores: cores, cells: cells, metrics: metrics, tracer: tracer, log: log, refusals: refusals, returner: back,
		pods: &podReviewer{
			cells: cells, reader: reader, refusals: refusals, tracer: tracer,
			decider: &decider{
				cores: cores, now: now, nodes: &nodeLabelCache{clientFor: cells.metadata, now: time.Now}, verifier: &verifier{cells: cells, tracer: tracer},
				reserver: &chargeReserver{cores: cores, returner: back, log: log},
			},
			breakGlass: &breakGlass{reader: reader, cores: cores, events: events, log: log},
		},
	}
}

// HasSingleCell implements server.Protection.
func (p *Protection) HasSingleCell() bool { return p.cells.isSingle() }

// Wait implements server.Protection.
func (p *Protection) Wait() { p.returner.background.Wait() }

// Ready implements server.Protection: reviews can be decided when the protectors and Cells of all cores have been read.
func (p *Protection) Ready() error {
	for _, core := range p.cores {
		if !core.synced.Load() {
			return fmt.Errorf("PodProtectors of core cluster %q are not read yet", core.name)
		}
		if core.cellRegistry != nil && !core.cellRegistry.HasSynced() {
			return fmt.Errorf("the Cells of core cluster %q are not read yet", core.name)
		}
	}
	return nil
}

// CallerLabel implements server.Protection. The label is the core if there is one, else the first cell. Unknown names share one label, so that a
// client cannot create time series.
func (p *Protection) CallerLabel(scope string) string {
	core, cells, ok := webhookconfig.ParseRootGuardPath(scope)
	switch {
	case ok && core != "" && p.cores.named(core) != nil:
		return "cores/" + core
	case ok && core == "" && p.cells.has(cells[0]):
		return "cells/" + cells[0]
	}
	return "unknown"
}

// Review answers one review of a cell, before ctx ends, and records its metrics. It treats the caller as the API server of
// the cell, unless ctx is marked by reviews.FromUnprovenCaller.
func (p *Protection) Review(ctx context.Context, cell string, review *admissionv1.AdmissionRequest) removal.Answer {
	began := time.Now()
	p.metrics.inFlight.Inc()
	defer p.metrics.inFlight.Dec()
	answer := p.pods.review(ctx, cell, review)
	answer.Operation = cmp.Or(answer.Operation, removal.OperationOf(review))
	if !answer.Allowed && answer.DeniedBy == nil {
		p.refusals.reportUnattributed(cell, review, answer)
	}
	if !p.cells.has(cell) {
		cell = "unknown" // a client must not be able to create time series
	}
	p.metrics.reviews.WithLabelValues(cell, string(answer.Operation), string(answer.Verdict)).Inc()
	tracing.Observe(ctx, p.metrics.duration.WithLabelValues(cell), time.Since(began).Seconds())
	if !answer.Allowed {
		p.log.V(1).Info("Refused", "cell", cell, "verdict", answer.Verdict, "reason", answer.Status.Message)
	}
	return answer
}
