package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/federation/proxy"
)

// backUpCore backs the core up on the eve of the storm, when all pods are there and nothing is reserved.
func backUpCore(ctx context.Context, p *play) error {
	etcd, err := dialEtcd(p.Core)
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	p.coreBackup, _, err = p.backup(ctx, etcd)
	return err
}

// relapseCore takes the core back to its backup while the storm rages on. It forgets all reservations, and that pods
// have gone: as many may go once more. When it has heard how many there are it must be exact again. The dice may hold the
// aggregators back, so that the webhooks come first.
func relapseCore(ctx context.Context, p *play) error {
	faults, err := faultsOf(p.Core)
	if err != nil {
		return err
	}
	// When the cascade has ended all replacement of pods there is something to forget; and some may be on their way.
	if err := await(ctx, p.irreplaceable); err != nil {
		return err
	}
	if err := p.linger(ctx, time.Second, 3*time.Second); err != nil {
		return err
	}
	if p.relapse, err = p.takeCoreBack(ctx, faults); err != nil {
		return err
	}
	if err := p.comeBack(ctx, faults); err != nil {
		return err
	}
	// The pods that may be gone once more, and that nobody replaces.
	p.more += p.plan.size().pods - p.plan.size().floor
	if err := p.land(ctx); err != nil {
		return err
	}
	if err := p.awaitCounts(ctx); err != nil {
		return err
	}
	// From then on nothing is excused any more: let the storm meet it.
	return p.linger(ctx, requestTimeout+time.Second, requestTimeout+2*time.Second)
}

// takeCoreBack ends the core's apiserver, reads what is about to be lost, and restores.
func (p *play) takeCoreBack(ctx context.Context, faults federation.Faults) (*relapse, error) {
	etcd, err := dialEtcd(p.Core)
	if err != nil {
		return nil, err
	}
	defer func() { _ = etcd.Close() }()
	if err := killAllBut(faults, federation.Etcd); err != nil {
		return nil, err
	}
	before, err := p.storedAt(ctx, etcd)
	if err != nil {
		return nil, err
	}
	lost := &relapse{known: map[string]time.Duration{}}
	if lost.open, err = p.reservedAt(ctx, etcd); err != nil {
		return nil, err
	}
	if err := restoreEtcd(ctx, p.Core, p.coreBackup, bumped); err != nil {
		return nil, err
	}
	if after, err := p.storedAt(ctx, etcd); err != nil || after >= before {
		return nil, fmt.Errorf("the protector is of revision %d, and was of %d: nothing was undone (%w)", after, before, err)
	}
	lost.began = time.Since(p.start)
	return lost, nil
}

// irreplaceable complains while a controller makes pods.
func (p *play) irreplaceable(ctx context.Context) error {
	for _, cell := range p.Cells {
		sets, err := cell.Client.AppsV1().ReplicaSets(p.app.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range sets.Items {
			// One that is being deleted stays until its last pod has gone, and makes none.
			if set := &sets.Items[i]; set.DeletionTimestamp == nil {
				return fmt.Errorf("ReplicaSet %s of cell %s goes on", set.Name, cell.Name)
			}
		}
	}
	return nil
}

// comeBack starts the apiserver of the restored core, in front of all or in front of the webhooks first.
func (p *play) comeBack(ctx context.Context, faults federation.Faults) error {
	if p.random.IntN(2) == 0 {
		return restartAllBut(ctx, faults, federation.Etcd)
	}
	for _, way := range p.toCore(aggregatorsOf(p)) {
		if err := way.Cut(proxy.Both); err != nil {
			return err
		}
	}
	if err := restartAllBut(ctx, faults, federation.Etcd); err != nil {
		return err
	}
	if err := p.linger(ctx, 4*time.Second, 6*time.Second); err != nil {
		return err
	}
	return p.heal(ctx)
}

// reservedAt reads whose removal the core has stored a reservation for, below its apiserver.
func (p *play) reservedAt(ctx context.Context, etcd *clientv3.Client) (map[types.UID]bool, error) {
	kv, err := p.storedProtector(ctx, etcd)
	if err != nil {
		return nil, err
	}
	stored := &v1alpha1.PodProtector{}
	if err := json.Unmarshal(kv.Value, stored); err != nil {
		return nil, fmt.Errorf("decode %s: %w", kv.Key, err)
	}
	reserved := map[types.UID]bool{}
	for _, cell := range stored.Status.Cells {
		for _, bucket := range cell.AdmissionHistory.Buckets {
			if bucket.PodUID == "" {
				return nil, fmt.Errorf("%d reservations of cell %s are merged: who they are for is not told", bucket.Counter, cell.CellID)
			}
			reserved[bucket.PodUID] = true
		}
	}
	return reserved, nil
}

// land returns when no removal is under way any more that was admitted before the relapse: each has taken effect, or
// its apiserver has given it up.
func (p *play) land(ctx context.Context) error {
	landing, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_ = await(landing, func(ctx context.Context) error { // when the time is up it has been given up
		for i, etcd := range p.etcds {
			pods, _, err := podsAt(ctx, etcd, p.app.Namespace)
			if err != nil {
				return err
			}
			for _, pod := range pods {
				if p.relapse.open[pod.Pod.UID] && available(pod.Pod) {
					return fmt.Errorf("%s/%s may still go", p.Cells[i].Name, pod.Key)
				}
			}
		}
		return nil
	})
	return context.Cause(ctx)
}

// awaitCounts returns when the restored core has heard of all that happened in the cells up to now.
func (p *play) awaitCounts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, noticed)
	defer cancel()
	upTo := make([]int64, len(p.histories))
	for i, h := range p.histories {
		changes, err := podsAfter(ctx, h.etcd, p.app.Namespace, h.from)
		if err != nil {
			return err
		}
		if n := len(changes); n > 0 {
			upTo[i] = changes[n-1].Number
		}
	}
	for i, h := range p.histories {
		err := await(ctx, func(ctx context.Context) error {
			now, err := p.counted(ctx, h.cell)
			if err != nil {
				return err
			}
			version, err := strconv.ParseInt(now.SnapshotVersion, 10, 64)
			if err != nil || version < upTo[i] {
				return fmt.Errorf("cell %s has changed at %d, and the restored core says %+v (%w)", h.cell, upTo[i], now, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		p.relapse.known[h.cell] = time.Since(p.start) + requestTimeout
	}
	return nil
}
