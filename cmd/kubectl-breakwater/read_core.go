package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// pageSize is the page size of lists. Many small responses are cheaper for the API server and show results earlier.
const pageSize = 500

func listPages[L client.ObjectList](ctx context.Context, c core, list L, visit func(L), options ...client.ListOption) error {
	for {
		err := c.List(ctx, list, append(options, client.Limit(pageSize), client.Continue(list.GetContinue()))...)
		if err != nil {
			return c.withRemedy(err)
		}
		visit(list)
		if list.GetContinue() == "" {
			return nil
		}
	}
}

type coreState struct {
	core       core
	protectors []v1alpha1.PodProtector
	// cells are nil if the user may not read them.
	cells []v1alpha1.Cell
}

// readState reads all Cells, and the protectors of a namespace or of all namespaces. With a name it reads only that protector.
func readState(ctx context.Context, c core, namespace, name string) (s coreState, err error) {
	s.core = c
	if s.cells, err = readCells(ctx, c); apierrors.IsForbidden(err) {
		s.cells, err = nil, nil
	}
	if err != nil {
		return s, err
	}
	if name != "" {
		one := v1alpha1.PodProtector{}
		err := c.Get(ctx, keyOf(namespace, name), &one)
		if err == nil {
			s.protectors = append(s.protectors, one)
		}
		return s, c.withRemedy(client.IgnoreNotFound(err))
	}
	err = listPages(ctx, c, &v1alpha1.PodProtectorList{}, func(l *v1alpha1.PodProtectorList) { s.protectors = append(s.protectors, l.Items...) }, client.InNamespace(namespace))
	return s, err
}

func readCells(ctx context.Context, c core) ([]v1alpha1.Cell, error) {
	cells := []v1alpha1.Cell{}
	err := listPages(ctx, c, &v1alpha1.CellList{}, func(l *v1alpha1.CellList) { cells = append(cells, l.Items...) })
	return cells, err
}

// views returns the views of its protectors at a time.
func (s *coreState) views(now time.Time) []status.Protector {
	all := make([]status.Protector, 0, len(s.protectors))
	for i := range s.protectors {
		all = append(all, status.Of(s.core.Name, &s.protectors[i], s.cells, now))
	}
	return all
}

// fromEachCore calls read for all core clusters concurrently. It returns the successful answers, and the errors of the other cores.
func fromEachCore[T any](cores []core, read func(core) (T, error)) (answers []T, err error) {
	results, errs := make([]T, len(cores)), make([]error, len(cores))
	var running sync.WaitGroup
	for i, c := range cores {
		running.Go(func() { results[i], errs[i] = read(c) })
	}
	running.Wait()
	for i := range cores {
		if errs[i] == nil {
			answers = append(answers, results[i])
		}
	}
	return answers, errors.Join(errs...)
}

// incompleteError adds to an error that the output is incomplete, if some core clusters answered.
func incompleteError(answers int, err error) error {
	if err == nil || answers == 0 {
		return err
	}
	return fmt.Errorf("the output is incomplete: %w", err)
}

// readDenials reads the denial events of a protector, of a namespace, or of all namespaces. Denials without a protector are events on
// Cells, in another namespace than the pods. They are omitted if the user may not read events there.
func readDenials(ctx context.Context, c core, namespace, name string) ([]denial.Denial, error) {
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
func listDenials(ctx context.Context, c core, namespace, of string, fields client.MatchingFields) (denials []denial.Denial, err error) {
	reader := denial.NewReader()
	err = listPages(ctx, c, &eventsv1.EventList{}, func(l *eventsv1.EventList) {
		for i := range l.Items {
			if d, ok := reader.ParseEvent(c.Name, &l.Items[i]); ok && (of == "" || d.Namespace == of) {
				denials = append(denials, d)
			}
		}
	}, client.InNamespace(namespace), fields)
	return denials, err
}

// protectorNotFound returns an error that the protector does not exist, and names those that do.
func protectorNotFound(ctx context.Context, cores []core, s scope) error {
	states, _ := fromEachCore(cores, func(c core) (coreState, error) { return readState(ctx, c, s.namespace, "") })
	var names []string
	for i := range states {
		for j := range states[i].protectors {
			names = append(names, states[i].protectors[j].Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	const limit = 10
	switch {
	case len(names) == 0:
		return fmt.Errorf("PodProtector %s/%s does not exist, and the namespace has none: select another with --namespace, or list all with kubectl "+
			"breakwater status -A", s.namespace, s.name)
	case len(names) > limit:
		names = append(names[:limit], fmt.Sprintf("and %d more", len(names)-limit))
	}
	return fmt.Errorf("PodProtector %s/%s does not exist; namespace %s has %s", s.namespace, s.name, s.namespace, strings.Join(names, ", "))
}
