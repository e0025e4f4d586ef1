package certificates

import (
	"bytes"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func key(letter byte) []byte { return bytes.Repeat([]byte{letter}, callerKeyBytes) }

func TestNextCallerKeys(t *testing.T) {
	have := CallerKeys{Current: key('c')}
	both := CallerKeys{Current: key('c'), Previous: key('p'), Rotated: "1"}
	required := CallerKeys{Current: key('c'), Required: true}
	for claim, c := range map[string]struct {
		have CallerKeys
		seen CallerObservations
		want CallerKeys
	}{
		"creates a missing key":                                {CallerKeys{}, CallerObservations{Require: true}, CallerKeys{Current: key('n')}},
		"creates a lost key, and requires no token":            {CallerKeys{Previous: key('p'), Required: true}, CallerObservations{Require: true, Spread: true, Authenticated: true}, CallerKeys{Current: key('n'), Previous: key('p')}},
		"requires no token before replicas have read the key":  {have, CallerObservations{Require: true, Authenticated: true}, have},
		"requires no token before every configuration has one": {have, CallerObservations{Require: true, Spread: true}, have},
		"requires a token once every configuration has one":    {have, CallerObservations{Require: true, Spread: true, Authenticated: true}, required},
		"continues to require a token":                         {required, CallerObservations{Require: true}, required},
		"requires no token without the annotation":             {required, CallerObservations{Spread: true, Authenticated: true}, have},
		"rotates": {have, CallerObservations{Rotate: "1", Spread: true}, CallerKeys{Current: key('n'), Previous: key('c'), Rotated: "1"}},
		"does not rotate a key that replicas have not read": {have, CallerObservations{Rotate: "1"}, have},
		"rotates once per annotation value":                 {both, CallerObservations{Rotate: "1", Spread: true}, both},
		"does not rotate when the annotation is removed":    {both, CallerObservations{Spread: true}, both},
		"drops the previous key":                            {both, CallerObservations{Rotate: "1", Spread: true, Overlap: true}, CallerKeys{Current: key('c'), Rotated: "1"}},
	} {
		got := NextCallerKeys(c.have, c.seen, func() []byte { return key('n') })
		if !got.equal(&c.want) {
			t.Errorf("%s: got %+v, want %+v", claim, got, c.want)
		}
	}
}

// In any sequence of steps, every configuration has a token that is accepted by every replica that has read the Secret within the spread.
func TestEveryReplicaAcceptsConfiguredTokens(t *testing.T) {
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
		authenticated := webhookconfig.IsCallerToken(token, scope, state.valid()...)
		seen := CallerObservations{
			Spread: spread, Require: step > 20, Authenticated: authenticated, Rotate: string(rune('0' + step/37)),
			Overlap: spread && step%3 == 0 && webhookconfig.IsCallerToken(token, scope, state.Current),
		}
		for i, r := range replicas {
			if r.Required && !webhookconfig.IsCallerToken(token, scope, r.valid()...) {
				t.Fatalf("step %d: replica %d of %d denies the token", step, i, len(replicas))
			}
		}
		written := NextCallerKeys(state, seen, newKey)
		if !written.equal(&state) {
			state = written
			replicas = append(replicas, state)
		}
	}
	if !state.Required || !slices.Equal(state.Current, key(next)) || next < 'f' {
		t.Errorf("after all steps got %+v, want Required with the newest of several keys", state)
	}
}

func TestSetCallerToken(t *testing.T) {
	const scope = "cells/a"
	path := webhookconfig.RemovalPath("a")
	keys := CallerKeys{Current: key('c'), Previous: key('p')}
	current, previous, foreign := webhookconfig.CallerPath(webhookconfig.CallerToken(keys.Current, scope), path), webhookconfig.CallerPath(webhookconfig.CallerToken(keys.Previous, scope), path), webhookconfig.CallerPath("0123", path)
	for claim, c := range map[string]struct {
		has              *string
		spread, enforced bool
		want             *string
	}{
		"no path, while replicas read the current key": {nil, false, false, &previous},
		"no path": {nil, true, false, &current},
		"an empty path, as an API server defaults it":          {new(string), true, false, &current},
		"the path of the chart, where no token is required":    {&path, true, false, &path},
		"the path of the chart, where a token is required":     {&path, true, true, &current},
		"the previous token, while replicas read the key":      {&previous, false, true, &previous},
		"the previous token":                                   {&previous, true, false, &current},
		"the current token, while replicas read the key":       {&current, false, true, &current},
		"an invalid token":                                     {&foreign, true, false, &current},
		"an invalid token, while replicas read the key":        {&foreign, false, true, &previous},
		"another path than that of the annotation":             {ptr.To(webhookconfig.RemovalPath("b")), true, false, &current},
		"another path with its token":                          {ptr.To(webhookconfig.CallerPath(webhookconfig.CallerToken(keys.Current, "cells/b"), webhookconfig.RemovalPath("b"))), true, false, &current},
		"a path of an earlier chart that only needs the token": {&path, false, true, &previous},
	} {
		to := &admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: c.has}}
		changed := setCallerToken(to, path, &keys, c.spread, c.enforced)
		if got := *to.Service.Path; got != *c.want || changed != (c.has == nil || *c.has != *c.want) {
			t.Errorf("%s: got path %q, changed %v, want %q", claim, got, changed, *c.want)
		}
	}
	url := "https://webhook.example" + path
	if to := (&admissionregistrationv1.WebhookClientConfig{URL: &url}); setCallerToken(to, path, &keys, true, true) || *to.URL != "https://webhook.example"+path {
		t.Errorf("setCallerToken() changed the URL to %q, want it unchanged", *to.URL)
	}
}
