package clusters

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
)

const (
	// secretsInterval is how often the registry reads the Secrets of Cells.
	secretsInterval = 5 * time.Second
	// connectTimeout bounds how long a cluster may take to return its identity.
	connectTimeout = 10 * time.Second
)

// RegisteredCell is a Cell with the connection to its cluster.
type RegisteredCell struct {
	Cell  *v1alpha1.Cell
	Scope scope.Scope
	// Connection is nil while there is none; Cluster is the cluster that it leads to. The connection stays in use when its kubeconfig is
	// deleted, or is replaced by one that does not work. It ends when the Cell no longer allows what it needs.
	Connection *RotatingConnection
	Cluster    string
	// Err is a Problem with the current kubeconfig; nil when it is in use, or when the Cell refers to none.
	Err error

	kubeconfig fingerprint
	exposure   exposure
}

// CellRegistry follows the Cells of one core cluster, and the connections to the clusters that have a kubeconfig Secret. Users create and delete
// Cells and rotate kubeconfigs while the process runs.
type CellRegistry struct {
	// NamesOnly makes the registry read no Secrets. It then has the Cells and their scopes, but no connections. Set it before Start.
	NamesOnly bool
	// Changed is called for each Cell that was added, deleted or changed; it may be nil.
	Changed func(name string)

	cache        cache.Cache
	live         client.Reader
	component    string
	log          logr.Logger
	syncRequests chan struct{}

	mu     sync.RWMutex
	cells  map[string]RegisteredCell
	synced bool
}

// NewCellRegistry returns a registry of a core cluster, for the component of the given name.
func NewCellRegistry(core cluster.Cluster, component string, log logr.Logger) *CellRegistry {
	return &CellRegistry{
		cache: core.GetCache(), live: core.GetAPIReader(), component: component, log: log,
		syncRequests: make(chan struct{}, 1), cells: map[string]RegisteredCell{},
	}
}

// Cell returns the member of the given name; ok is false if the registry has no such Cell.
func (r *CellRegistry) Cell(name string) (RegisteredCell, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	cell, ok := r.cells[name]
	return cell, ok
}

// Names returns the names of all Cells, sorted.
func (r *CellRegistry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.cells))
}

// HasSynced reports whether the registry has resolved every Cell at least once.
func (r *CellRegistry) HasSynced() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.synced
}

// NeedLeaderElection is false: all replicas need the registry.
func (r *CellRegistry) NeedLeaderElection() bool { return false }

// Start follows the Cells until ctx ends. It retries a core that is unreachable for ever.
func (r *CellRegistry) Start(ctx context.Context) error {
	retry := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 6, Cap: 3 * time.Second}
	err := retry.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := r.watch(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Error(err, "Failed to watch Cells; retrying")
		}
		return err == nil, nil
	})
	if err != nil {
		return nil // the error only means that ctx ended
	}
	ticker := time.NewTicker(secretsInterval)
	defer ticker.Stop()
	for {
		if err := r.sync(ctx); err != nil && ctx.Err() == nil {
			r.log.Error(err, "Failed to resolve Cells")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-r.syncRequests:
		}
	}
}

func (r *CellRegistry) watch(ctx context.Context) error {
	informer, err := r.cache.GetInformer(ctx, &v1alpha1.Cell{})
	if err != nil {
		return fmt.Errorf("watch Cells: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { r.requestSync() },
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*v1alpha1.Cell)
			after, okToo := obj.(*v1alpha1.Cell)
			// Most updates are heartbeats.
			if !ok || !okToo || before.UID != after.UID || before.Generation != after.Generation ||
				before.Status.Cluster != after.Status.Cluster || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() {
				r.requestSync()
			}
		},
		DeleteFunc: func(any) { r.requestSync() },
	})
	if err == nil && !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		err = errors.New("the watch of Cells did not start")
	}
	return err
}

func (r *CellRegistry) requestSync() {
	select {
	case r.syncRequests <- struct{}{}:
	default:
	}
}

