package sharding_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// writeLog is all writes to the objects of a ring, in the order in which the API server stored them. It also acts as the sharder
// for controlled objects: they follow their controllers.
type writeLog struct {
	*ring
	mu sync.Mutex
	// writes are the shards' writes of summaries. releases are the writes by which a shard released a Deployment.
	writes, releases []entry
	// written is the last content of each summary.
	written map[string]string
	// shards maps the names of Deployments to their shards.
	shards map[string]string
}

// entry is one write: its resourceVersion, the Deployment, and the writer.
type entry struct {
	at         int64
	deployment string
	by         string
}

func (e entry) String() string { return fmt.Sprintf("%s by %s at %d", e.deployment, e.by, e.at) }

func newRecord(r *ring) *writeLog {
	rec := &writeLog{ring: r, written: map[string]string{}, shards: map[string]string{}}
	c, err := client.NewWithWatch(testplane.Config(r), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ConfigMapList{}} {
		done.Go(func() {
			last := ""
			for ctx.Err() == nil { // the API server closes its watches when it stops
				w, err := c.Watch(ctx, list, client.InNamespace(r.name), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: last}})
				if err != nil {
					continue
				}
				for event := range w.ResultChan() {
					last = rec.addEvent(event, last)
				}
			}
		})
	}
	r.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return rec
}

// addEvent records an event, and returns the resourceVersion from which to continue.
func (r *writeLog) addEvent(event watch.Event, last string) string {
	object, ok := event.Object.(client.Object)
	if !ok {
		return ""
	}
	at, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil || event.Type == watch.Bookmark {
		return last
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name, shard := object.GetName(), object.GetLabels()[v1alpha1.LabelShard(r.name)]
	switch o := object.(type) {
	case *appsv1.Deployment:
		if r.shards[name] != "" && shard == "" {
			r.releases = append(r.releases, entry{at: at, deployment: name, by: r.shards[name]})
		}
		if r.shards[name] = shard; shard != "" {
			go r.assignSummary(name+"-summary", shard)
		}
	case *corev1.ConfigMap:
		owner := metav1.GetControllerOf(o)
		if owner == nil {
			break
		}
		if written := o.Data["written"]; r.written[name] != written {
			r.written[name] = written
			_, by, _ := strings.Cut(written, " by ")
			r.writes = append(r.writes, entry{at: at, deployment: owner.Name, by: by})
		}
		if want := r.shards[owner.Name]; want != "" && want != shard {
			go r.assignSummary(name, want)
		}
	}
	return object.GetResourceVersion()
}

// assignSummary moves a summary to the shard of its Deployment.
func (r *writeLog) assignSummary(name, shard string) {
	summary := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: name}}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelShard(r.name), shard)
	_ = r.Patch(context.Background(), summary, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// writesOf returns the writes of a writer after a resourceVersion. An empty writer means all writers.
func (r *writeLog) writesOf(by string, after int64) []entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []entry
	for _, w := range r.writes {
		if (by == "" || w.by == by) && w.at > after {
			found = append(found, w)
		}
	}
	return found
}

// awaitWrites waits until the writer has written a summary of each Deployment after a resourceVersion.
func (r *writeLog) awaitWrites(by string, after int64) {
	r.Helper()
	testplane.Eventually(r, func() string {
		for _, d := range r.deployments() {
			if !slices.ContainsFunc(r.writesOf(by, after), func(e entry) bool { return e.deployment == d.Name }) {
				return fmt.Sprintf("%s has not written of %s, which has labels %v, after %d; all that has are %d writes", by, d.Name, d.Labels, after, len(r.writesOf(by, after)))
			}
		}
		return ""
	})
}

// released returns the resourceVersion at which a Deployment was released; 0 if it was not.
func (r *writeLog) released(deployment string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.releases {
		if e.deployment == deployment {
			return e.at
		}
	}
	return 0
}

// now returns the newest resourceVersion of the Deployments.
func (r *writeLog) now() int64 {
	r.Helper()
	list := &appsv1.DeploymentList{}
	if err := r.List(r.Context(), list, client.InNamespace(r.name)); err != nil {
		r.Fatal(err)
	}
	at, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
	if err != nil {
		r.Fatal(err)
	}
	return at
}
