package webhook

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
	// labelMemory is how long a label of a node is cached. lackMemory is how long its absence, or a failed read, is
	// cached.
	labelMemory, lackMemory = time.Minute, 2 * time.Second
	// labelTime limits a read of node labels. A request that would wait longer treats the domain of the pod as unknown,
	// which is the worst case.
	labelTime = time.Second
	// mostNodes limits the cache of a cell: a node takes about a kilobyte.
	mostNodes = 5000
)

// locate determines the domain of a pod for the protectors that tolerate the loss of a domain
// (spec.spread.tolerateDomainLoss). It reads the labels of the pod's node, not of the pod. API servers put topology
// labels on pods when they are bound (since 1.35), but any user who may update the pod may change them afterwards. An
// older API server leaves them to the creator of the pod.
func (p *Protection) locate(ctx context.Context, cell string, r removal.Request, charges []removal.Charge) {
	for i := range charges {
		c := &charges[i]
		if key := removal.Minds(c.Protector); key != "" {
			value, err := p.nodes.label(ctx, node{cell, r.Pod.Spec.NodeName}, key)
			if err != nil {
				c.Unlocated = err
				continue
			}
			c.Domain = quota.Domain{TopologyKey: key, Name: value}
		}
	}
}

// nodeLabels caches the labels of nodes. It is safe for concurrent use.
type nodeLabels struct {
	// reach returns the metadata client of a cell.
	reach   func(cell string) (metadata.Interface, error)
	reading singleflight.Group

	mu    sync.Mutex
	known map[string]map[string]labelled
}

// labelled is the cached state of a node; err is the reason why it could not be read.
type labelled struct {
	at     time.Time
	labels map[string]string
	err    error
}

// has reports whether the cached state still answers what the value of a label is, or that the label does not exist.
func (l labelled) has(key string) bool {
	memory := lackMemory
	if _, ok := l.labels[key]; ok {
		memory = labelMemory
	}
	return !l.at.IsZero() && time.Since(l.at) < memory
}

// label returns the value of a label of a node. The error is the reason why the value is unknown.
func (n *nodeLabels) label(ctx context.Context, of node, key string) (string, error) {
	found := n.remembered(of)
	if !found.has(key) {
		found = n.readOnce(ctx, of)
	}
	return removal.LabelOf(of.name, found.labels, found.err, key)
}

func (n *nodeLabels) remembered(of node) labelled {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known[of.cell][of.name]
}

// readOnce reads a node, once for all concurrent callers.
func (n *nodeLabels) readOnce(ctx context.Context, of node) labelled {
	patience := labelTime
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/4)
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	read := n.reading.DoChan(of.cell+"/"+of.name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), labelTime)
		defer cancel()
		found := n.read(ctx, of)
		n.remember(of, found)
		return found, nil
	})
	select {
	case result := <-read:
		return result.Val.(labelled) //nolint:forcetypeassert // the function returns nothing else
	case <-waiting.Done():
		return labelled{err: waiting.Err()}
	}
}

func (n *nodeLabels) read(ctx context.Context, of node) labelled {
	objects, err := n.reach(of.cell)
	if err != nil {
		return labelled{at: time.Now(), err: err}
	}
	found, err := objects.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).Get(ctx, of.name, metav1.GetOptions{})
	if err != nil {
		return labelled{at: time.Now(), err: err}
	}
	return labelled{at: time.Now(), labels: found.Labels}
}

func (n *nodeLabels) remember(of node, found labelled) {
	n.mu.Lock()
	defer n.mu.Unlock()
	cell := n.known[of.cell]
	if len(cell) >= mostNodes {
		maps.DeleteFunc(cell, func(_ string, l labelled) bool { return time.Since(l.at) >= labelMemory })
	}
	if cell == nil || len(cell) >= mostNodes {
		cell = map[string]labelled{}
	}
	if n.known == nil {
		n.known = map[string]map[string]labelled{}
	}
	cell[of.name] = found
	n.known[of.cell] = cell
}
