package main

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
)

// board holds the state from the watches of core clusters. It is safe for concurrent use.
type board struct {
	of      scope
	several bool

	mu    sync.Mutex
	cores map[string]*sheet
}

// sheet is the state of one core cluster.
type sheet struct {
	protectors map[client.ObjectKey]*v1alpha1.PodProtector
	cells      map[string]*v1alpha1.Cell
	denials    map[client.ObjectKey]denial.Denial
	// trouble holds the watch error per kind. The next event of the kind clears it.
	trouble map[string]error
}

func newBoard(of scope, several bool) *board {
	return &board{of: of, several: several, cores: map[string]*sheet{}}
}

func (b *board) sheet(core string) *sheet {
	if b.cores[core] == nil {
		b.cores[core] = &sheet{
			protectors: map[client.ObjectKey]*v1alpha1.PodProtector{}, cells: map[string]*v1alpha1.Cell{}, denials: map[client.ObjectKey]denial.Denial{},
			trouble: map[string]error{},
		}
	}
	return b.cores[core]
}

// take records the latest state of an object, or its deletion.
func (b *board) take(core, kind string, object client.Object, gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, key := b.sheet(core), client.ObjectKeyFromObject(object)
	delete(s.trouble, kind)
	switch o := object.(type) {
	case *v1alpha1.PodProtector:
		if s.protectors[key] = o; gone {
			delete(s.protectors, key)
		}
	case *v1alpha1.Cell:
		if s.cells[key.Name] = o; gone {
			delete(s.cells, key.Name)
		}
	case *eventsv1.Event:
		if d, ok := denial.NewReader().Event(core, o); ok && !gone {
			s.denials[key] = d
		}
	}
}

func (b *board) fail(core, kind string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sheet(core).trouble[kind] = err
}

// follow watches a core cluster until ctx ends. It restarts watches that end.
func (b *board) follow(ctx context.Context, c core) {
	in := client.InNamespace(b.of.namespace)
	var one client.ListOption = client.MatchingFieldsSelector{Selector: fields.Everything()}
	denials := fields.Set{"reportingController": "breakwater-webhook"}
	if b.of.name != "" {
		one = client.MatchingFields{"metadata.name": b.of.name}
		denials["regarding.name"] = b.of.name
	}
	b.informer(ctx, c, "PodProtectors", &v1alpha1.PodProtector{}, func() client.ObjectList { return &v1alpha1.PodProtectorList{} }, in, one)
	b.informer(ctx, c, "Cells", &v1alpha1.Cell{}, func() client.ObjectList { return &v1alpha1.CellList{} })
	b.informer(ctx, c, "events", &eventsv1.Event{}, func() client.ObjectList { return &eventsv1.EventList{} }, in, client.MatchingFields(denials))
}

func (b *board) informer(ctx context.Context, c core, kind string, object client.Object, list func() client.ObjectList, options ...client.ListOption) {
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
		b.fail(c.Name, kind, c.failure(err))
	})
	take := func(object any, gone bool) {
		if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		if o, ok := object.(client.Object); ok {
			b.take(c.Name, kind, o, gone)
		}
	}
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{ // fails only for a stopped informer
		AddFunc: func(o any) { take(o, false) }, UpdateFunc: func(_, o any) { take(o, false) }, DeleteFunc: func(o any) { take(o, true) },
	})
	go informer.RunWithContext(ctx)
}

// seen is the state that the board shows at a time.
type seen struct {
	protectors []status.Protector
	// refused counts recent denials and break-glass removals, by core/namespace/name.
	refused map[string]int
	denials []denial.Denial
	trouble []string
}

func idOf(core, namespace, name string) string { return core + "/" + namespace + "/" + name }

// look returns the current view of all protectors, those with the least budget first.
func (b *board) look(now time.Time) seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := seen{refused: map[string]int{}}
	for _, core := range slices.Sorted(maps.Keys(b.cores)) {
		sheet := b.cores[core]
		cells := make([]v1alpha1.Cell, 0, len(sheet.cells))
		for _, name := range slices.Sorted(maps.Keys(sheet.cells)) {
			cells = append(cells, *sheet.cells[name])
		}
		if sheet.trouble["Cells"] != nil && len(cells) == 0 {
			cells = nil
		}
		for _, p := range sheet.protectors {
			s.protectors = append(s.protectors, status.Of(core, p, cells, now))
		}
		for _, d := range sheet.denials {
			if now.Sub(d.Last) <= lately {
				s.denials = append(s.denials, d)
				s.refused[idOf(core, d.Namespace, d.Protector)] += d.Count
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(sheet.trouble)) {
			s.trouble = append(s.trouble, "cannot watch "+kind+inCore(core)+": "+sheet.trouble[kind].Error())
		}
	}
	slices.SortFunc(s.protectors, func(a, b status.Protector) int {
		return cmp.Or(cmp.Compare(budgetOf(&a), budgetOf(&b)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Core, b.Core))
	})
	s.protectors, s.denials, s.trouble = printable.Value(s.protectors), printable.Value(denial.Group(s.denials)), printable.Value(s.trouble)
	return s
}

// budgetOf returns the sort key of protectors. An unknown floor allows no removal.
func budgetOf(p *status.Protector) int {
	if p.Budget == nil {
		return 0
	}
	return min(*p.Budget, p.Allowed)
}
