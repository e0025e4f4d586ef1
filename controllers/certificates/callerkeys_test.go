package certificates

import (
	"bytes"
	"slices"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/guard"
)

func key(letter byte) []byte { return bytes.Repeat([]byte{letter}, callerKeyBytes) }

func TestNextCallerKeys(t *testing.T) {
	have := CallerKeys{Current: key('c')}
	both := CallerKeys{Current: key('c'), Previous: key('p'), Rotated: "1"}
	required := CallerKeys{Current: key('c'), Required: true}
	for claim, c := range map[string]struct {
		have CallerKeys
		seen CallersSeen
		want CallerKeys
	}{
		"makes a key where there is none":                     {CallerKeys{}, CallersSeen{Require: true}, CallerKeys{Current: key('n')}},
		"makes one where it was lost, and requires none":      {CallerKeys{Previous: key('p'), Required: true}, CallersSeen{Require: true, Spread: true, Authenticated: true}, CallerKeys{Current: key('n'), Previous: key('p')}},
		"requires no token before replicas know the key":      {have, CallersSeen{Require: true, Authenticated: true}, have},
		"requires no token before every configuration has it": {have, CallersSeen{Require: true, Spread: true}, have},
		"requires a token then":                               {have, CallersSeen{Require: true, Spread: true, Authenticated: true}, required},
		"goes on to require it":                               {required, CallersSeen{Require: true}, required},
		"requires none when it is not asked to":               {required, CallersSeen{Spread: true, Authenticated: true}, have},
		"rotates":                                             {have, CallersSeen{Rotate: "1", Spread: true}, CallerKeys{Current: key('n'), Previous: key('c'), Rotated: "1"}},
		"does not rotate a key that replicas do not know":     {have, CallersSeen{Rotate: "1"}, have},
		"rotates once for a value":                            {both, CallersSeen{Rotate: "1", Spread: true}, both},
		"does not rotate when the value is taken away":        {both, CallersSeen{Spread: true}, both},
		"drops the previous key":                              {both, CallersSeen{Rotate: "1", Spread: true, Overlap: true}, CallerKeys{Current: key('c'), Rotated: "1"}},
	} {
		got := NextCallerKeys(c.have, c.seen, func() []byte { return key('n') })
		if !got.equal(&c.want) {
			t.Errorf("%s: got %+v, want %+v", claim, got, c.want)
		}
	}
}

// However the steps follow each other, every configuration has a token that every replica accepts that has read the Secret within the spread.
func TestNoConfigurationHasATokenThatAReplicaRefuses(t *testing.T) {
	const scope = "cells/a"
	next := byte('a')
	newKey := func() []byte { next++; return key(next) }
	state, token := CallerKeys{}, ""
	// Replicas have read the newest state, or one that was written less than the spread ago.
	replicas := []CallerKeys{{}}
	for step := range 400 {
		spread := step%5 == 4
		if spread {
			replicas = []CallerKeys{state}
		}
		if len(state.Current) > 0 {
			token = state.Token(scope, token, spread)
		}
		authenticated := guard.IsCallerToken(token, scope, state.valid()...)
		seen := CallersSeen{
			Spread: spread, Require: step > 20, Authenticated: authenticated, Rotate: string(rune('0' + step/37)),
			Overlap: spread && step%3 == 0 && guard.IsCallerToken(token, scope, state.Current),
		}
		for i, r := range replicas {
			if r.Required && !guard.IsCallerToken(token, scope, r.valid()...) {
				t.Fatalf("step %d: replica %d of %d refuses the token", step, i, len(replicas))
			}
		}
		written := NextCallerKeys(state, seen, newKey)
		if !written.equal(&state) {
			state = written
			replicas = append(replicas, state)
		}
	}
	if !state.Required || !slices.Equal(state.Current, key(next)) || next < 'f' {
		t.Errorf("after all steps %+v, want a token of the newest of several keys to be required", state)
	}
}
