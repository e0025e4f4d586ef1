package e2e_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/desired"
	"github.com/breakwater-k8s/breakwater/internal/storm"
)

// A rolling update of 200 pods, of which a tenth may be missing and a tenth surge, by the controllers of Kubernetes: without
// Breakwater, and under the floor that the generator would give it, which leaves it not one pod more than it takes by itself.
// Pods are ready at once, so that all the time is the controllers' and ours.
func BenchmarkRollout(b *testing.B) {
	const pods = 200
	took, rounds := map[string]time.Duration{}, 0
	rolls := []string{"unprotected", "protected"}
	for b.Loop() {
		for turn := range rolls {
			run := rolls[(rounds+turn)%len(rolls)]
			r := newRollout(b, pods, run == "protected")
			took[run] += r.roll()
			r.clear()
		}
		rounds++
	}
	for _, run := range rolls {
		b.ReportMetric(took[run].Seconds()/float64(rounds), run+"-s")
	}
	b.ReportMetric(took["protected"].Seconds()/took["unprotected"].Seconds(), "rollout-ratio")
	b.ReportMetric(0, "ns/op")
}

// rollout is a Deployment in one cell, all of whose pods are available and, when it is protected, counted.
type rollout struct {
	*bench
	deployment *appsv1.Deployment
}

func newRollout(b *testing.B, pods int, protected bool) *rollout {
	b.Helper()
	r := &rollout{bench: &bench{B: b, Suite: loop, cell: loop.Cells[0]}}
	core := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	r.must(r.Cores[0].Create(b.Context(), core))
	r.namespace = core.Name
	app := storm.Application{Namespace: r.namespace, Name: "web", Pods: pods, GraceSeconds: []int64{1}}
	r.must(app.Deploy(b.Context(), []storm.Cell{r.cell}))
	tenth := intstr.FromString("10%")
	r.change(func(d *appsv1.Deployment) {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &tenth, MaxUnavailable: &tenth}
	})
	r.await("its pods are available", func() bool {
		return r.deployment.Status.AvailableReplicas == int32(pods) && r.deployment.Status.UpdatedReplicas == int32(pods)
	})
	if !protected {
		return r
	}
	wanted, err := desired.FromDeployment(r.deployment)
	r.must(err)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "web"}, Spec: wanted.Object.Spec}
	r.must(r.Cores[0].Create(b.Context(), p))
	r.await("its pods are counted", func() bool {
		r.must(r.Cores[0].Get(b.Context(), client.ObjectKeyFromObject(p), p))
		return int(p.Status.Summary.Available) == pods
	})
	return r
}

// change changes the Deployment.
func (r *rollout) change(change func(*appsv1.Deployment)) {
	r.Helper()
	deployments := r.cell.Client.AppsV1().Deployments(r.namespace)
	for {
		d, err := deployments.Get(r.Context(), "web-0", metav1.GetOptions{})
		r.must(err)
		change(d)
		if r.deployment, err = deployments.Update(r.Context(), d, metav1.UpdateOptions{}); err == nil {
			return
		}
	}
}

func (r *rollout) await(what string, is func() bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Minute)
	defer cancel()
	for {
		var err error
		r.deployment, err = r.cell.Client.AppsV1().Deployments(r.namespace).Get(ctx, "web-0", metav1.GetOptions{})
		r.must(err)
		if is() {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			r.Fatalf("waited too long until %s: %+v", what, r.deployment.Status)
		}
	}
}

// roll changes the image, and returns how long it takes until no other pod is left.
func (r *rollout) roll() time.Duration {
	r.Helper()
	began := time.Now()
	r.change(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image += ".1" })
	r.await("all pods are new", func() bool {
		s, want := &r.deployment.Status, *r.deployment.Spec.Replicas
		return s.ObservedGeneration == r.deployment.Generation && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
	})
	return time.Since(began)
}

// clear takes everything away, so that the next run finds the same machine.
func (r *rollout) clear() {
	r.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "web"}}
	r.must(client.IgnoreNotFound(r.Cores[0].Delete(r.Context(), p)))
	r.change(func(d *appsv1.Deployment) {
		none := int32(0)
		d.Spec.Replicas = &none
	})
	r.await("its pods are gone", func() bool { return r.deployment.Status.Replicas == 0 })
}
