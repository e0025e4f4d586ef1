package apiserver

import (
	"context"
	"errors"
	"sync"
)

// ErrSevered is the error of a connection whose process or cluster has ended.
var ErrSevered = errors.New("connection refused")

// gate delays requests while it is shut, and rejects them once it is severed.
type gate struct {
	mu      sync.Mutex
	isShut  bool
	severed bool
	changed chan struct{}
}

func newGate() *gate { return &gate{changed: make(chan struct{})} }

func (g *gate) set(shut, severed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut, g.severed = shut, severed
	close(g.changed)
	g.changed = make(chan struct{})
}

// pass waits until the gate is open, and reports whether it had to wait.
func (g *gate) pass(ctx context.Context) (waited bool, err error) {
	for {
		g.mu.Lock()
		shut, severed, changed := g.isShut, g.severed, g.changed
		g.mu.Unlock()
		switch {
		case severed:
			return waited, ErrSevered
		case !shut:
			return waited, nil
		}
		waited = true
		select {
		case <-changed:
		case <-ctx.Done():
			return waited, context.Cause(ctx)
		}
	}
}

func (g *gate) isSevered() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.severed
}
