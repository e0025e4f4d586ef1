package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

const (
	// maxChunks is the maximum number of megabytes that are written to a full disk, far less than etcd's own quota.
	maxChunks = 16
	// diskFullTimeout bounds how long etcd may take to detect that its disk is full.
	diskFullTimeout = 20 * time.Second
)

// diskAccess is a cluster whose disks can be filled.
type diskAccess interface {
	FillDisk(component federation.Component) error
	FreeDisk(component federation.Component) error
}

// fillDisk leaves the core's etcd no room on its disk. etcd then exits, and each restart fails, until there is room again. fillDisk checks
// that etcd exited and why: an etcd that keeps running would be no fault.
func fillDisk(ctx context.Context, p *play) error {
	disk, ok := p.stage.Core.(diskAccess)
	if !ok {
		return fmt.Errorf("the disk of cluster %s cannot be filled", p.stage.Core.Name())
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
	if err := disk.FillDisk(federation.Etcd); err != nil {
		return err
	}
	if err := p.stage.writeUntilFull(ctx, etcd); err != nil {
		return err
	}
	end := p.beginOutage("the disk of the core's etcd was full")
	for range 1 + p.random.IntN(2) {
		if err := p.waitBetween(ctx, 2*time.Second, 4*time.Second); err != nil {
			return err
		}
		if err := faults.Restart(ctx, federation.Etcd); err == nil {
			return fmt.Errorf("etcd of cluster %s started although its disk is full", p.stage.Core.Name())
		}
		if err := p.stage.awaitFullDiskExit(ctx); err != nil {
			return err
		}
	}
	if err := p.waitBetween(ctx, requestTimeout, requestTimeout+4*time.Second); err != nil {
		return err
	}
	end()
	if err := disk.FreeDisk(federation.Etcd); err != nil {
		return err
	}
	if err := faults.Restart(ctx, federation.Etcd); err != nil {
		return fmt.Errorf("start etcd after the disk has space again: %w", err)
	}
	return deleteFiller(ctx, etcd)
}

// writeUntilFull writes until etcd has exited: the storm alone could take a while to reach the end of a file.
func (s *Stage) writeUntilFull(ctx context.Context, etcd *clientv3.Client) error {
	writing, stop := context.WithTimeout(ctx, diskFullTimeout)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer stop()
	writer.Go(func() {
		chunk := strings.Repeat("x", 1<<20)
		for i := 0; i < maxChunks && writing.Err() == nil; i++ {
			_, _ = etcd.Put(writing, fmt.Sprint(fillerPrefix, i), chunk) // the exit of etcd shows if it was the last
		}
	})
	return s.awaitFullDiskExit(ctx)
}

// awaitFullDiskExit returns when the core's etcd has exited by itself because a write was refused.
func (s *Stage) awaitFullDiskExit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, diskFullTimeout)
	defer cancel()
	select {
	case death := <-s.federation.Deaths():
		if death.Cluster == s.Core.Name() && death.Component == federation.Etcd && strings.Contains(death.Tail, syscall.EFBIG.Error()) {
			return nil
		}
		return fmt.Errorf("want etcd to exit because its disk is full: %w", death)
	case <-ctx.Done():
		return fmt.Errorf("etcd of cluster %s still runs although its disk is full: %w", s.Core.Name(), context.Cause(ctx))
	}
}

// deleteFiller deletes the data that filled the disk. An etcd that has just started may not have a leader yet.
func deleteFiller(ctx context.Context, etcd *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	return poll(ctx, func(ctx context.Context) error {
		if _, err := etcd.Delete(ctx, fillerPrefix, clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("free space in the core's etcd: %w", err)
		}
		return nil
	})
}
