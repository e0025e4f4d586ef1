package guard

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// unreadExemptions returns exemptions that have read nothing.
func unreadExemptions(t *testing.T) *Exemptions {
	t.Helper()
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	e, err := NewExemptions("cell-a", false, kubernetes.NewForConfigOrDie(config), metadata.NewForConfigOrDie(config), func(func(string) bool) {})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A protector would otherwise be Ready for a moment in a namespace that has no label.
func TestFirstCountWaitsForTheNamespaces(t *testing.T) {
	unread, denied := unreadExemptions(t), unreadExemptions(t)
	problem := "allow it"
	denied.problem.Store(&problem)
	counted := v1alpha1.Aggregation{CountedSpec: "1", Holder: "a"}
	void := counted
	void.Void = true
	for name, c := range map[string]struct {
		exemptions *Exemptions
		stored     v1alpha1.Aggregation
		ofShares   bool
		want       bool
	}{
		"a new protector":                   {unread, v1alpha1.Aggregation{}, false, true},
		"an entry without counts":           {unread, v1alpha1.Aggregation{Holder: "a", TargetProblem: "x"}, false, true},
		"counts from before a restore":      {unread, void, false, true},
		"a protector that is counted":       {unread, counted, false, false},
		"namespaces that cannot be read":    {denied, v1alpha1.Aggregation{}, false, false},
		"a share, which does not report it": {unread, v1alpha1.Aggregation{}, true, false},
		"exemptions are not reported":       {nil, v1alpha1.Aggregation{}, false, false},
	} {
		if c.exemptions != nil {
			c.exemptions.ofShares = c.ofShares
		}
		if got := c.exemptions.Awaited(&c.stored); got != c.want {
			t.Errorf("%s: awaited() = %v, want %v", name, got, c.want)
		}
	}
}

// labelsOfShares returns the labels of a cell in which a share outlives its protector, for its core or for its shares.
func labelsOfShares(t *testing.T, core string, ofShares bool) *namespaceLabels {
	t.Helper()
	share := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID("a")}}
	share.Spec.ShareOf = &v1alpha1.ShareOf{Core: "core", Cell: "cell-a", Name: "web"}
	cell := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(share).Build()
	of := Core{
		UID: core, Live: fake.NewClientBuilder().WithScheme(clusters.Scheme()).Build(), Shares: cell,
		CountsFor: func(p *v1alpha1.PodProtector) bool { return (p.Spec.ShareOf != nil) == ofShares },
	}
	objects := metadata.NewForConfigOrDie(&rest.Config{Host: "https://127.0.0.1:1"})
	labels := newNamespaceLabels(unreadExemptions(t), of, objects, func(string) bool { return true }, 0, time.Now, logr.Discard())
	t.Cleanup(labels.queue.ShutDown)
	return labels
}

func TestLabelStaysForAShareThatOutlivesItsProtector(t *testing.T) {
	for core, want := range map[string]bool{"core": true, "another": false} {
		if got, err := labelsOfShares(t, core, false).hasAny(t.Context(), "shop"); err != nil || got != want {
			t.Errorf("hasAny() for %s = %v, %v, want %v", core, got, err, want)
		}
	}
}

func TestShareIsLabeledByItsOwnAggregator(t *testing.T) {
	labels := labelsOfShares(t, "cell", true)
	e := unreadExemptions(t)
	e.labels, e.ofShares = labels, true
	share := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID("a")}}
	counts := &v1alpha1.Aggregation{}
	if e.Set(share, &v1alpha1.Aggregation{}, counts); counts.Exempt != "" {
		t.Errorf("set() reports %q, want that a share reports nothing", counts.Exempt)
	}
	if labels.queue.Len() != 1 {
		t.Error("the namespace of a new share is not due to be labeled, want that it is")
	}
}

func TestQueueOfLabelsEndsWithItsLeadership(t *testing.T) {
	e := unreadExemptions(t)
	e.labels = labelsOfShares(t, "core", false)
	e.ShutDown() // before it runs
	if !e.labels.queue.ShuttingDown() {
		t.Error("the queue continues after the end of the leadership, want that it is shut down")
	}
	(*Exemptions)(nil).ShutDown()
}
