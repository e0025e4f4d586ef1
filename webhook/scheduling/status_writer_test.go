package scheduling

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

func TestConflictingPolicyGetsEvent(t *testing.T) {
	of := policy()
	store := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(of).WithStatusSubresource(of).Build()
	recorder := events.NewFakeRecorder(10)
	c := &statusWriter{
		core: "core", client: store, apiReader: store, policies: newPolicies(logr.Discard()), counts: newPolicyCounts(time.Now), log: logr.Discard(),
		quiet: &quietTracker{now: time.Now, entries: map[scheduling.Ref]quietEntry{}}, events: recorder,
	}
	shown := policy()
	for _, step := range []struct {
		claim string
		news  statusUpdate
		want  string
	}{
		{"a pod that it changes", statusUpdate{count: count{matched: 1, injected: 1}}, ""},
		{"a pod that contradicts it", statusUpdate{count: count{matched: 1, conflicts: 1, conflict: "nodeSelector disk"}}, "Warning Contradicted nodeSelector disk"},
		{"another one", statusUpdate{count: count{matched: 1, conflicts: 1, conflict: "nodeSelector cpu"}}, ""},
		{"none for long", statusUpdate{quiet: true}, "Normal Uncontradicted no pod has contradicted the policy recently"},
	} {
		if err := store.Get(t.Context(), client.ObjectKeyFromObject(of), shown); err != nil {
			t.Fatal(err)
		}
		if err := c.write(t.Context(), shown, step.news); err != nil {
			t.Fatal(err)
		}
		got := ""
		select {
		case got = <-recorder.Events:
		default:
		}
		if got != step.want {
			t.Errorf("%s: event %q, want %q", step.claim, got, step.want)
		}
	}
}

func TestReplicasAddTheirCounts(t *testing.T) {
	of := policy()
	store := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(of).WithStatusSubresource(of).Build()
	clerkOf := func() *statusWriter {
		c := &statusWriter{core: "core", client: store, apiReader: store, policies: newPolicies(logr.Discard()), counts: newPolicyCounts(time.Now), log: logr.Discard()}
		c.quiet = &quietTracker{now: time.Now, entries: map[scheduling.Ref]quietEntry{}}
		return c
	}
	shown := policy()
	if err := store.Get(t.Context(), client.ObjectKeyFromObject(of), shown); err != nil {
		t.Fatal(err)
	}
	seen := statusUpdate{count: count{matched: 2, injected: 1}}
	for range 3 { // each starts from the state that the watch showed before the first
		if err := clerkOf().write(t.Context(), shown, seen); err != nil {
			t.Fatal(err)
		}
	}
	got := &v1alpha1.PodSchedulingPolicy{}
	if err := store.Get(t.Context(), client.ObjectKeyFromObject(of), got); err != nil {
		t.Fatal(err)
	}
	if got.Status.Matched != 6 || got.Status.Injected != 3 {
		t.Errorf("status %+v, want 6 matched and 3 injected", got.Status)
	}
	last := clerkOf()
	last.counts.byPolicy[scheduling.Ref{Core: "core", Namespace: of.Namespace, Name: of.Name}] = count{matched: 1}
	if err := store.Delete(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	if err := last.write(t.Context(), shown, seen); err != nil {
		t.Errorf("error %v for a deleted policy, want nil", err)
	}
	if err := last.writeAll(t.Context()); err != nil || len(last.counts.byPolicy) > 0 {
		t.Errorf("error %v and counts %v of a deleted policy, want neither", err, last.counts.byPolicy)
	}
}
