package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/federation"
)

// restoreCore takes the core back to a backup from the midst of the storm, and with it all reservations. What is in
// flight at that moment would be forgotten, and the counts are old: that nothing goes wrong then is not promised, so
// the storm pauses from when every reservation is settled until all cells are counted anew.
func restoreCore(ctx context.Context, p *play) error {
	etcd, err := dialEtcd(p.Core)
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	faults, err := faultsOf(p.Core)
	if err != nil {
		return err
	}
	backup, _, err := p.backup(ctx, etcd)
	if err != nil {
		return err
	}
	if err := p.linger(ctx, 2*time.Second, 4*time.Second); err != nil {
		return err
	}
	p.resting.Lock()
	defer p.resting.Unlock()
	truth := func(ctx context.Context) error { return p.isTruth(ctx, p.app.Namespace, application) }
	if err := await(ctx, truth); err != nil {
		return fmt.Errorf("settle before the restore: %w", err)
	}
	before, err := p.storedAt(ctx, etcd)
	if err != nil {
		return err
	}
	if err := killAllBut(faults, federation.Etcd); err != nil {
		return err
	}
	if err := restoreEtcd(ctx, p.Core, backup, bumped); err != nil {
		return err
	}
	if after, err := p.storedAt(ctx, etcd); err != nil || after >= before {
		return fmt.Errorf("the protector is of revision %d, and was of %d: nothing was undone (%w)", after, before, err)
	}
	if err := restartAllBut(ctx, faults, federation.Etcd); err != nil {
		return err
	}
	if err := await(ctx, truth); err != nil {
		return fmt.Errorf("count anew after the restore: %w", err)
	}
	return nil
}

// storedAt is the revision at which the core stored the protector.
func (p *play) storedAt(ctx context.Context, etcd *clientv3.Client) (int64, error) {
	kv, err := p.storedProtector(ctx, etcd)
	if err != nil {
		return 0, err
	}
	return kv.ModRevision, nil
}

func (p *play) storedProtector(ctx context.Context, etcd *clientv3.Client) (*mvccpb.KeyValue, error) {
	key := strings.Join([]string{"/registry", v1alpha1.GroupVersion.Group, "podprotectors", p.app.Namespace, application}, "/")
	response, err := etcd.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	if len(response.Kvs) == 0 {
		return nil, fmt.Errorf("the core has no %s", key)
	}
	return response.Kvs[0], nil
}
