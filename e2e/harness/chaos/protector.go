package chaos

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// protect creates a namespace in the core, and a protector of an application in it.
func (s *Stage) protect(ctx context.Context, namespace, name string, floor int, configure func(*v1alpha1.PodProtectorSpec)) error {
	// Scenarios are torn down on purpose, one after the other, so the release of their protectors is confirmed beforehand.
	confirmed := map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: confirmed}}
	if err := s.protectors.Create(ctx, object); err != nil {
		return fmt.Errorf("create namespace %s in cluster %s: %w", namespace, s.Core.Name(), err)
	}
	return s.createProtector(ctx, namespace, name, floor, configure)
}

// createProtector creates a protector of an application.
func (s *Stage) createProtector(
	ctx context.Context, namespace, name string, floor int, configure func(*v1alpha1.PodProtectorSpec),
) error {
	rate := int32(200)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": name}}
	p.Spec.MinAvailable = v1alpha1.Pods(int32(floor))
	p.Spec.AdmissionHistory.AggregationRateMillis = &rate
	configure(&p.Spec)
	if err := s.protectors.Create(ctx, p); err != nil {
		return fmt.Errorf("create protector %s in cluster %s: %w", name, s.Core.Name(), err)
	}
	return nil
}

// protector returns the protector of the application.
func (p *play) protector(ctx context.Context) (*v1alpha1.PodProtector, error) {
	protector := &v1alpha1.PodProtector{}
	err := p.stage.protectors.Get(ctx, client.ObjectKey{Namespace: p.app.Namespace, Name: application}, protector)
	return protector, err
}

// checkStatus returns an error unless the status of the protector is true: it must count the pods in the etcds, and reserve nothing.
func (p *play) checkStatus(ctx context.Context) error {
	total := 0
	for _, etcd := range p.stage.etcds {
		pods, _, err := podsAt(ctx, etcd, p.app.Namespace)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if available(pod.Pod) {
				total++
			}
		}
	}
	protector, err := p.protector(ctx)
	if err != nil {
		return err
	}
	status := protector.Status
	if got := status.Summary; int(got.Available) != total || got.Reserved != 0 || len(status.Cells) != len(p.stage.Cells) {
		return fmt.Errorf("%d pods are available, the status of %d cells has %+v", total, len(status.Cells), got)
	}
	return nil
}

// counted returns the counts of a cell in the status.
func (p *play) counted(ctx context.Context, cell string) (v1alpha1.Aggregation, error) {
	entry, err := p.entry(ctx, cell)
	switch {
	case err != nil:
		return v1alpha1.Aggregation{}, err
	case entry == nil:
		return v1alpha1.Aggregation{}, fmt.Errorf("the status has no cell %s", cell)
	}
	return entry.Aggregation, nil
}

// entry returns the entry of a cell in the status; nil if there is none.
func (p *play) entry(ctx context.Context, cell string) (*v1alpha1.PodProtectorCell, error) {
	protector, err := p.protector(ctx)
	if err != nil {
		return nil, err
	}
	for i := range protector.Status.Cells {
		if protector.Status.Cells[i].CellID == cell {
			return &protector.Status.Cells[i], nil
		}
	}
	return nil, nil
}

// holder returns the leader of the aggregation of a cell.
func (s *Stage) holder(ctx context.Context, worker *local.Cluster) (string, error) {
	cell := &v1alpha1.Cell{}
	err := s.protectors.Get(ctx, client.ObjectKey{Name: worker.Name()}, cell)
	return cell.Status.Aggregator.Holder, err
}

// release deletes a protector, and returns when it does not exist any more.
func (s *Stage) release(ctx context.Context, namespace, name string) error {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	err := client.IgnoreNotFound(s.protectors.Delete(ctx, p))
	return errors.Join(err, poll(ctx, func(ctx context.Context) error {
		err := s.protectors.Get(ctx, key, p)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("protector %s still exists, with finalizers %q", key, p.Finalizers))
	}))
}

// clear releases a scenario's protectors and deletes its namespace, so that nothing of it continues.
func (s *Stage) clear(ctx context.Context, namespace string, names ...string) error {
	var all []error
	for _, name := range names {
		all = append(all, s.release(ctx, namespace, name))
	}
	for _, cell := range s.Cells {
		all = append(all, client.IgnoreNotFound(cell.Client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})))
	}
	return errors.Join(all...)
}
