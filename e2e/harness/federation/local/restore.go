package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// restoreProgram is the program that creates a data directory from a backup.
const restoreProgram = "etcdutl"

// RestoreEtcd stops etcd, replaces its data with a backup and starts it again, as administrators do. It returns when
// etcd serves. With bump 0 the revisions return to those of the backup. Otherwise they continue from there plus bump,
// and all earlier ones count as compacted, so that a client with a newer revision has to list again.
//
// The API server, and every component that caches its answers, must not run: Kill them before and Restart them after.
func (c *Cluster) RestoreEtcd(ctx context.Context, backup string, bump uint64) error {
	program, ok := FindProgram(c.options.Binaries, restoreProgram)
	if !ok {
		return fmt.Errorf("%s is not in any of the directories %q", restoreProgram, c.options.Binaries)
	}
	if err := c.Kill(federation.Etcd); err != nil {
		return err
	}
	data := c.layout.data(federation.Etcd)
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("remove the data of etcd in cluster %s: %w", c.spec.Name, err)
	}
	peer := "https://" + c.ports[etcdPeer].Address()
	arguments := []string{
		"snapshot", "restore", backup, "--data-dir=" + data, "--name=" + c.spec.Name,
		"--initial-cluster=" + c.spec.Name + "=" + peer, "--initial-advertise-peer-urls=" + peer,
	}
	if bump > 0 {
		arguments = append(arguments, "--bump-revision="+strconv.FormatUint(bump, 10), "--mark-compacted")
	}
	if out, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("restore the etcd of cluster %s: %w", c.spec.Name, errors.Join(err, errors.New(string(out))))
	}
	return c.Restart(ctx, federation.Etcd)
}
