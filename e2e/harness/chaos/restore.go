package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

const (
	// restoreDetectionTimeout bounds how long an aggregator may take to detect that its cell was restored.
	restoreDetectionTimeout = 30 * time.Second
	// revisionBump is the increase of revisions in a restore by an administrator who accounts for what clients remember.
	revisionBump = 1_000_000_000
)

// restoreWorker restores a worker from a backup that was taken in the middle of the storm. Pods that were removed since then exist again,
// with their UIDs. Pods that were created since then never existed.
func restoreWorker(bump uint64) fault {
	return func(ctx context.Context, p *play) error {
		i := p.random.IntN(len(p.stage.Workers))
		worker, h, etcd := p.stage.Workers[i], p.histories[i], p.stage.etcds[i]
		backup, backupRevision, err := p.stage.backup(ctx, etcd)
		if err != nil {
			return err
		}
		more := p.app
		more.Pods, more.Instance = p.plan.size().growth, "undone"
		if err := more.DeployBare(ctx, p.stage.Cells[i:i+1]); err != nil {
			return fmt.Errorf("deploy pods that the restore will remove: %w", err)
		}
		p.extraPods += more.Pods
		if err := p.waitBetween(ctx, 3*time.Second, 5*time.Second); err != nil {
			return err
		}
		counted, err := p.counted(ctx, h.cell)
		if err != nil {
			return err
		}
		last, err := p.restoreCell(ctx, worker, h, func() error { return worker.RestoreEtcd(ctx, backup, bump) })
		if err != nil {
			return err
		}
		if last <= backupRevision {
			return fmt.Errorf("the restore undid no change: the cell was at revision %d, its backup at %d", last, backupRevision)
		}
		return p.awaitCount(ctx, h, counted, last)
	}
}

// restoreCell ends an incarnation of a worker, restores, and begins the next one. It returns the last revision of the old one.
func (p *play) restoreCell(ctx context.Context, faults *local.Cluster, h *cellHistory, restore func() error) (int64, error) {
	if err := killAllButEtcd(faults); err != nil {
		return 0, err
	}
	// A request of the killed API server may be in flight in etcd. After the restart of etcd no client writes.
	if err := faults.Restart(ctx, federation.Etcd); err != nil {
		return 0, err
	}
	if err := h.end(ctx, p.app.Namespace); err != nil {
		return 0, err
	}
	last, err := revisionOf(ctx, h.etcd)
	if err != nil {
		return 0, err
	}
	at := restorePoint{ended: time.Since(p.start)}
	if err := restore(); err != nil {
		return 0, err
	}
	if err := poll(ctx, func(ctx context.Context) error { return h.begin(ctx, p.app.Namespace) }); err != nil {
		return 0, err
	}
	at.began = time.Since(p.start)
	h.began = at.began
	h.restorePoints = append(h.restorePoints, at)
	return last, restartAllButEtcd(ctx, faults)
}

// awaitCount returns when the aggregator of a cell has written its counts after the restore to the core. Removals that were admitted
// before that did not account for the pods that the restore removed.
func (p *play) awaitCount(ctx context.Context, h *cellHistory, before v1alpha1.Aggregation, last int64) error {
	ctx, cancel := context.WithTimeout(ctx, restoreDetectionTimeout)
	defer cancel()
	err := poll(ctx, func(ctx context.Context) error {
		now, err := p.counted(ctx, h.cell)
		if err != nil {
			return err
		}
		version, err := strconv.ParseInt(now.SnapshotVersion, 10, 64)
		if err != nil {
			return err
		}
		if version <= last && now.Epoch <= before.Epoch {
			return fmt.Errorf("cell %s was restored from revision %d, but its aggregator still reports %+v", h.cell, last, now)
		}
		return nil
	})
	h.restorePoints[len(h.restorePoints)-1].drained = time.Since(p.start) + requestTimeout
	if err != nil {
		return err
	}
	// The effects of the restore may be held against Breakwater only after that time, so let the storm run until then.
	return p.waitBetween(ctx, requestTimeout+time.Second, requestTimeout+2*time.Second)
}

// backup saves an etcd to a file of the stage. The returned revision is an upper bound of the revision of the file.
func (s *Stage) backup(ctx context.Context, etcd *clientv3.Client) (path string, revision int64, err error) {
	saved, err := etcd.Snapshot(ctx)
	if err != nil {
		return "", 0, fmt.Errorf("back up etcd: %w", err)
	}
	defer saved.Close()
	file, err := os.Create(filepath.Join(s.dir, "backup.db"))
	if err != nil {
		return "", 0, fmt.Errorf("back up etcd: %w", err)
	}
	_, err = io.Copy(file, saved)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", 0, fmt.Errorf("back up etcd: %w", err)
	}
	revision, err = revisionOf(ctx, etcd)
	return file.Name(), revision, err
}

// killAllButEtcd kills what writes to the etcd of a cluster, and all that reads by it.
func killAllButEtcd(cluster *local.Cluster) error {
	for _, component := range cluster.Components()[1:] { // etcd starts first
		if err := cluster.Kill(component); err != nil {
			return err
		}
	}
	return nil
}

func restartAllButEtcd(ctx context.Context, cluster *local.Cluster) error {
	for _, component := range cluster.Components()[1:] {
		if err := cluster.Restart(ctx, component); err != nil {
			return err
		}
	}
	return nil
}
