package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Summarizer keeps a ConfigMap for each Deployment.
type Summarizer struct {
	Client client.Client
	// Writer is the identity that writes the summaries.
	Writer string
	// Duration is how long writing a summary takes. Every is the interval after which it is written again.
	Duration, Interval time.Duration
}

// Reconcile implements reconcile.Reconciler.
func (s *Summarizer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	deployment := &appsv1.Deployment{}
	if err := s.Client.Get(ctx, request.NamespacedName, deployment); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if deployment.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // the API server garbage-collects its summary
	}
	// The name is derived from the Deployment's, so that two successive shards never create two summaries.
	summary := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name + "-summary"}}
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(summary), summary)
	exists := !apierrors.IsNotFound(err)
	if exists && err != nil {
		return reconcile.Result{}, fmt.Errorf("get the summary: %w", err)
	}
	if left := s.validFor(deployment, summary); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	select {
	case <-time.After(s.Duration):
	case <-ctx.Done():
		return reconcile.Result{}, context.Cause(ctx)
	}
	before := summary.DeepCopy()
	summary.Data = map[string]string{"replicas": replicas(deployment), "written": time.Now().Format(time.RFC3339Nano) + " by " + s.Writer}
	if exists {
		err = s.Client.Patch(ctx, summary, client.MergeFrom(before))
	} else if err = controllerutil.SetControllerReference(deployment, summary, s.Client.Scheme()); err == nil {
		err = s.Client.Create(ctx, summary)
	}
	if apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: time.Second}, nil // it belonged to another shard, and is not in the cache yet
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("write the summary: %w", err)
	}
	return reconcile.Result{RequeueAfter: s.Interval}, nil
}

// validFor returns for how long a summary is still valid.
func (s *Summarizer) validFor(deployment *appsv1.Deployment, summary *corev1.ConfigMap) time.Duration {
	when, _, _ := strings.Cut(summary.Data["written"], " ")
	written, err := time.Parse(time.RFC3339Nano, when)
	if err != nil || summary.Data["replicas"] != replicas(deployment) {
		return 0
	}
	return s.Interval - time.Since(written)
}

func replicas(deployment *appsv1.Deployment) string {
	if deployment.Spec.Replicas == nil {
		return "1"
	}
	return strconv.Itoa(int(*deployment.Spec.Replicas))
}
