#!/usr/bin/env bash
# client-go v0.37.2, tools/events: the recorder of events.k8s.io/v1 recognizes an event by its type, action, reason, reporting controller,
# regarding and related object. Its note is no part of that. So a second event within six minutes that differs in its note alone reaches the API
# server as a count of the first. Its note is lost, and kubectl shows the first message for as long as the series lasts. The older recorder of
# tools/record stores both messages.
#
# Output seen:
#   events.k8s.io/v1: 1 created, 1 counted
#     created: "Volume is 81 % full"
#     counted: {"series":{"count":2,...}}
#   v1: 2 created
#     created: "Volume is 81 % full"
#     created: "Volume is 97 % full"
#
# What helps: put what changes into the reason or the action, or name another related object.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
export CGO_ENABLED=0 GOFLAGS=-mod=mod
cat >go.mod <<'EOF'
module finding

go 1.26

require (
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
)
EOF
cat >main.go <<'EOF'
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// sink stores what would be sent to an API server.
type sink struct {
	mu               sync.Mutex
	created, counted []string
}

func (s *sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created = append(s.created, e.Note)
	return e, nil
}

func (s *sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) { return e, nil }

func (s *sink) Patch(_ context.Context, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted = append(s.counted, string(patch))
	return e, nil
}

type olderSink struct{ *sink }

func (s olderSink) Create(e *corev1.Event) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created = append(s.created, e.Message)
	return e, nil
}

func (s olderSink) Update(e *corev1.Event) (*corev1.Event, error) { return e, nil }

func (s olderSink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted = append(s.counted, string(patch))
	return e, nil
}

func main() {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "1"}}
	notes := []string{"Volume is 81 % full", "Volume is 97 % full"}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	of := &sink{}
	broadcaster := events.NewBroadcaster(of)
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		panic(err)
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "example.com/monitor")
	for _, note := range notes {
		recorder.Eventf(claim, nil, corev1.EventTypeWarning, "VolumeFilling", "Monitor", "%s", note)
		time.Sleep(time.Second)
	}
	of.print("events.k8s.io/v1")

	older := &sink{}
	oldBroadcaster := record.NewBroadcaster()
	oldBroadcaster.StartRecordingToSink(olderSink{older})
	oldRecorder := oldBroadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "monitor"})
	for _, note := range notes {
		oldRecorder.Event(claim, corev1.EventTypeWarning, "VolumeFilling", note)
		time.Sleep(time.Second)
	}
	older.print("v1")
}

func (s *sink) print(api string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf("%s: %d created, %d counted\n", api, len(s.created), len(s.counted))
	for _, note := range s.created {
		fmt.Printf("  created: %q\n", note)
	}
	for _, patch := range s.counted {
		fmt.Printf("  counted: %s\n", patch)
	}
}
EOF
got=$(go run .)
echo "$got"
grep -qx 'events.k8s.io/v1: 1 created, 1 counted' <<<"$got"
grep -q 'counted: {"series":{"count":2' <<<"$got"
grep -qx 'v1: 2 created, 0 counted' <<<"$got"
[ "$(grep -c '97 % full' <<<"$got")" = 1 ] # in the older API only
echo "as described"
