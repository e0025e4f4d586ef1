package kind

import (
	"context"
	"time"

	"github.com/go-logr/logr"
)

// quiesceTimeout bounds how long quiesce may take before a node is deleted.
const quiesceTimeout = 30 * time.Second

// quiesceScript stops the kubelet and the container runtime of a node, and thaws processes that the runtime has frozen. With cgroup v1
// runc freezes the processes of a pod while it kills them. If runc dies meanwhile, it leaves them frozen. Such processes cannot be
// killed, and docker cannot delete the node for as long as the machine runs.
const quiesceScript = `systemctl stop kubelet containerd
for attempt in $(seq 100); do pgrep -x runc >/dev/null || break; sleep 0.1; done
find /sys/fs/cgroup/freezer -name freezer.state 2>/dev/null | while read -r state; do
	if grep -q FROZEN "$state"; then echo THAWED >"$state"; fi
done`

// quiesce runs quiesceScript on all nodes. A node on which it fails is deleted anyway.
func quiesce(ctx context.Context, log logr.Logger, nodes []string) {
	ctx, cancel := context.WithTimeout(ctx, quiesceTimeout)
	defer cancel()
	for _, node := range nodes {
		if _, err := docker(ctx, "exec", node, "sh", "-c", quiesceScript); err != nil {
			log.V(1).Info("Failed to stop the runtime of a node", "node", node, "error", err.Error())
		}
	}
}
