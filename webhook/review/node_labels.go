package review

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const (
	// labelTTL is how long a label of a node is cached. missingLabelTTL is how long its absence, or a failed read, is
	// cached.
	labelTTL, missingLabelTTL = time.Minute, 2 * time.Second
	// labelReadTimeout limits a read of node labels. A request that would wait longer treats the domain of the pod as unknown,
	// which is the worst case.
	labelReadTimeout = time.Second
	// maxCachedNodes limits the cache of a cell: a node takes about a kilobyte.
	maxCachedNodes = 5000
)

// nodeLabelCache caches the labels of nodes. It is safe for concurrent use.
type nodeLabelCache struct {
	// clientFor returns the metadata client of a cell.
	clientFor func(cell string) (metadata.Interface, error)
	now       func() time.Time
	reading   singleflight.Group

	mu      sync.Mutex
	entries map[string]map[string]nodeEntry
}

// resolveDomains determines the domain of a pod for the protectors that tolerate the loss of a domain
// (spec.spread.tolerateDomainLoss). It reads the labels of the pod's node, not of the pod. API servers put topology
// labels on pods when they are bound (since 1.35), but any user who may update the pod may change them afterwards. An
// older API server leaves them to the creator of the pod.
func (n *nodeLabelCache) resolveDomains(ctx context.Context, cell string, r removal.Request, charges []removal.Charge) {
	for i := range charges {
		c := &charges[i]
		if key := removal.DomainLossTopologyKey(c.Protector); key != "" {
			value, err := n.label(ctx, nodeKey{cell, r.Pod.Spec.NodeName}, key)
			if err != nil {
				c.DomainErr = err
				continue
			}
			c.Domain = quota.Domain{TopologyKey: key, Name: value}
		}
	}
}

// nodeKey names a node of a cell.
type nodeKey struct{ cell, name string }

// nodeEntry is the cached state of a node; err is the reason why it could not be read.
type nodeEntry struct {
	at     time.Time
	labels map[string]string
	err    error
}

// isFreshFor reports whether the cached state still answers what the value of a label is, or that the label does not exist.
func (e nodeEntry) isFreshFor(key string, now time.Time) bool {
	ttl := missingLabelTTL
	if _, ok := e.labels[key]; ok {
		ttl = labelTTL
	}
	return !e.at.IsZero() && now.Sub(e.at) < ttl
}

// label returns the value of a label of a node. The error is the reason why the value is unknown.
func (n *nodeLabelCache) label(ctx context.Context, id nodeKey, key string) (string, error) {
	found := n.cached(id)
	if !found.isFreshFor(key, n.now()) {
		found = n.readOnce(ctx, id)
	}
	return removal.NodeLabel(id.name, found.labels, found.err, key)
}

func (n *nodeLabelCache) cached(id nodeKey) nodeEntry {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.entries[id.cell][id.name]
}

// readOnce reads a node, once for all concurrent callers.
func (n *nodeLabelCache) readOnce(ctx context.Context, id nodeKey) nodeEntry {
	timeout := labelReadTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/4)
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	read := n.reading.DoChan(id.cell+"/"+id.name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), labelReadTimeout)
		defer cancel()
		found := n.read(ctx, id)
		n.store(id, found)
		return found, nil
	})
	select {
	case result := <-read:
		return result.Val.(nodeEntry) //nolint:forcetypeassert // the function returns nothing else
	case <-waiting.Done():
		return nodeEntry{err: waiting.Err()}
	}
}

func (n *nodeLabelCache) read(ctx context.Context, id nodeKey) nodeEntry {
	objects, err := n.clientFor(id.cell)
	if err != nil {
		return nodeEntry{at: n.now(), err: err}
	}
	found, err := objects.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).Get(ctx, id.name, metav1.GetOptions{})
	if err != nil {
		return nodeEntry{at: n.now(), err: err}
	}
	return nodeEntry{at: n.now(), labels: found.Labels}
}

func (n *nodeLabelCache) store(id nodeKey, found nodeEntry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	cell := n.entries[id.cell]
	if len(cell) >= maxCachedNodes {
		maps.DeleteFunc(cell, func(_ string, e nodeEntry) bool { return n.now().Sub(e.at) >= labelTTL })
	}
	if cell == nil || len(cell) >= maxCachedNodes {
		cell = map[string]nodeEntry{}
	}
	if n.entries == nil {
		n.entries = map[string]map[string]nodeEntry{}
	}
	cell[id.name] = found
	n.entries[id.cell] = cell
}
