package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// pageSize is the page size of lists. Many small responses are cheaper for the API server and show results earlier.
const pageSize = 500

// ReadAll reads all objects of the kind of an empty list, in pages.
func ReadAll[T any](ctx context.Context, c Core, kind client.ObjectList, options ...client.ListOption) ([]T, error) {
	all, next := []T{}, ""
	for {
		page := kind.DeepCopyObject().(client.ObjectList)
		if err := c.List(ctx, page, append(options, client.Limit(pageSize), client.Continue(next))...); err != nil {
			return nil, c.WithRemedy(err)
		}
		items, err := meta.GetItemsPtr(page)
		if err != nil {
			return nil, err
		}
		all = append(all, *items.(*[]T)...)
		if next = page.GetContinue(); next == "" {
			return all, nil
		}
	}
}

// CoreState is what commands show of a core cluster.
type CoreState struct {
	Core       Core
	Protectors []v1alpha1.PodProtector
	// Cells are nil if the user may not read them.
	Cells []v1alpha1.Cell
}

// readState reads all Cells, and the protectors of a namespace or of all namespaces. With a name it reads only that protector.
func readState(ctx context.Context, c Core, namespace, name string) (s CoreState, err error) {
	s.Core = c
	if s.Cells, err = ReadAll[v1alpha1.Cell](ctx, c, &v1alpha1.CellList{}); apierrors.IsForbidden(err) {
		s.Cells, err = nil, nil
	}
	if err != nil {
		return s, err
	}
	if name != "" {
		one := v1alpha1.PodProtector{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &one)
		if err == nil {
			s.Protectors = append(s.Protectors, one)
		}
		return s, c.WithRemedy(client.IgnoreNotFound(err))
	}
	s.Protectors, err = ReadAll[v1alpha1.PodProtector](ctx, c, &v1alpha1.PodProtectorList{}, client.InNamespace(namespace))
	return s, err
}

// Views returns the views of its protectors at a time.
func (s *CoreState) Views(now time.Time) []status.Protector {
	all := make([]status.Protector, 0, len(s.Protectors))
	for i := range s.Protectors {
		all = append(all, status.Of(s.Core.Name, &s.Protectors[i], s.Cells, now))
	}
	return all
}

// FromEachCore calls read for all core clusters concurrently. It returns the successful answers, and the errors of the other cores.
func FromEachCore[T any](cores []Core, read func(Core) (T, error)) (answers []T, err error) {
	results, errs := make([]T, len(cores)), make([]error, len(cores))
	ForEachConcurrently(cores, func(i int, c Core) { results[i], errs[i] = read(c) })
	for i := range cores {
		if errs[i] == nil {
			answers = append(answers, results[i])
		}
	}
	return answers, errors.Join(errs...)
}

// IncompleteError adds to an error that the output is incomplete, if some core clusters answered.
func IncompleteError(answers int, err error) error {
	if err == nil || answers == 0 {
		return err
	}
	return fmt.Errorf("the output is incomplete: %w", err)
}

// ReadDenials reads the denial events of a protector, of a namespace, or of all namespaces. Denials without a protector are events on
// Cells, in another namespace than the pods. They are omitted if the user may not read events there.
func ReadDenials(ctx context.Context, c Core, namespace, name string) ([]denial.Denial, error) {
	fields := client.MatchingFields{"reportingController": "breakwater-webhook"}
	if name != "" {
		fields["regarding.name"], fields["regarding.kind"] = name, "PodProtector"
	}
	all, err := listDenials(ctx, c, namespace, namespace, fields)
	if err != nil || name != "" || namespace == "" || namespace == metav1.NamespaceDefault {
		return all, err
	}
	fields["regarding.kind"] = "Cell"
	unattributed, err := listDenials(ctx, c, metav1.NamespaceDefault, namespace, fields)
	if apierrors.IsForbidden(err) {
		return all, nil
	}
	return append(all, unattributed...), err
}

// listDenials reads the events of a namespace about pods of the namespace of, or of all if that is empty.
func listDenials(ctx context.Context, c Core, namespace, of string, fields client.MatchingFields) (denials []denial.Denial, err error) {
	events, err := ReadAll[eventsv1.Event](ctx, c, &eventsv1.EventList{}, client.InNamespace(namespace), fields)
	for i := range events {
		if d, ok := denial.ParseEvent(c.Name, &events[i]); ok && (of == "" || d.Namespace == of) {
			denials = append(denials, d)
		}
	}
	return denials, err
}

// ProtectorNotFound returns an error that the protector does not exist.
func ProtectorNotFound(s Scope) error {
	return fmt.Errorf("PodProtector %s/%s does not exist: select another namespace with --namespace, or list all with kubectl breakwater status -A",
		s.Namespace, s.Name)
}

// ForEachConcurrently runs visit concurrently for all items and waits.
func ForEachConcurrently[T any](all []T, visit func(i int, one T)) {
	var running sync.WaitGroup
	for i, one := range all {
		running.Go(func() { visit(i, one) })
	}
	running.Wait()
}

// RunConcurrently runs all functions concurrently and waits.
func RunConcurrently(all ...func()) { ForEachConcurrently(all, func(_ int, run func()) { run() }) }
