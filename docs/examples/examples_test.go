// Package examples_test applies the examples of this folder to a real API server, with a running generator, and compares the floors that result with
// those that the examples state.
package examples_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/generator"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// podSet is a number of pods with the same labels.
type podSet struct {
	namespace string
	labels    map[string]string
	pods      int
}

// example is one situation.
type example struct {
	// files are its files. The first has the text.
	files []string
	// cells is the number of cells that have its workloads; 0 means 1.
	cells int
	// replicas are set on the Deployment "api", as an autoscaler does; 0 leaves the Deployment.
	replicas int
	// foreign are pods that a controller outside of the example creates.
	foreign []podSet
}

func examples() map[string]example {
	instance := map[string]string{"cnpg.io/cluster": "orders", "cnpg.io/podRole": "instance"}
	primary := map[string]string{"cnpg.io/cluster": "orders", "cnpg.io/podRole": "instance", "cnpg.io/instanceRole": "primary"}
	return map[string]example{
		"web":          {files: []string{"web.yaml"}},
		"quorum":       {files: []string{"quorum.yaml"}},
		"database":     {files: []string{"database.yaml"}, foreign: []podSet{{labels: instance, pods: 2}, {labels: primary, pods: 1}}},
		"blue-green":   {files: []string{"blue-green.yaml"}},
		"autoscaled":   {files: []string{"autoscaled.yaml"}, replicas: 8},
		"zones":        {files: []string{"zones.yaml"}},
		"two-clusters": {files: []string{"two-clusters/core.yaml", "two-clusters/worker.yaml"}, cells: 2},
		"batch":        {files: []string{"batch.yaml"}},
		"team-policy":  {files: []string{"team-policy.yaml"}},
	}
}

func TestExamplesHaveTheStatedFloors(t *testing.T) {
	c := testplane.Client(t)
	startGenerator(t)
	for name, e := range examples() {
		t.Run(name, func(t *testing.T) {
			namespaces, sets := e.apply(t, c)
			want := stated(t, e.files[0])
			testplane.Eventually(t, func() string { return cmp.Diff(want, e.floors(t, c, namespaces, sets)) })
		})
	}
}

// startGenerator runs the generator for all namespaces, with its own permissions, until the test ends.
func startGenerator(t *testing.T) {
	t.Helper()
	testplane.StartManager(t, testplane.User(t, "examples-generator", roles.Rules(t, "generator")), func(ctx context.Context, mgr manager.Manager) error {
		return generator.Setup(ctx, mgr, generator.Options{
			Selector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"}), Kinds: generator.AllKinds(), Registry: prometheus.NewRegistry(),
		})
	}, func(o *manager.Options) { o.Cache = generator.CacheOptions() })
}

// apply applies the files of an example, and returns the namespaces that have its objects, and its pods. Objects without a namespace are applied in
// a new one.
func (e example) apply(t *testing.T, c client.Client) (namespaces []string, sets []podSet) {
	t.Helper()
	own := testplane.Namespace(t)
	namespaces = []string{own}
	for _, file := range e.files {
		for _, object := range read(t, file) {
			if err := applyTo(t.Context(), c, own, object); err != nil {
				t.Fatalf("%s: %s %s: %v", file, object.GetKind(), object.GetName(), err)
			}
			if e.replicas > 0 && object.GetKind() == "Deployment" {
				scale(t, c, object, e.replicas)
			}
			if set, ok := podsOf(t, c, object); ok {
				sets = append(sets, set)
			}
			if object.GetKind() == "Namespace" {
				namespaces = append(namespaces, object.GetName())
			}
		}
	}
	for _, set := range e.foreign {
		set.namespace = own
		sets = append(sets, set)
	}
	return namespaces, sets
}

// read returns the objects of a file.
func read(t *testing.T, file string) (objects []*unstructured.Unstructured) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, object)
	}
}

// applyTo applies an object as kubectl apply --server-side --namespace does, with strict validation of fields.
func applyTo(ctx context.Context, c client.Client, namespace string, object *unstructured.Unstructured) error {
	namespaced, err := c.IsObjectNamespaced(object)
	if err != nil {
		return err
	}
	if namespaced && object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	return client.WithFieldValidation(c, metav1.FieldValidationStrict).Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("examples"))
}

// scale sets the replicas of a workload by its scale subresource.
func scale(t *testing.T, c client.Client, object *unstructured.Unstructured, replicas int) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := c.SubResource("scale").Patch(t.Context(), object.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
}

