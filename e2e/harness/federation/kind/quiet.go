package kind

import (
	"context"
	"time"
)

// quietTimeout bounds how long a node may take to come to rest before it is deleted.
const quietTimeout = 30 * time.Second

// quiet ends what starts and ends pods on a node, and thaws what it has frozen. With cgroup v1 runc freezes the processes of a
// pod while it kills them; one that dies meanwhile leaves them frozen, such processes cannot be killed by anybody, and docker
// then cannot delete the node for as long as the machine runs.
const quiet = `systemctl stop kubelet containerd
for attempt in $(seq 100); do pgrep -x runc >/dev/null || break; sleep 0.1; done
find /sys/fs/cgroup/freezer -name freezer.state 2>/dev/null | while read -r state; do
	if grep -q FROZEN "$state"; then echo THAWED >"$state"; fi
done`

// rest brings the nodes to rest. One that does not is deleted all the same.
func (c *Cluster) rest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, quietTimeout)
	defer cancel()
	for _, node := range c.Nodes() {
		if _, err := docker(ctx, "exec", node, "sh", "-c", quiet); err != nil {
			c.log.V(1).Info("A node does not come to rest", "node", node, "error", err.Error())
		}
	}
}