// sync resolves all Cells. It queries their clusters concurrently: a cluster that does not answer must not delay the others.
func (r *CellRegistry) sync(ctx context.Context) error {
	cells := &v1alpha1.CellList{}
	if err := r.cache.List(ctx, cells); err != nil {
		return fmt.Errorf("list Cells: %w", err)
	}
	uids := map[string]types.UID{}
	var resolving sync.WaitGroup
	for i := range cells.Items {
		cell := &cells.Items[i]
		uids[cell.Name] = cell.UID
		known, _ := r.Cell(cell.Name)
		resolving.Go(func() { r.store(cell.Name, r.resolve(ctx, cell, known)) })
	}
	r.removeDeleted(uids)
	resolving.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced = true
	return nil
}

func (r *CellRegistry) removeDeleted(uids map[string]types.UID) {
	r.mu.Lock()
	var deleted []string
	for name, m := range maps.Clone(r.cells) {
		if uids[name] != m.Cell.UID {
			delete(r.cells, name)
			deleted = append(deleted, name)
		}
	}
	r.mu.Unlock()
	for _, name := range deleted {
		r.log.Info("Removed a Cell", "cell", name)
		r.notifyChanged(name)
	}
}

func (r *CellRegistry) store(name string, now RegisteredCell) {
	r.mu.Lock()
	before, known := r.cells[name]
	r.cells[name] = now
	r.mu.Unlock()
	if text := errorText(now.Err); text != "" && text != errorText(before.Err) {
		r.log.Info("Rejected the kubeconfig of a Cell", "cell", name, "reason", text, "connected", now.Connection != nil)
	}
	if !known || before.Cell.UID != now.Cell.UID || before.Connection != now.Connection || before.kubeconfig != now.kubeconfig ||
		before.Cell.DeletionTimestamp.IsZero() != now.Cell.DeletionTimestamp.IsZero() {
		r.log.Info("Updated a Cell", "cell", name, "connected", now.Connection != nil, "leaving", now.Cell.DeletionTimestamp != nil)
		r.notifyChanged(name)
	}
}

func (r *CellRegistry) notifyChanged(name string) {
	if r.Changed != nil {
		r.Changed(name)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// resolve determines the connection of a Cell. It ignores known if that belongs to an earlier Cell of the same name.
func (r *CellRegistry) resolve(ctx context.Context, cell *v1alpha1.Cell, known RegisteredCell) RegisteredCell {
	m := RegisteredCell{Cell: cell}
	if known.Cell != nil && known.Cell.UID == cell.UID {
		m.Connection, m.Cluster, m.kubeconfig, m.exposure = known.Connection, known.Cluster, known.kubeconfig, known.exposure
	}
	if m.Scope, m.Err = scope.Of(&cell.Spec); m.Err != nil {
		m.Scope = scope.Scope{} // when its removal is requested: any pod may belong to it
		return m
	}
	if cell.Spec.KubeconfigSecretRef == nil || r.NamesOnly {
		return m.disconnected()
	}
	if m.exposure.allowedBy(cell.Spec.KubeconfigSecretRef) != nil {
		m = m.disconnected() // an earlier version of the Cell allowed it
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	raw, err := kubeconfigOf(ctx, r.live, cell.Spec.KubeconfigSecretRef)
	if err != nil {
		m.Err = err
		return m
	}
	sum := fingerprint(sha256.Sum256(raw))
	if m.Connection != nil && m.kubeconfig == sum {
		return m
	}
	config, cluster, err := ConnectBy(ctx, cell, raw, r.component)
	if err == nil && m.Connection != nil && cluster != m.Cluster {
		err = problem(v1alpha1.ReasonAnotherCluster, nil, "the new kubeconfig leads to another cluster (%s) than the previous one (%s)", cluster, m.Cluster)
	}
	if err == nil && m.Connection == nil {
		m.Connection, err = NewRotatingConnection(config)
	} else if err == nil {
		err = m.Connection.Set(config)
	}
	if m.Err = err; err == nil {
		m.Cluster, m.kubeconfig, m.exposure = cluster, sum, exposureOf(config)
	}
	return m
}

func (c RegisteredCell) disconnected() RegisteredCell {
	c.Connection, c.Cluster, c.kubeconfig, c.exposure = nil, "", fingerprint{}, exposure{}
	return c
}
