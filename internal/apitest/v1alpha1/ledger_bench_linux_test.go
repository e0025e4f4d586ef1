package v1alpha1_test

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

const (
	ledgerRounds, ledgerWrites, ledgerWatchers = 9, 100, 5
	// ledgerBytes is the size of the counts of a cell and of 20 reservations: 5 single ones, and 10 bytes for each merged one.
	ledgerBytes = 90 + 5*32 + 15*10
)

// BenchmarkLedgerWrite measures the CPU time of the API server for one write of an object that decision 15 rejected, over that for one write of a status with
// 20 reservations in the same run. The object has the same facts in one string, and no managed fields. Each has five watchers. It also measures the write with
// a read of the protector, which shows whether its floor was raised.
func BenchmarkLedgerWrite(b *testing.B) {
	config := rest.CopyConfig(testplane.Config(b))
	config.QPS = -1
	scheme := clusters.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		b.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: testplane.Namespace(b), Name: "web"}}
	p.Spec.MinAvailable, p.Spec.Selector = v1alpha1.Pods(1), &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	if err := c.Create(b.Context(), p); err != nil {
		b.Fatal(err)
	}
	bare := p.DeepCopy() // the protector of such a ledger has no status to read
	bare.Name, bare.ResourceVersion, bare.UID = "bare", "", ""
	if err := c.Create(b.Context(), bare); err != nil {
		b.Fatal(err)
	}
	reservations := reservationWriter{open: 20}
	reservations.addCell(p)
	ledger := newLedger(b, c, p.Namespace)
	writes := map[string]func() error{
		"status": func() error {
			reservations.replaceOldest(p)
			return c.Status().Update(b.Context(), p)
		},
		"ledger": func() error {
			ledger.Object["data"] = base64.StdEncoding.EncodeToString(randomBytes(ledgerBytes))
			return c.Update(b.Context(), ledger)
		},
	}
	writes["ledger-and-read"] = func() error {
		if err := writes["ledger"](); err != nil {
			return err
		}
		return c.Get(b.Context(), client.ObjectKeyFromObject(bare), &v1alpha1.PodProtector{})
	}
	lists := map[string]client.ObjectList{"status": &v1alpha1.PodProtectorList{}, "ledger": ledgerList(), "ledger-and-read": ledgerList()}
	used := map[string][]float64{}
	for range ledgerRounds { // the CPU time of a write depends on what else the machine does, so each round has all
		for name, write := range writes {
			stop := watch(b, c, lists[name], p.Namespace)
			before := measure.APIServerCPU()
			for range ledgerWrites {
				if err := write(); err != nil {
					b.Fatalf("%s: %v", name, err)
				}
			}
			used[name] = append(used[name], (measure.APIServerCPU()-before).Seconds()*1000/ledgerWrites)
			stop()
		}
	}
	b.ReportMetric(median(used["status"]), "status-apiserver-ms/op")
	b.ReportMetric(median(used["ledger"])/median(used["status"]), "ledger-over-status")
	b.ReportMetric(median(used["ledger-and-read"])/median(used["status"]), "ledger-and-read-over-status")
}

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

func randomBytes(n int) []byte {
	all := make([]byte, n)
	for i := range all {
		all[i] = byte(rand.Uint32())
	}
	return all
}

const ledgerGroup = "ledgers.test"

// newLedger creates a custom resource with one string, for which the API server keeps no managed fields.
func newLedger(b *testing.B, c client.Client, namespace string) *unstructured.Unstructured {
	b.Helper()
	object := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"data": {Type: "string"}}}
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "ledgers." + ledgerGroup}}
	definition.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: ledgerGroup, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "ledgers", Kind: "Ledger"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: object},
		}},
	}
	if err := c.Create(b.Context(), definition); err != nil {
		b.Fatal(err)
	}
	ledger := &unstructured.Unstructured{Object: map[string]any{"apiVersion": ledgerGroup + "/v1", "kind": "Ledger", "data": ""}}
	ledger.SetNamespace(namespace)
	ledger.SetName("web")
	testplane.Eventually(b, func() string {
		if err := c.Create(b.Context(), ledger); err != nil {
			return err.Error()
		}
		return ""
	})
	ledger.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // no managed fields, and none from now on
	if err := c.Update(b.Context(), ledger); err != nil {
		b.Fatal(err)
	}
	if left := ledger.GetManagedFields(); len(left) > 0 {
		b.Fatalf("the ledger has managed fields: %v", left)
	}
	return ledger
}

func ledgerList() client.ObjectList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: ledgerGroup, Version: "v1", Kind: "LedgerList"})
	return list
}

// watch opens watches of all objects of a list's kind, and reads them until stop.
func watch(b *testing.B, c client.WithWatch, list client.ObjectList, namespace string) (stop func()) {
	b.Helper()
	var stops []func()
	for range ledgerWatchers {
		watcher, err := c.Watch(b.Context(), list.DeepCopyObject().(client.ObjectList), client.InNamespace(namespace)) //nolint:forcetypeassert // a copy
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			for range watcher.ResultChan() {
			}
		}()
		stops = append(stops, watcher.Stop)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}
