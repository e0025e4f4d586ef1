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
		seen CallersSeen
		want CallerKeys
	}{
		"makes a key where there is none":                     {CallerKeys{}, CallersSeen{Require: true}, CallerKeys{Current: key('n')}},
		"makes one where it was lost, and requires none":      {CallerKeys{Previous: key('p'), Required: true}, CallersSeen{Require: true, Spread: true, Authenticated: true}, CallerKeys{Current: key('n'), Previous: key('p')}},
		"requires no token before replicas know the key":      {have, CallersSeen{Require: true, Authenticated: true}, have},
		"requires no token before every configuration has it": {have, CallersSeen{Require: true, Spread: true}, have},
		"requires a token then":                               {have, CallersSeen{Require: true, Spread: true, Authenticated: true}, required},
		"continues to require it":                             {required, CallersSeen{Require: true}, required},
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

// In any sequence of steps, every configuration has a token that is accepted by every replica that has read the Secret within the spread.
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
		authenticated := webhookconfig.IsCallerToken(token, scope, state.valid()...)
		seen := CallersSeen{
			Spread: spread, Require: step > 20, Authenticated: authenticated, Rotate: string(rune('0' + step/37)),
			Overlap: spread && step%3 == 0 && webhookconfig.IsCallerToken(token, scope, state.Current),
		}
		for i, r := range replicas {
			if r.Required && !webhookconfig.IsCallerToken(token, scope, r.valid()...) {
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

func TestPathsThatGetAToken(t *testing.T) {
	const scope = "cells/a"
	path := webhookconfig.Path("a")
	keys := CallerKeys{Current: key('c'), Previous: key('p')}
	current, previous, foreign := webhookconfig.CallerPath(webhookconfig.CallerToken(keys.Current, scope), path), webhookconfig.CallerPath(webhookconfig.CallerToken(keys.Previous, scope), path), webhookconfig.CallerPath("0123", path)
	for claim, c := range map[string]struct {
		has              *string
		spread, enforced bool
		want             *string
	}{
		"no path, while replicas read the current key": {nil, false, false, &previous},
		"no path": {nil, true, false, &current},
		"what an API server has in place of no path":         {new(string), true, false, &current},
		"the path of the chart, where no token is required":  {&path, true, false, &path},
		"the path of the chart, where a token is required":   {&path, true, true, &current},
		"the previous token, while replicas read the key":    {&previous, false, true, &previous},
		"the previous token":                                 {&previous, true, false, &current},
		"the current token, while replicas read the key":     {&current, false, true, &current},
		"a token that is none":                               {&foreign, true, false, &current},
		"a token that is none, while replicas read the key":  {&foreign, false, true, &previous},
		"another path, which is not that of the annotation":  {ptr.To(webhookconfig.Path("b")), true, false, &current},
		"another path with its token":                        {ptr.To(webhookconfig.CallerPath(webhookconfig.CallerToken(keys.Current, "cells/b"), webhookconfig.Path("b"))), true, false, &current},
		"a path of a former chart that only needs the token": {&path, false, true, &previous},
	} {
		to := &admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: c.has}}
		changed := setCaller(to, path, &keys, c.spread, c.enforced)
		if got := *to.Service.Path; got != *c.want || changed != (c.has == nil || *c.has != *c.want) {
			t.Errorf("%s: path %q, changed %v, want %q", claim, got, changed, *c.want)
		}
	}
	url := "https://webhook.example" + path
	if to := (&admissionregistrationv1.WebhookClientConfig{URL: &url}); setCaller(to, path, &keys, true, true) || *to.URL != "https://webhook.example"+path {
		t.Errorf("a URL became %q", *to.URL)
	}
}
