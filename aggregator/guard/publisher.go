package guard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Publisher publishes in the cell's cluster which pods are protected, for node guards. Each slot of namespaces has ConfigMaps of its
// own, which the shard that has the slot writes. No ConfigMap is deleted: a node guard must not mistake the loss of one for the end of a
// protector.
type Publisher struct {
	index *guardIndex
	// prefix begins the names of the ConfigMaps: that of the Cell, and a hash of its UID, because cells of other cores may have its name.
	prefix     string
	cell       string
	configMaps corev1client.ConfigMapInterface
	Protectors toolscache.Store
	Newest     func(context.Context, types.NamespacedName) (*v1alpha1.PodProtector, error)
	// Writable returns the slots that the leadership can write.
	Writable func() slot.Set
	// Draining reports that the Cell is being deleted. Then it protects no pods.
	Draining func() bool
	Now      func() time.Time
	Log      logr.Logger

	// stored are the ConfigMaps as they were last read or written; nil before they are read. slots are those of the last round.
	stored map[string]*corev1.ConfigMap
	// versions are the highest ones that this process has seen, also in earlier leaderships. A ConfigMap with a lower one was restored.
	versions map[string]int64
	readAt   time.Time
	slots    slot.Set
}

const (
	// publishEvery is how often changes are gathered and published.
	publishEvery = 5 * time.Second
	// rereadEvery is how often the ConfigMaps are compared with those in the cell's cluster, which may have been restored.
	rereadEvery     = time.Minute
	publishedPrefix = "breakwater-protected-"
	// emptyPart is the list of a ConfigMap that is not needed any more.
	emptyPart = "[]"
)

// NewPublisher returns the publisher of a leadership. versions are kept between leaderships of one process.
func NewPublisher(cell *v1alpha1.Cell, pods scope.Scope, configMaps corev1client.ConfigMapInterface, versions map[string]int64) *Publisher {
	hash := sha256.Sum256([]byte(cell.UID))
	return &Publisher{
		index: &guardIndex{cell: cell.Name, scope: pods}, prefix: publishedPrefix + cell.Name + "-" + hex.EncodeToString(hash[:4]) + "-",
		cell: cell.Name, configMaps: configMaps, versions: versions,
	}
}

// Run publishes until ctx ends.
func (g *Publisher) Run(ctx context.Context) {
	if g == nil {
		return
	}
	repeatLogged(ctx, publishEvery, g.publish, g.Log, "Failed to publish for node guards which pods are protected")
}

// repeatLogged calls do again and again until ctx ends, and logs each error once until do succeeds or fails differently.
func repeatLogged(ctx context.Context, every time.Duration, do func(context.Context) error, log logr.Logger, message string) {
	lastError := ""
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		err := do(ctx)
		if text := fmt.Sprint(err); err != nil && ctx.Err() == nil && text != lastError {
			log.Error(err, message)
			lastError = text
		} else if err == nil {
			lastError = ""
		}
	}, every)
}

// publish writes what has changed.
func (g *Publisher) publish(ctx context.Context) error {
	slots := g.Writable()
	if !slots.Minus(g.slots).Empty() {
		g.stored = nil // another shard may have written those of the new slots
	}
	g.slots = slots
	var protectors []*v1alpha1.PodProtector
	if !g.Draining() {
		protectors = g.list()
	}
	g.index.update(slots, protectors, func(key types.NamespacedName) (*v1alpha1.PodProtector, error) {
		p, err := g.Newest(ctx, key)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return p, err
	})
	if g.stored == nil || g.Now().Sub(g.readAt) >= rereadEvery {
		if err := g.read(ctx); err != nil {
			return err
		}
		g.index.changed = slots
	}
	for n := range g.index.changed.And(slots).Minus(g.index.incomplete).Each() {
		if !g.Writable().Has(n) {
			continue
		}
		if err := g.publishSlot(ctx, n); err != nil {
			g.stored = nil // another shard may have written it
			return err
		}
		g.index.changed = g.index.changed.Minus(slot.Set{}.With(n))
	}
	return nil
}

func (g *Publisher) list() []*v1alpha1.PodProtector {
	stored := g.Protectors.List()
	protectors := make([]*v1alpha1.PodProtector, 0, len(stored))
	for _, object := range stored {
		if p, ok := object.(*v1alpha1.PodProtector); ok {
			protectors = append(protectors, p)
		}
	}
	return protectors
}

// read reads the ConfigMaps of this cell.
func (g *Publisher) read(ctx context.Context) error {
	list, err := g.configMaps.List(ctx, metav1.ListOptions{LabelSelector: podhold.LabelProtected + "=" + g.cell})
	if err != nil {
		return fmt.Errorf("read ConfigMaps: %w", err)
	}
	g.stored, g.readAt = map[string]*corev1.ConfigMap{}, g.Now()
	for i := range list.Items {
		found := &list.Items[i]
		if !strings.HasPrefix(found.Name, g.prefix) {
			continue
		}
		version, _ := strconv.ParseInt(found.Annotations[podhold.AnnotationVersion], 10, 64) // a user who removed it gets another one
		if version < g.versions[found.Name] {
			found.Data = nil // node guards ignore it until it is written again
		}
		g.versions[found.Name] = max(version, g.versions[found.Name])
		g.stored[found.Name] = found
	}
	return nil
}

// publishSlot writes the ConfigMaps of a slot that have changed. There is always one in slot 0: node guards do not know a list without any
// from one that was lost.
func (g *Publisher) publishSlot(ctx context.Context, n int) error {
	parts := g.index.parts(n)
	if n == 0 && len(parts) == 0 {
		parts = []string{emptyPart}
	}
	for i, part := range parts {
		if err := g.write(ctx, g.name(n, i), part); err != nil {
			return err
		}
	}
	for i := len(parts); g.stored[g.name(n, i)] != nil; i++ {
		if err := g.write(ctx, g.name(n, i), emptyPart); err != nil {
			return err
		}
	}
	return nil
}

func (g *Publisher) name(n, part int) string { return fmt.Sprintf("%s%d-%d", g.prefix, n, part) }

// write writes a ConfigMap, unless it is stored like that.
func (g *Publisher) write(ctx context.Context, name, content string) error {
	stored := g.stored[name]
	if stored != nil && stored.Data[podhold.ProtectedKey] == content {
		return nil
	}
	version := max(g.Now().UnixMilli(), g.versions[name]+1) // the clock of another process may have been ahead
	next := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{podhold.LabelProtected: g.cell, policy.LabelManagedBy: "breakwater-aggregator"},
			Annotations: map[string]string{podhold.AnnotationVersion: strconv.FormatInt(version, 10)},
		},
		Data: map[string]string{podhold.ProtectedKey: content},
	}
	var err error
	if stored == nil {
		next, err = g.configMaps.Create(ctx, next, metav1.CreateOptions{})
	} else {
		next.ResourceVersion = stored.ResourceVersion
		next, err = g.configMaps.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", name, err)
	}
	g.stored[name], g.versions[name] = next, version
	return nil
}
