package chaos

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// eraseProtectors deletes the protectors of the application from the core's etcd in the middle of the storm, bypassing the API server. The
// API server either runs, and reports the deletion, or is down. The protectors must stay in force and be recreated.
func eraseProtectors(ctx context.Context, p *play) error {
	before, err := p.protector(ctx)
	if err != nil {
		return err
	}
	faults, err := faultsOf(p.stage.Core)
	if err != nil {
		return err
	}
	etcd, err := dialEtcd(p.stage.Core)
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	uncached := p.random.IntN(2) == 0
	if uncached {
		if err := faults.Kill(federation.APIServer); err != nil {
			return err
		}
	}
	erased, err := etcd.Delete(ctx, protectorsKey(p.app.Namespace), clientv3.WithPrefix())
	if err != nil || erased.Deleted == 0 {
		return fmt.Errorf("erase %d protectors: %w", erased.Deleted, err)
	}
	if uncached {
		if err := faults.Restart(ctx, federation.APIServer); err != nil {
			return err
		}
	}
	err = poll(ctx, func(ctx context.Context) error {
		now, err := p.protector(ctx)
		if err != nil {
			return err
		}
		if now.UID == before.UID || !meta.IsStatusConditionTrue(now.Status.Conditions, v1alpha1.ConditionRestored) {
			return fmt.Errorf("protector %s (UID %s) was not recreated: %+v", now.Name, before.UID, now.ObjectMeta)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Let the storm run until the protector is counted, and after.
	return p.waitBetween(ctx, requestTimeout+4*time.Second, requestTimeout+6*time.Second)
}
