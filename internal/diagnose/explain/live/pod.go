package live

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
)

// Reader reads what the answer to the removal of a pod depends on.
type Reader struct {
	// Cores returns the core clusters. It may wait for them, and must return when the context of the call of Pod ends.
	Cores   func() ([]Core, error)
	Cluster *Cluster
	// NoticeAfter is how long the reader waits for the cores, after it has read the cluster of the cell, before it calls Waiting with what it knows.
	NoticeAfter time.Duration
	Waiting     func(known explain.Situation)
}

// podRead is what the cluster of a cell knows of a removal.
type podRead struct {
	pod      *corev1.Pod
	node     explain.Node
	hooks    []webhookconfig.Hook
	hooksErr error
}

// Pod reads the state that the answer to a removal depends on, from the cores and from the cluster of the cell concurrently. If it cannot read the
// webhooks, it adds a note instead of failing. If the cores do not answer until ctx ends, the situation has a CoresErr. If the answer does not depend
// on the cores, Pod waits for them no longer than NoticeAfter.
func (r *Reader) Pod(ctx context.Context, namespace, name string, operation v1alpha1.Operation) (s explain.Situation, notes []string, err error) {
	type result struct {
		cores []explain.Core
		notes []string
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reading := make(chan result, 1)
	go func() {
		read := result{}
		found, err := r.Cores()
		if err == nil {
			read.cores, read.notes, err = Read(ctx, found, r.Cluster, namespace)
		}
		read.err = err
		reading <- read
	}()
	local, err := r.Cluster.readPod(ctx, namespace, name, operation)
	if err != nil {
		return s, nil, err
	}
	var read result
	notice := time.NewTimer(r.NoticeAfter)
	defer notice.Stop()
	for waiting := true; waiting; {
		select {
		case read = <-reading:
			waiting = false
		case <-notice.C:
			known := r.Cluster.situation(nil, local, operation)
			if !known.NeedsCores() {
				read.err, waiting = fmt.Errorf("no answer within %s, and the verdict does not depend on it", r.NoticeAfter), false
				continue
			}
			r.Waiting(known)
		}
	}
	s = r.Cluster.situation(read.cores, local, operation)
	s.CoresErr = read.err
	if local.hooksErr != nil {
		read.notes = append(read.notes, "cannot determine whether the API server calls Breakwater: "+local.hooksErr.Error())
	}
	return s, read.notes, nil
}

func (c *Cluster) situation(cores []explain.Core, local *podRead, operation v1alpha1.Operation) explain.Situation {
	s := NewSituation(cores, c.Cell, local.pod, local.node, operation, local.hooks)
	s.HooksUnknown = local.hooksErr != nil
	return s
}

// readPod reads a pod, its node and the webhooks.
func (c *Cluster) readPod(ctx context.Context, namespace, name string, operation v1alpha1.Operation) (*podRead, error) {
	read, done := &podRead{}, make(chan struct{})
	go func() {
		defer close(done)
		read.hooks, read.hooksErr = c.Hooks(ctx, namespace, operation)
	}()
	pod, err := c.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil && c.Cell == "":
		return nil, fmt.Errorf("read the pod: %w", err)
	case err != nil:
		return nil, fmt.Errorf("read the pod from cell %q: %w", c.Cell, err)
	}
	read.pod, read.node = pod, c.Node(ctx, pod.Spec.NodeName)
	<-done
	return read, nil
}
