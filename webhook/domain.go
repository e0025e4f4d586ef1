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
	// labelMemory is how long the labels of a node are believed, and lackMemory that one is not there, or that they cannot be read.
	labelMemory, lackMemory = time.Minute, 2 * time.Second
	// labelTime bounds a read of them. Who waits longer takes the domain of the pod for unknown, which is the worst.
	labelTime = time.Second
	// mostNodes bounds the memory of a cell: a node takes about a kilobyte of it.
	mostNodes = 5000
)

// locate finds out the domain of a pod for the protectors that mind the loss of others. It is asked of the pod's node: the labels of
// the topology that apiservers put on pods when they are bound (since 1.35) are the pod's own afterwards, which whoever may change
// the pod may change, and which an older apiserver leaves to whoever made it.
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

// nodeLabels are the labels of nodes. They are safe for concurrent use.
type nodeLabels struct {
	// reach returns what reads the metadata of a cell.
	reach   func(cell string) (metadata.Interface, error)
	reading singleflight.Group

	mu    sync.Mutex
	known map[string]map[string]labelled
}

// labelled is what a node was like; err is why it could not be read.
type labelled struct {
	at     time.Time
	labels map[string]string
	err    error
}

// has tells whether it is known still what a label is, or that there is none.
func (l labelled) has(key string) bool {
	memory := lackMemory
	if _, ok := l.labels[key]; ok {
		memory = labelMemory
	}
	return !l.at.IsZero() && time.Since(l.at) < memory
}

// label is a label of a node. The error tells why it is not known.
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

// readOnce reads a node, together with all who ask for it at the time.
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
		return result.Val.(labelled) //nolint:forcetypeassert // nothing else is returned
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
