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

func TestAPolicyThatIsContradictedHasAnEvent(t *testing.T) {
	of := policy()
	store := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(of).WithStatusSubresource(of).Build()
	recorder := events.NewFakeRecorder(10)
	c := &clerk{
		core: "core", client: store, live: store, policies: newPolicies(logr.Discard()), tally: newTally(time.Now), log: logr.Discard(),
		silences: &silences{now: time.Now, of: map[scheduling.Ref]silence{}}, events: recorder,
	}
	shown := policy()
	for _, step := range []struct {
		claim string
		news  news
		want  string
	}{
		{"a pod that it changes", news{count: count{matched: 1, injected: 1}}, ""},
		{"a pod that contradicts it", news{count: count{matched: 1, conflicts: 1, clash: "nodeSelector disk"}}, "Warning Contradicted nodeSelector disk"},
		{"another one", news{count: count{matched: 1, conflicts: 1, clash: "nodeSelector cpu"}}, ""},
		{"none for long", news{quiet: true}, "Normal Uncontradicted no pod contradicted it lately"},
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
			t.Errorf("%s: the event %q, want %q", step.claim, got, step.want)
		}
	}
}

func TestReplicasAddToWhatOthersHaveCounted(t *testing.T) {
	of := policy()
	store := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(of).WithStatusSubresource(of).Build()
	clerkOf := func() *clerk {
		c := &clerk{core: "core", client: store, live: store, policies: newPolicies(logr.Discard()), tally: newTally(time.Now), log: logr.Discard()}
		c.silences = &silences{now: time.Now, of: map[scheduling.Ref]silence{}}
		return c
	}
	shown := policy()
	if err := store.Get(t.Context(), client.ObjectKeyFromObject(of), shown); err != nil {
		t.Fatal(err)
	}
	seen := news{count: count{matched: 2, injected: 1}}
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
	last.tally.of[scheduling.Ref{Core: "core", Namespace: of.Namespace, Name: of.Name}] = count{matched: 1}
	if err := store.Delete(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	if err := last.write(t.Context(), shown, seen); err != nil {
		t.Errorf("error %v about a policy that is gone", err)
	}
	if err := last.writeAll(t.Context()); err != nil || len(last.tally.of) > 0 {
		t.Errorf("error %v, and %v is kept of a policy that is gone", err, last.tally.of)
	}
}
