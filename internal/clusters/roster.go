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
	// secretsEvery is how often the roster reads the Secrets of Cells.
	secretsEvery = 5 * time.Second
	// connectTime bounds how long a cluster may take to return its identity.
	connectTime = 10 * time.Second
)

// Member is a Cell with the connection to its cluster.
type Member struct {
	Cell  *v1alpha1.Cell
	Scope scope.Scope
	// Connection is nil while there is none; Cluster is the cluster that it leads to. The connection stays in use when its kubeconfig is
	// deleted, or is replaced by one that does not work. It ends when the Cell no longer allows what it needs.
	Connection *Rotating
	Cluster    string
	// Err is a Problem with the current kubeconfig; nil when it is in use, or when the Cell refers to none.
	Err error

	kubeconfig fingerprint
	exposure   exposure
}

// Roster follows the Cells of one core cluster, and the connections to the clusters that have a kubeconfig Secret. Users create and delete
// Cells and rotate kubeconfigs while the process runs.
type Roster struct {
	// NamesOnly makes the roster read no Secrets. It then has the Cells and their scopes, but no connections. Set it before Start.
	NamesOnly bool
	// Changed is called for each Cell that was added, deleted or changed; it may be nil.
	Changed func(name string)

	cache     cache.Cache
	live      client.Reader
	component string
	log       logr.Logger
	poke      chan struct{}

	mu      sync.RWMutex
	members map[string]Member
	read    bool
}

// NewRoster returns a roster of a core cluster, for the component of the given name.
func NewRoster(core cluster.Cluster, component string, log logr.Logger) *Roster {
	return &Roster{
		cache: core.GetCache(), live: core.GetAPIReader(), component: component, log: log,
		poke: make(chan struct{}, 1), members: map[string]Member{},
	}
}

// Member returns the member of the given name; ok is false if the roster has no such Cell.
func (r *Roster) Member(name string) (Member, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m, ok := r.members[name]
	return m, ok
}

// Names returns the names of all Cells, sorted.
func (r *Roster) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.members))
}

// Read reports whether the roster has resolved every Cell at least once.
func (r *Roster) Read() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.read
}

// NeedLeaderElection is false: all replicas need the roster.
func (r *Roster) NeedLeaderElection() bool { return false }

// Start follows the Cells until ctx ends. It retries a core that is unreachable for ever.
func (r *Roster) Start(ctx context.Context) error {
	retry := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 6, Cap: 3 * time.Second}
	err := retry.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := r.watch(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Error(err, "The Cells of a core cluster cannot be read yet")
		}
		return err == nil, nil
	})
	if err != nil {
		return nil // the error only means that ctx ended
	}
	every := time.NewTicker(secretsEvery)
	defer every.Stop()
	for {
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			r.log.Error(err, "The Cells of a core cluster are not looked at")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		case <-r.poke:
		}
	}
}

func (r *Roster) watch(ctx context.Context) error {
	informer, err := r.cache.GetInformer(ctx, &v1alpha1.Cell{})
	if err != nil {
		return fmt.Errorf("watch Cells: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { r.lookSoon() },
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*v1alpha1.Cell)
			after, okToo := obj.(*v1alpha1.Cell)
			// Most updates are heartbeats.
			if !ok || !okToo || before.UID != after.UID || before.Generation != after.Generation ||
				before.Status.Cluster != after.Status.Cluster || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() {
				r.lookSoon()
			}
		},
		DeleteFunc: func(any) { r.lookSoon() },
	})
	if err == nil && !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		err = errors.New("the watch of Cells did not begin")
	}
	return err
}

func (r *Roster) lookSoon() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// look resolves all Cells. It queries their clusters concurrently: a cluster that does not answer must not delay the others.
func (r *Roster) look(ctx context.Context) error {
	cells := &v1alpha1.CellList{}
	if err := r.cache.List(ctx, cells); err != nil {
		return fmt.Errorf("list Cells: %w", err)
	}
	there := map[string]types.UID{}
	var looking sync.WaitGroup
	for i := range cells.Items {
		cell := &cells.Items[i]
		there[cell.Name] = cell.UID
		known, _ := r.Member(cell.Name)
		looking.Go(func() { r.publish(cell.Name, r.resolve(ctx, cell, known)) })
	}
	r.forget(there)
	looking.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = true
	return nil
}

func (r *Roster) forget(there map[string]types.UID) {
	r.mu.Lock()
	var gone []string
	for name, m := range maps.Clone(r.members) {
		if there[name] != m.Cell.UID {
			delete(r.members, name)
			gone = append(gone, name)
		}
	}
	r.mu.Unlock()
	for _, name := range gone {
		r.log.Info("A Cell is gone", "cell", name)
		r.tell(name)
	}
}

func (r *Roster) publish(name string, now Member) {
	r.mu.Lock()
	before, known := r.members[name]
	r.members[name] = now
	r.mu.Unlock()
	if text := word(now.Err); text != "" && text != word(before.Err) {
		r.log.Info("The kubeconfig of a cell cannot be used", "cell", name, "reason", text, "connected", now.Connection != nil)
	}
	if !known || before.Cell.UID != now.Cell.UID || before.Connection != now.Connection || before.kubeconfig != now.kubeconfig ||
		before.Cell.DeletionTimestamp.IsZero() != now.Cell.DeletionTimestamp.IsZero() {
		r.log.Info("A Cell is known", "cell", name, "connected", now.Connection != nil, "leaving", now.Cell.DeletionTimestamp != nil)
		r.tell(name)
	}
}

func (r *Roster) tell(name string) {
	if r.Changed != nil {
		r.Changed(name)
	}
}

func word(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// resolve determines the connection of a Cell. It ignores known if that belongs to an earlier Cell of the same name.
func (r *Roster) resolve(ctx context.Context, cell *v1alpha1.Cell, known Member) Member {
	m := Member{Cell: cell}
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
	ctx, cancel := context.WithTimeout(ctx, connectTime)
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
	config, cluster, err := connect(ctx, cell, raw, r.component)
	if err == nil && m.Connection != nil && cluster != m.Cluster {
		err = problem(v1alpha1.ReasonAnotherCluster, nil, "the kubeconfig leads to another cluster (%s) than the one before (%s)", cluster, m.Cluster)
	}
	if err == nil && m.Connection == nil {
		m.Connection, err = NewRotating(config)
	} else if err == nil {
		err = m.Connection.Set(config)
	}
	if m.Err = err; err == nil {
		m.Cluster, m.kubeconfig, m.exposure = cluster, sum, exposureOf(config)
	}
	return m
}

func (m Member) disconnected() Member {
	m.Connection, m.Cluster, m.kubeconfig, m.exposure = nil, "", fingerprint{}, exposure{}
	return m
}
