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

// restorer is the program that makes a data folder of a backup.
const restorer = "etcdutl"

// RestoreEtcd ends etcd, puts a backup in the place of its data and starts it again, as its administrators do. It
// returns when etcd serves. With 0 the revisions go back to those of the backup; with more they go on from there plus
// bump, and all before count as compacted, so that a client which knows revisions of the lost time has to list anew.
//
// The apiserver must not run, nor anything that remembers what it said: Kill them before and Restart them after.
func (c *Cluster) RestoreEtcd(ctx context.Context, backup string, bump uint64) error {
	program, ok := FindProgram(c.options.Binaries, restorer)
	if !ok {
		return fmt.Errorf("%s is in none of the folders %q", restorer, c.options.Binaries)
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
