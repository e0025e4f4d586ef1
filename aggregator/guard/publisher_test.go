package guard

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// someSlots are the slots that a process can write.
type someSlots struct{ slots slot.Set }

func (s *someSlots) writableSlots() slot.Set { return s.slots }

// publisherFixture is a publisher with a cell in memory, and a clock that stands still.
type publisherFixture struct {
	*Publisher
	*testing.T
	cell  *fake.Clientset
	store toolscache.Store
	owned *someSlots
	at    time.Time
}

func newPublisherFixture(t *testing.T) *publisherFixture {
	f := &publisherFixture{
		T: t, cell: fake.NewClientset(), store: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), owned: &someSlots{slots: slot.All()},
		at: time.UnixMilli(1000),
	}
	f.Publisher = f.process(f.owned)
	return f
}

// process returns the publisher of another process.
func (f *publisherFixture) process(owned *someSlots) *Publisher {
	return &Publisher{
		index: &guardIndex{cell: guardCell}, prefix: "breakwater-protected-c0-1234-", cell: guardCell,
		configMaps: f.cell.CoreV1().ConfigMaps("breakwater-system"), Protectors: f.store, Writable: owned.writableSlots,
		Newest: func(context.Context, types.NamespacedName) (*v1alpha1.PodProtector, error) {
			return nil, errors.New("unreachable")
		},
		Draining: func() bool { return false }, Now: func() time.Time { return f.at }, Log: logr.Discard(), versions: map[string]int64{},
	}
}

func (f *publisherFixture) set(protectors ...*v1alpha1.PodProtector) {
	f.Helper()
	for _, p := range protectors {
		if err := f.store.Add(p); err != nil {
			f.Fatal(err)
		}
	}
}

