package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

// backUpCore backs the core up right before the storm, when all pods exist and nothing is reserved.
func backUpCore(ctx context.Context, p *play) error {
	etcd, err := p.stage.Core.DialEtcd()
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	p.coreBackup, _, err = p.stage.backup(ctx, etcd)
	return err
}

// restoreCoreDuringStorm restores the core from its backup of before the storm while the storm continues. The restored core has lost all reservations
// and the removals since, and some removals are in flight. Webhooks that watched the core must admit nothing until all cells are counted
// again. The dice may delay the aggregators, so that the webhooks connect first.
func restoreCoreDuringStorm(ctx context.Context, p *play) error {
	// Once the cascade has ended all replacement of pods, the restore loses something; and some removals may be in flight.
	if err := poll(ctx, p.checkNoPodCreation); err != nil {
		return err
	}
	if err := p.waitBetween(ctx, time.Second, 3*time.Second); err != nil {
		return err
	}
	if err := p.restoreCoreEtcd(ctx); err != nil {
		return err
	}
	if err := p.restartCore(ctx); err != nil {
		return err
	}
	return p.waitBetween(ctx, requestTimeout+time.Second, requestTimeout+2*time.Second)
}

// restoreCoreEtcd kills all of the core except its etcd, and restores the etcd from the backup.
func (p *play) restoreCoreEtcd(ctx context.Context) error {
	etcd, err := p.stage.Core.DialEtcd()
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	if err := killAllButEtcd(p.stage.Core); err != nil {
		return err
	}
	before, err := protectorRevision(ctx, etcd, p.app.Namespace)
	if err != nil {
		return err
	}
	if err := p.stage.Core.RestoreEtcd(ctx, p.coreBackup, revisionBump); err != nil {
		return err
	}
	if after, err := protectorRevision(ctx, etcd, p.app.Namespace); err != nil || after >= before {
		return fmt.Errorf("the protector is at revision %d and was at %d: the restore undid no change (%w)", after, before, err)
	}
	return nil
}

// checkNoPodCreation returns an error while a controller creates pods.
func (p *play) checkNoPodCreation(ctx context.Context) error {
	for _, cell := range p.stage.Cells {
		sets, err := cell.Client.AppsV1().ReplicaSets(p.app.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range sets.Items {
			// A ReplicaSet that is being deleted stays until its last pod is deleted, and creates none.
			if set := &sets.Items[i]; set.DeletionTimestamp == nil {
				return fmt.Errorf("ReplicaSet %s of cell %s still creates pods", set.Name, cell.Name)
			}
		}
	}
	return nil
}

// restartCore starts the API server of the restored core, either reachable for all, or at first only for the webhooks.
func (p *play) restartCore(ctx context.Context) error {
	if p.random.IntN(2) == 0 {
		return restartAllButEtcd(ctx, p.stage.Core)
	}
	for _, conn := range p.stage.coreProxies(aggregatorsOf(p)) {
		if err := conn.Cut(proxy.Both); err != nil {
			return err
		}
	}
	if err := restartAllButEtcd(ctx, p.stage.Core); err != nil {
		return err
	}
	if err := p.waitBetween(ctx, 4*time.Second, 6*time.Second); err != nil {
		return err
	}
	return p.stage.heal(ctx)
}

// protectorsKey returns the etcd prefix of the protectors of a namespace.
func protectorsKey(namespace string) string {
	return strings.Join([]string{"/registry", v1alpha1.GroupVersion.Group, "podprotectors", namespace}, "/") + "/"
}

// protectorRevision returns the revision of the protector of the application in the core's etcd.
func protectorRevision(ctx context.Context, etcd *clientv3.Client, namespace string) (int64, error) {
	key := protectorsKey(namespace) + application
	response, err := etcd.Get(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", key, err)
	}
	if len(response.Kvs) == 0 {
		return 0, fmt.Errorf("the core's etcd has no key %s", key)
	}
	return response.Kvs[0].ModRevision, nil
}
