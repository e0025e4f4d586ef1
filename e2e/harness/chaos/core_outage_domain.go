package chaos

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

const (
	// spreadFloor is the floor of a protector that tolerates the loss of a cell. Each of two cells has more pods.
	spreadFloor = 12
	// domainOutage is the duration of an outage with a lost domain, without Plan.Outage. It is longer than a request may take, after which no
	// removal may take effect any more.
	domainOutage = requestTimeout + 5*time.Second
)

// loseDomain kills the core, and lets all pods of a cell fail, which is a domain. The protector tolerates that loss, so it has no shares, and no
// removal may be admitted before the core returns. From then on the other cell keeps the floor alone.
func loseDomain(ctx context.Context, p *play) error {
	faults, err := faultsOf(p.stage.Core)
	if err != nil {
		return err
	}
	domain, other := p.drawCells()
	p.supplied = p.stage.Cells[other : other+1]
	if err := faults.Kill(federation.APIServer); err != nil {
		return err
	}
	end := p.beginOutage("the core was unreachable, and no cell has a share")
	if err := p.failPods(ctx, domain); err != nil {
		return err
	}
	p.outageResult.DomainsLost++
	if err := p.supplyFor(ctx, p.outage(domainOutage), p.supplied); err != nil {
		return err
	}
	end()
	return faults.Restart(ctx, federation.APIServer)
}

// failPods makes all pods of a cell fail by themselves, as kubelets do whose nodes shut down. It returns when none is available.
func (p *play) failPods(ctx context.Context, cell int) error {
	pods := p.stage.Cells[cell].Client.CoreV1().Pods(p.app.Namespace)
	return poll(ctx, func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		left := 0
		for i := range list.Items {
			pod := &list.Items[i]
			if !available(pod) {
				continue
			}
			left++
			pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Terminated"
			if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return err
			}
		}
		if left > 0 {
			return fmt.Errorf("%d pods of cell %s were still available", left, p.stage.Cells[cell].Name)
		}
		return nil
	})
}
