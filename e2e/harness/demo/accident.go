package demo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// accident deletes the namespace of the application in the core cluster. The cascade deletes the source Deployment, from which
// the floor is derived.
type accident struct {
	core      client.Client
	namespace string
}

// Name implements storm.Attack.
func (accident) Name() string { return "namespace deleted in the core" }

// Run implements storm.Attack.
func (a accident) Run(ctx context.Context, tally *storm.Tally) error {
	err := a.core.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}})
	if ctx.Err() == nil {
		tally.Observe(err)
	}
	return nil
}

// createSource creates the source of an application in the core cluster, as its owner does.
func (d *demo) createSource(ctx context.Context, app storm.Application) error {
	core, err := install.Client(d.core)
	if err != nil {
		return err
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: app.Namespace}}, sourceDeployment(app, d.options.Floor),
	} {
		if err := core.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s in cluster %s: %w", object.GetName(), d.core.Name(), err)
		}
	}
	return nil
}
