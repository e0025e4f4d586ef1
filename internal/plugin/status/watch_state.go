package status

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

// watchState holds the state from the watches of core clusters. It is safe for concurrent use.
type watchState struct {
	scope   plugin.Scope
	several bool

	mu    sync.Mutex
	cores map[string]*watchedCore
}

// watchedCore is the state of one core cluster.
type watchedCore struct {
	protectors map[client.ObjectKey]*v1alpha1.PodProtector
	cells      map[string]*v1alpha1.Cell
	denials    map[client.ObjectKey]denial.Denial
	// watchErrors holds the watch error per kind. The next event of the kind clears it.
	watchErrors map[string]error
}

func newWatchState(of plugin.Scope, several bool) *watchState {
	return &watchState{scope: of, several: several, cores: map[string]*watchedCore{}}
}

func (b *watchState) stateOf(core string) *watchedCore {
	if b.cores[core] == nil {
		b.cores[core] = &watchedCore{
			protectors: map[client.ObjectKey]*v1alpha1.PodProtector{}, cells: map[string]*v1alpha1.Cell{}, denials: map[client.ObjectKey]denial.Denial{},
			watchErrors: map[string]error{},
		}
	}
	return b.cores[core]
}

// record records the latest state of an object, or its deletion.
func (b *watchState) record(core, kind string, object client.Object, deleted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, key := b.stateOf(core), client.ObjectKeyFromObject(object)
	delete(s.watchErrors, kind)
	switch o := object.(type) {
	case *v1alpha1.PodProtector:
		if s.protectors[key] = o; deleted {
			delete(s.protectors, key)
		}
	case *v1alpha1.Cell:
		if s.cells[key.Name] = o; deleted {
			delete(s.cells, key.Name)
		}
	case *eventsv1.Event:
		if d, ok := denial.ParseEvent(core, o); ok && !deleted {
			s.denials[key] = d
		}
	}
}

func (b *watchState) recordError(core, kind string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stateOf(core).watchErrors[kind] = err
}

// startWatches watches a core cluster until ctx ends. It restarts watches that end.
func (b *watchState) startWatches(ctx context.Context, c plugin.Core) {
	in := client.InNamespace(b.scope.Namespace)
	var byName client.ListOption = client.MatchingFieldsSelector{Selector: fields.Everything()}
	denials := fields.Set{"reportingController": "breakwater-webhook"}
	if b.scope.Name != "" {
		byName = client.MatchingFields{"metadata.name": b.scope.Name}
		denials["regarding.name"] = b.scope.Name
	}
	b.startInformer(ctx, c, "PodProtectors", &v1alpha1.PodProtector{}, func() client.ObjectList { return &v1alpha1.PodProtectorList{} }, in, byName)
	b.startInformer(ctx, c, "Cells", &v1alpha1.Cell{}, func() client.ObjectList { return &v1alpha1.CellList{} })
	b.startInformer(ctx, c, "events", &eventsv1.Event{}, func() client.ObjectList { return &eventsv1.EventList{} }, in, client.MatchingFields(denials))
}

func (b *watchState) startInformer(
	ctx context.Context, c plugin.Core, kind string, object client.Object, list func() client.ObjectList, options ...client.ListOption,
) {
	source := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			l := list()
			err := c.List(ctx, l, append(options, &client.ListOptions{Raw: &o, Limit: o.Limit, Continue: o.Continue})...)
			return l, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list(), append(options, &client.ListOptions{Raw: &o})...)
		},
	}
	informer := toolscache.NewSharedIndexInformer(source, object, 0, nil)
	_ = informer.SetTransform(cache.TransformStripManagedFields()) // fails only for a started informer
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) {
		b.recordError(c.Name, kind, c.WithRemedy(err))
	})
	record := func(object any, deleted bool) {
		if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		if o, ok := object.(client.Object); ok {
			b.record(c.Name, kind, o, deleted)
		}
	}
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{ // fails only for a stopped informer
		AddFunc: func(o any) { record(o, false) }, UpdateFunc: func(_, o any) { record(o, false) }, DeleteFunc: func(o any) { record(o, true) },
	})
	go informer.RunWithContext(ctx)
}

// watchView is the state that watch shows at a time.
type watchView struct {
	protectors []status.Protector
	// denialCounts counts recent denials and break-glass removals, by core/namespace/name.
	denialCounts map[string]int
	denials      []denial.Denial
	watchErrors  []string
}

func protectorID(core, namespace, name string) string { return core + "/" + namespace + "/" + name }

// view returns the current view of all protectors, those with the least budget first.
func (b *watchState) view(now time.Time) watchView {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := watchView{denialCounts: map[string]int{}}
	for _, core := range slices.Sorted(maps.Keys(b.cores)) {
		watched := b.cores[core]
		cells := make([]v1alpha1.Cell, 0, len(watched.cells))
		for _, name := range slices.Sorted(maps.Keys(watched.cells)) {
			cells = append(cells, *watched.cells[name])
		}
		if watched.watchErrors["Cells"] != nil && len(cells) == 0 {
			cells = nil
		}
		for _, p := range watched.protectors {
			s.protectors = append(s.protectors, status.Of(core, p, cells, now))
		}
		for _, d := range watched.denials {
			if now.Sub(d.Last) <= recentPeriod {
				s.denials = append(s.denials, d)
				s.denialCounts[protectorID(core, d.Namespace, d.Protector)] += d.Count
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(watched.watchErrors)) {
			s.watchErrors = append(s.watchErrors, "cannot watch "+kind+plugin.InCore(core)+": "+watched.watchErrors[kind].Error())
		}
	}
	slices.SortFunc(s.protectors, func(a, b status.Protector) int {
		return cmp.Or(cmp.Compare(effectiveBudget(&a), effectiveBudget(&b)),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Core, b.Core))
	})
	s.protectors, s.denials, s.watchErrors = printable.Value(s.protectors), printable.Value(denial.Group(s.denials)), printable.Value(s.watchErrors)
	return s
}

// effectiveBudget returns the sort key of protectors. An unknown floor allows no removal.
func effectiveBudget(p *status.Protector) int {
	if p.Budget == nil {
		return 0
	}
	return min(*p.Budget, p.Allowed)
}
