package review

import (
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
	"github.com/breakwater-k8s/breakwater/webhook/wake"
)

// Protection answers reviews. It keeps no durable state of its own: that state is in the core clusters.
type Protection struct {
	cores *reserve.Cores
	// cells reach the worker clusters, and pods reads single pods there.
	cells *Cells
	pods  *podReader
	// nodes return the domains that pods are in.
	nodes *nodeLabelCache
	// verifier compares the pods of unauthenticated callers with those of the cells.
	verifier *verifier
	// recorder records removals for node guards; nil if there are none.
	recorder *removalRecorder
	// denials reports what was denied or overridden.
	denials *denialReporter
	// audit reports that the server admits what is denied, too.
	audit bool

	metrics *Metrics
	// tracer creates spans; nil creates none.
	tracer *tracing.Tracer
	log    logr.Logger
	now    func() time.Time
}

// New connects the parts of a Protection. It needs all cores. now is the wall clock, by which removals are decided;
// the parts that only measure intervals use the clock of the machine.
func New(
	cores *reserve.Cores, cells *Cells, retrier *wake.Retrier, metrics *Metrics, tracer *tracing.Tracer, log logr.Logger, now func() time.Time,
) *Protection {
	return &Protection{
		cores: cores, cells: cells, metrics: metrics, tracer: tracer, log: log, now: now,
		pods:     &podReader{cells: cells, cores: cores, tracer: tracer},
		nodes:    &nodeLabelCache{clientFor: cells.metadata, now: time.Now},
		verifier: &verifier{cells: cells, tracer: tracer},
		denials: &denialReporter{
			cores: cores, counter: metrics.denials, events: newDenialEvents(time.Now), retrier: retrier, log: log, now: time.Now,
		},
	}
}

// RecordRemovals makes the webhook record admitted removals without a grace period, for node guards. audit reports that the server admits what is
// denied, too.
func (p *Protection) RecordRemovals(audit bool) {
	p.recorder, p.audit = &removalRecorder{cells: p.cells, cores: p.cores, verifier: p.verifier, tracer: p.tracer, now: p.now}, audit
}

// HasSingleCell implements server.Protection.
func (p *Protection) HasSingleCell() bool { return p.cells.isSingle() }

// Wait implements server.Protection.
func (p *Protection) Wait() { p.cores.Wait() }

// Ready implements server.Protection: reviews can be decided when the protectors and Cells of all cores have been read.
func (p *Protection) Ready() error { return p.cores.Ready() }

// PeerHandler implements server.Protection.
func (p *Protection) PeerHandler() http.Handler { return p.cores.PeerHandler(p.tracer) }

// CallerLabel implements server.Protection. The label is the core if there is one, else the first cell. Unknown names share one label, so that a
// client cannot create time series.
func (p *Protection) CallerLabel(scope string) string {
	core, cells, ok := webhookconfig.ParseRootGuardPath(scope)
	switch {
	case ok && core != "" && p.cores.Named(core) != nil:
		return "cores/" + core
	case ok && core == "" && p.cells.has(cells[0]):
		return "cells/" + cells[0]
	}
	return "unknown"
}