// podsOf returns the pods that a workload wants, with the defaults of the API server. It returns false for an object that is no workload.
func podsOf(t *testing.T, c client.Client, applied *unstructured.Unstructured) (set podSet, ok bool) {
	t.Helper()
	field, ok := map[string]string{"Deployment": "replicas", "StatefulSet": "replicas", "Job": "parallelism"}[applied.GetKind()]
	if !ok {
		return podSet{}, false
	}
	object := applied.DeepCopy()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(applied), object); err != nil {
		t.Fatal(err)
	}
	pods, isSet, err := unstructured.NestedInt64(object.Object, "spec", field)
	if err != nil || !isSet {
		t.Fatalf("%s %s: spec.%s: set %t, error %v", object.GetKind(), object.GetName(), field, isSet, err)
	}
	podLabels, _, err := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "labels")
	if err != nil {
		t.Fatal(err)
	}
	return podSet{object.GetNamespace(), podLabels, int(pods)}, true
}

// stated returns the sentences after "Floor:" in the text of a file, sorted.
func stated(t *testing.T, file string) (floors []string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if floor, found := strings.CutPrefix(line, "# Floor: "); found {
			floors = append(floors, strings.TrimSpace(floor))
		}
	}
	slices.Sort(floors)
	return floors
}

// floors describes all protectors in the namespaces of an example as its text does.
func (e example) floors(t *testing.T, c client.Client, namespaces []string, sets []podSet) (floors []string) {
	t.Helper()
	for _, namespace := range namespaces {
		var list v1alpha1.PodProtectorList
		if err := c.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			floors = append(floors, describe(t, &list.Items[i], covered(t, &list.Items[i], sets), max(1, e.cells)))
		}
	}
	slices.Sort(floors)
	return floors
}

// covered returns the number of pods of one cell that a protector covers.
func covered(t *testing.T, p *v1alpha1.PodProtector, sets []podSet) (pods int) {
	t.Helper()
	coverage, err := selectors.CoverageOf(&p.Spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets {
		if set.namespace == p.Namespace && coverage.Covers(set.labels) {
			pods += set.pods
		}
	}
	return pods
}

// describe counts pods for a protector as aggregators do, all of them available, and removes them one by one, from one cell after the other, until
// the webhook's decision is a denial or no pod is left.
func describe(t *testing.T, p *v1alpha1.PodProtector, podsPerCell, cells int) string {
	t.Helper()
	for cell := range cells {
		p.Status.Cells = append(p.Status.Cells, countedCell(p, cell, podsPerCell))
	}
	floor, known := quota.Floor(p)
	if !known {
		t.Fatalf("the floor of %s is unknown", p.Name)
	}
	pods, admitted := podsPerCell*cells, 0
	for pod := range pods {
		removal := quota.Removal{Cell: cellName(pod % cells), PodUID: types.UID(fmt.Sprint(pod)), Operation: v1alpha1.OperationDelete, At: time.Unix(0, 0)}
		if p.Spec.Spread != nil {
			removal.Domain = quota.Domain{TopologyKey: p.Spec.Spread.TopologyKey, Name: zoneName(pod % zones)}
		}
		if verdict := quota.Decide(p, []quota.Removal{removal})[0]; !verdict.Outcome.Admitted() {
			break
		}
		admitted++
	}
	return fmt.Sprintf("%s keeps %d of %d pods available and admits %s at once.", p.Name, floor, pods, printable.Count(admitted, "removal"))
}

// zones is the number of zones over which the pods of a cell are evenly distributed.
const zones = 3

func zoneName(zone int) string { return fmt.Sprintf("zone-%d", zone) }

func cellName(cell int) string { return fmt.Sprintf("worker-%d", cell) }

func countedCell(p *v1alpha1.PodProtector, cell, pods int) v1alpha1.PodProtectorCell {
	counts := v1alpha1.Aggregation{
		CountedSpec: quota.CountedSpec(&p.Spec), TotalReplicas: int32(pods), AvailableReplicas: int32(pods), CountedReplicas: int32(pods),
		ExpectedReplicas: ptr.To(int32(pods)),
	}
	if p.Spec.Spread != nil {
		counts.Spread = &v1alpha1.CellDomains{TopologyKey: p.Spec.Spread.TopologyKey}
		for zone := range zones {
			counts.Spread.Domains = append(counts.Spread.Domains, v1alpha1.DomainCount{Name: zoneName(zone), Counted: int32(pods / zones)})
		}
	}
	return v1alpha1.PodProtectorCell{CellID: cellName(cell), Aggregation: counts}
}

func TestIndexAndTextsAreComplete(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"trial.yaml"} // a test of charts/ renders it
	for _, e := range examples() {
		texts = append(texts, e.files[0])
	}
	if len(texts) != 10 {
		t.Errorf("the test has %d examples, want 10", len(texts))
	}
	for _, file := range files {
		if !slices.Contains(texts, file) {
			t.Errorf("no test applies %s", file)
		}
	}
	for _, file := range texts {
		if !strings.Contains(string(index), "]("+file+")") {
			t.Errorf("README.md does not list %s", file)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, heading := range []string{"# Use it when ", "# Floor: ", "# Refuses: ", "# Does not protect from: "} {
			if !strings.Contains(string(raw), "\n"+heading) {
				t.Errorf("%s has no line that begins with %q", file, heading)
			}
		}
	}
}
