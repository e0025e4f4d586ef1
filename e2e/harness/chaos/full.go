package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

const (
	// quota is the size limit of the etcd of a core. It is small, so that etcd can be filled in a few seconds.
	quota = 128 << 20
	// fillerPrefix is the key prefix of the data that fills etcd.
	fillerPrefix = "/chaos/ballast/"
)

// limitCore sets the quota of the etcd of a core.
func limitCore(cluster federation.ClusterSpec) []string {
	if !cluster.HasRole(federation.Core) {
		return nil
	}
	return []string{fmt.Sprintf("--quota-backend-bytes=%d", quota)}
}

// fillCore fills the core's etcd until it accepts no more writes, as a full disk or an etcd without compaction does. Later it frees space
// as the documentation of etcd states.
func fillCore(ctx context.Context, p *play) error {
	etcd, err := p.stage.Core.DialEtcd()
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }()
	chunk := strings.Repeat("x", 1<<20)
	for i := 0; !hasCode(err, codes.ResourceExhausted); i++ {
		if err != nil || i > 2*quota>>20 {
			return fmt.Errorf("fill the core's etcd with %d MiB: %w", i, err)
		}
		_, err = etcd.Put(ctx, fmt.Sprint(fillerPrefix, i), chunk)
	}
	end := p.beginOutage("the core's etcd was full")
	if err := p.waitBetween(ctx, requestTimeout+4*time.Second, requestTimeout+8*time.Second); err != nil {
		return err
	}
	end()
	if _, err := etcd.Delete(ctx, fillerPrefix, clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("free space in the core's etcd: %w", err)
	}
	return freeSpace(ctx, etcd)
}

// hasCode reports whether an etcd refused a request with this code: ResourceExhausted if it is full, OutOfRange for a compacted revision.
func hasCode(err error, code codes.Code) bool {
	var denial interface{ Code() codes.Code }
	return errors.As(err, &denial) && denial.Code() == code
}

// freeSpace compacts an etcd, frees the space, and disarms its alarm.
func freeSpace(ctx context.Context, etcd *clientv3.Client) error {
	head, err := revisionOf(ctx, etcd)
	if err != nil {
		return err
	}
	if _, err := etcd.Compact(ctx, head, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compact the core's etcd: %w", err)
	}
	if _, err := etcd.Defragment(ctx, etcd.Endpoints()[0]); err != nil {
		return fmt.Errorf("defragment the core's etcd: %w", err)
	}
	if _, err := etcd.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("disarm the alarm of the core's etcd: %w", err)
	}
	return nil
}