// mustPublish publishes, and returns the verbs of the requests that it needs.
func (f *publisherFixture) mustPublish(g *Publisher) (verbs []string) {
	f.Helper()
	f.cell.ClearActions()
	if err := g.publish(f.Context()); err != nil {
		f.Fatal(err)
	}
	for _, action := range f.cell.Actions() {
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
}

// lists returns the lists by the names of their ConfigMaps, and checks that their versions are those of the last write.
func (f *publisherFixture) lists(version int64) map[string]string {
	f.Helper()
	list, err := f.cell.CoreV1().ConfigMaps("breakwater-system").List(f.Context(), metav1.ListOptions{LabelSelector: podhold.LabelProtected})
	if err != nil {
		f.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range list.Items {
		all[m.Name] = m.Data[podhold.ProtectedKey]
		if got, err := strconv.ParseInt(m.Annotations[podhold.AnnotationVersion], 10, 64); err != nil || got > version {
			f.Errorf("%s has version %d, want at most %d", m.Name, got, version)
		}
	}
	return all
}

func (f *publisherFixture) wantLists(version int64, want map[string]string) {
	f.Helper()
	if diff := cmp.Diff(want, f.lists(version)); diff != "" {
		f.Errorf("lists (-want +got):\n%s", diff)
	}
}

const firstName = "breakwater-protected-c0-1234-0-0"

func shopName() string { return "breakwater-protected-c0-1234-" + strconv.Itoa(slot.Of("shop")) + "-0" }

func TestPublisherWritesOnlyChanges(t *testing.T) {
	f := newPublisherFixture(t)
	f.set(selecting("web", "web"))
	f.mustPublish(f.Publisher)
	web := `[{"namespace":"shop","name":"web","selector":{"matchExpressions":[{"key":"app","operator":"In","values":["web"]}]}}]`
	f.wantLists(1000, map[string]string{firstName: "[]", shopName(): web})
	if verbs := f.mustPublish(f.Publisher); len(verbs) > 0 {
		t.Errorf("requests %v without a change, want none", verbs)
	}
	f.at = f.at.Add(rereadEvery)
	if diff := cmp.Diff([]string{"list"}, f.mustPublish(f.Publisher)); diff != "" {
		t.Errorf("requests of a comparison (-want +got):\n%s", diff)
	}
	f.at = time.UnixMilli(500) // another leader with a clock that is behind
	f.set(selecting("web", "api"), selecting("api", "web"))
	if diff := cmp.Diff([]string{"list", "update"}, f.mustPublish(f.process(f.owned))); diff != "" {
		t.Errorf("requests of the next leader (-want +got):\n%s", diff)
	}
	if got := f.lists(1001)[shopName()]; got == web {
		t.Errorf("list %s is unchanged", got)
	}
}

// A node guard must know the end of protection from the loss of a ConfigMap.
func TestPublisherEmptiesListsAndDeletesNone(t *testing.T) {
	for claim, end := range map[string]func(*publisherFixture){
		"the last protector ends":   func(f *publisherFixture) { _ = f.store.Delete(selecting("web", "web")) },
		"the Cell is being deleted": func(f *publisherFixture) { f.Draining = func() bool { return true } },
	} {
		t.Run(claim, func(t *testing.T) {
			f := newPublisherFixture(t)
			f.set(selecting("web", "web"))
			f.mustPublish(f.Publisher)
			end(f)
			f.at = f.at.Add(time.Second)
			if diff := cmp.Diff([]string{"update"}, f.mustPublish(f.Publisher)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			f.wantLists(2000, map[string]string{firstName: "[]", shopName(): "[]"})
		})
	}
}

func TestPublisherRestoresLostLists(t *testing.T) {
	f := newPublisherFixture(t)
	f.set(selecting("web", "web"))
	f.mustPublish(f.Publisher)
	before := f.lists(1000)
	if err := f.configMaps.Delete(t.Context(), shopName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.at = f.at.Add(rereadEvery)
	f.mustPublish(f.Publisher)
	f.wantLists(f.at.UnixMilli(), before)
}

// Node guards ignore a list that is older than one that they know, even if it is right again.
func TestPublisherRewritesRestoredLists(t *testing.T) {
	f := newPublisherFixture(t)
	f.set(selecting("web", "web"))
	f.mustPublish(f.Publisher)
	backup, err := f.configMaps.Get(t.Context(), shopName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_ = f.store.Delete(selecting("web", "web"))
	f.at = f.at.Add(time.Second)
	f.mustPublish(f.Publisher)
	if _, err := f.configMaps.Update(t.Context(), backup, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.set(selecting("web", "web"))
	next := f.process(f.owned) // the restore ends the leadership
	next.versions, f.at = f.versions, f.at.Add(time.Second)
	f.mustPublish(next)
	restored, err := f.configMaps.Get(t.Context(), shopName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := restored.Annotations[podhold.AnnotationVersion]; got != "3000" || restored.Data[podhold.ProtectedKey] != backup.Data[podhold.ProtectedKey] {
		t.Errorf("version %s of %v, want 3000 of the list of the backup", got, restored.Data)
	}
}

// A slot moves from one shard to another. Neither touches the lists of slots that it does not have.
func TestPublisherWritesItsSlots(t *testing.T) {
	f := newPublisherFixture(t)
	f.owned.slots = slot.Set{}.With(slot.Of("shop"))
	f.set(selecting("web", "web"))
	f.mustPublish(f.Publisher)
	before := f.lists(1000)
	if len(before) != 1 || before[shopName()] == "" {
		t.Fatalf("lists %v, want that of the slot", before)
	}
	other := &someSlots{slots: slot.Set{}.With(0)}
	second := f.process(other)
	f.mustPublish(second)
	f.owned.slots, other.slots = slot.Set{}, slot.All()
	f.set(selecting("web", "api"))
	if verbs := f.mustPublish(f.Publisher); len(verbs) > 0 {
		t.Errorf("requests %v for slots that were given up, want none", verbs)
	}
	if diff := cmp.Diff([]string{"list", "update"}, f.mustPublish(second)); diff != "" {
		t.Errorf("requests of the next shard (-want +got):\n%s", diff)
	}
	if got := f.lists(1001); got[shopName()] == before[shopName()] {
		t.Errorf("lists %v, want the new selector", got)
	}
}

// While a protector cannot be read, the list that another shard wrote for the slot stays.
func TestPublisherWaitsForUnreadProtectors(t *testing.T) {
	f := newPublisherFixture(t)
	f.set(selecting("web", "web"))
	f.mustPublish(f.Publisher)
	before := f.lists(1000)
	stub := selecting("web", "web")
	stub.Spec, stub.Annotations = v1alpha1.PodProtectorSpec{}, map[string]string{"breakwater.dev/left-out": ""}
	f.set(stub)
	second := f.process(f.owned)
	f.mustPublish(second)
	f.wantLists(1000, before)
	second.Newest = func(context.Context, types.NamespacedName) (*v1alpha1.PodProtector, error) {
		return selecting("web", "api"), nil
	}
	f.mustPublish(second)
	if f.lists(1001)[shopName()] == before[shopName()] {
		t.Error("the list is unchanged, want that of the protector which was read")
	}
	second.Newest = func(context.Context, types.NamespacedName) (*v1alpha1.PodProtector, error) {
		return nil, apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("podprotectors").GroupResource(), "web")
	}
	f.mustPublish(second)
	f.wantLists(1002, map[string]string{firstName: "[]", shopName(): "[]"})
}

func TestPublisherReadsAgainAfterAConflict(t *testing.T) {
	f := newPublisherFixture(t)
	f.set(selecting("web", "web"))
	f.mustPublish(f.Publisher)
	conflicts := 1
	f.cell.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("configmaps").GroupResource(), "web", errors.New("changed"))
	})
	changed := selecting("web", "api")
	changed.Generation++
	f.set(changed)
	if err := f.publish(t.Context()); !apierrors.IsConflict(err) {
		t.Fatalf("publish() = %v, want a conflict", err)
	}
	if diff := cmp.Diff([]string{"list", "update"}, f.mustPublish(f.Publisher)); diff != "" {
		t.Errorf("requests after a conflict (-want +got):\n%s", diff)
	}
}
