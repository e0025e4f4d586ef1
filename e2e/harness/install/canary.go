package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// canary is a protected pod without budget. An API server applies a webhook configuration some time after it was created. Only a
// denial proves that it has.
const canary = "breakwater-canary"

// canaryInterval is the interval between two attempts on the canary, and canaryTimeout their timeout.
const (
	canaryInterval = 50 * time.Millisecond
	canaryTimeout  = 2 * time.Minute
)

// errAdmitted represents an answer without an error.
var errAdmitted = errors.New("admitted")

// EnableWebhooks configures the API servers of all workers to call the webhooks. It returns when each worker has denied a removal, and has
// applied a scheduling policy if Scheduling is set. With WithoutCells another component creates the Cells later, so Guard does
// not wait for that.
func (i *Installation) EnableWebhooks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	if err := errors.Join(i.protectCanary(ctx), i.createSchedulingCanary(ctx), i.configureCores(ctx)); err != nil {
		return err
	}
	var guarding errgroup.Group
	for _, worker := range i.options.Workers {
		guarding.Go(func() error { return i.enableWebhook(ctx, worker) })
	}
	return guarding.Wait()
}

func (i *Installation) protectCanary(ctx context.Context) error {
	return i.createInCores(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: canary}},
		&v1alpha1.PodProtector{
			ObjectMeta: metav1.ObjectMeta{Name: canary, Namespace: canary},
			Spec: v1alpha1.PodProtectorSpec{
				Selector: &v1alpha1.PodSelector{}, MinAvailable: v1alpha1.Pods(int32(len(i.options.Workers))),
			},
		},
	)
}

func (i *Installation) enableWebhook(ctx context.Context, worker federation.Cluster) error {
	if err := i.ConfigureWorker(ctx, worker); err != nil || i.options.WithoutCells {
		return err
	}
	cell, err := storm.NewCell(worker.Name(), worker.RESTConfig())
	if err != nil {
		return err
	}
	canaries := storm.Application{Namespace: canary, Name: canary, Pods: 1, GraceSeconds: []int64{0}}
	if err := canaries.DeployBare(ctx, []storm.Cell{cell}); err != nil {
		return err
	}
	// A dry run removes nothing while it is still admitted.
	dryRun := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	var last error
	err = wait.PollUntilContextCancel(ctx, canaryInterval, true, func(ctx context.Context) (bool, error) {
		last = cell.Client.CoreV1().Pods(canary).Delete(ctx, canary+"-0", dryRun)
		return storm.OutcomeOf(last) == storm.Denied, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the API server of cell %s calls the webhook: %w", worker.Name(),
			errors.Join(err, fmt.Errorf("the last answer to a removal: %w", cmp.Or(last, errAdmitted))))
	}
	return i.awaitScheduling(ctx, cell)
}
