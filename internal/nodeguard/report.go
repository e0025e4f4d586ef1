package nodeguard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

const (
	// reportEvery is how often the guard reports what changed.
	reportEvery = 10 * time.Second
	// repeatEvery is how often it reports what did not change: a restored etcd can have an older report. The API server stores nothing for that.
	repeatEvery = 5 * time.Minute
)

// reporter writes the status of a guard into its Node, with the kubelet's account.
type reporter struct {
	guard   *Guard
	kubelet *Account
	// otherCluster returns why connections are refused.
	otherCluster func() string

	last   podhold.Status
	lastAt time.Time
}

// run reports until ctx ends.
func (r *reporter) run(ctx context.Context) {
	last := ""
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		err := r.report(ctx)
		if text := fmt.Sprint(err); text != last && ctx.Err() == nil {
			if err != nil {
				r.guard.log.Info("Failed to report to the Node, retrying", "reason", text)
			}
			last = text
		}
	}, reportEvery, jitter, true)
}

func (r *reporter) report(ctx context.Context) error {
	status := r.guard.status(r.otherCluster())
	raw, err := json.Marshal(status)
	if err != nil {
		return err
	}
	before, err := json.Marshal(r.last)
	if err != nil || string(before) == string(raw) && r.guard.clock.Since(r.lastAt) < repeatEvery {
		return err
	}
	text := string(raw)
	var asks *string
	if status.Question != nil {
		asks = new(string)
	}
	metadata := map[string]any{"annotations": map[string]*string{podhold.AnnotationStatus: &text}, "labels": map[string]*string{podhold.LabelAsks: asks}}
	if err := r.kubelet.patchNode(ctx, r.guard.node, metadata); err != nil {
		return fmt.Errorf("annotate the Node: %w", err)
	}
	r.last, r.lastAt = status, r.guard.clock.Now()
	return nil
}

func (g *Guard) status(otherCluster string) podhold.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	reasons := map[types.UID]string{}
	for uid, last := range g.attempts {
		reasons[uid] = last.reason
	}
	status := podhold.StatusOf(version.String(), g.pods.view.All(), reasons, otherCluster)
	if question := g.asked.Question; question.ID != "" {
		status.Question = &question
	}
	return status
}

// releases returns the pods that users released, by UID, and the version of the Node that says so.
func (a *Account) releases(ctx context.Context, node string) (uids map[types.UID]bool, resourceVersion string, err error) {
	var n corev1.Node
	if err := a.do(ctx, http.MethodGet, "/api/v1/nodes/"+node, "", nil, &n); err != nil {
		return nil, "", err
	}
	return podhold.Releases(n.Annotations[podhold.AnnotationRelease]), n.ResourceVersion, nil
}

// annotateNode sets annotations of a Node, or removes those that are nil. It fails if the Node has another version than the given one, unless that is
// empty.
func (a *Account) annotateNode(ctx context.Context, node, resourceVersion string, annotations map[string]*string) error {
	metadata := map[string]any{"annotations": annotations}
	if resourceVersion != "" {
		metadata["resourceVersion"] = resourceVersion
	}
	return a.patchNode(ctx, node, metadata)
}

// patchNode changes the metadata of a Node.
func (a *Account) patchNode(ctx context.Context, node string, metadata map[string]any) error {
	return a.do(ctx, http.MethodPatch, "/api/v1/nodes/"+node, "application/merge-patch+json", map[string]any{"metadata": metadata}, nil)
}

// RemoveStatus removes what a guard reported from its Node.
func (a *Account) RemoveStatus(ctx context.Context, node string) error {
	err := a.annotateNode(ctx, node, "", map[string]*string{podhold.AnnotationStatus: nil, podhold.AnnotationRelease: nil})
	if status := (*statusError)(nil); errors.As(err, &status) && status.code == http.StatusNotFound {
		return nil
	}
	return err
}
