package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// clientTimeout is how long a client waits. Only the truth shows the result of a request after that.
const clientTimeout = 8 * time.Second

// Operation is a way to request a removal.
type Operation string

// The operations.
const (
	Delete Operation = "delete"
	Evict  Operation = "evict"
)

// RemovalRequest is a request for the removal of one pod as its client saw it. Times count from the start of a scenario.
type RemovalRequest struct {
	Client         int
	Operation      Operation
	Cell, Pod      string
	UID            types.UID
	Sent, Answered time.Duration
	Outcome        storm.Outcome
	Error          string
}

// Journal records the requests of clients and their answers.
type Journal struct {
	start time.Time

	mu       sync.Mutex
	requests []RemovalRequest
	tally    storm.Tally
}

// NewJournal returns a journal whose times count from start.
func NewJournal(start time.Time) *Journal { return &Journal{start: start} }

// Remove requests the removal of the pod with exactly this UID, and records the answer. A client that the end of the storm interrupts
// would not see its answer, so ctx does not cancel a request.
func (j *Journal) Remove(ctx context.Context, client int, pod storm.Pod, operation Operation) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clientTimeout)
	defer cancel()
	ask := RemovalRequest{Client: client, Operation: operation, Cell: pod.Cell.Name, Pod: pod.Name, UID: pod.UID, Sent: time.Since(j.start)}
	err := request(ctx, pod, operation)
	ask.Answered = time.Since(j.start)
	j.mu.Lock()
	defer j.mu.Unlock()
	if ask.Outcome = j.tally.Observe(err); err != nil {
		ask.Error = err.Error()
	}
	j.requests = append(j.requests, ask)
	return err
}

func request(ctx context.Context, pod storm.Pod, operation Operation) error {
	// Without the UID a late request could hit another pod of the same name.
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	pods := pod.Cell.Client.CoreV1().Pods(pod.Namespace)
	if operation == Delete {
		return pods.Delete(ctx, pod.Name, options)
	}
	return pods.EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: &options,
	})
}

// Requests returns all recorded requests.
func (j *Journal) Requests() []RemovalRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.requests)
}

// Counts returns the totals of the outcomes.
func (j *Journal) Counts() storm.Counts { return j.tally.Counts() }

// awaitAnswers returns when the given number of further requests has been answered.
func (j *Journal) awaitAnswers(ctx context.Context, more int) error {
	from := j.Counts().Attempted
	return poll(ctx, func(context.Context) error {
		if got := j.Counts().Attempted - from; got < more {
			return fmt.Errorf("%d of %d requests were answered", got, more)
		}
		return nil
	})
}

// poll polls until check returns nil. Its error includes the last error of check.
func poll(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
