package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// ownedGroup has a copy of PodProtector in which each field of a cell has an owner.
const ownedGroup = "owned.breakwater.test"

// BenchmarkStatusWrite measures the CPU time of the API server for one write of a status with a number of reservations.
func BenchmarkStatusWrite(b *testing.B) {
	config := rest.CopyConfig(testplane.Config(b))
	config.QPS = -1
	c, err := client.New(config, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	createOwned(b, config, c)
	namespace := testplane.Namespace(b)
	for _, reservations := range []int{0, 20, 100} {
		for owner, version := range map[string]string{"cells": "breakwater.dev/v1alpha1", "fields": ownedGroup + "/v1alpha1"} {
			b.Run(fmt.Sprintf("owned=%s/reservations=%d", owner, reservations), func(b *testing.B) {
				p := &unstructured.Unstructured{}
				decode(b, `{kind: PodProtector, apiVersion: `+version+`, metadata: {generateName: bench-, namespace: `+namespace+`},
					spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}`, &p.Object)
				if err := c.Create(b.Context(), p); err != nil {
					b.Fatal(err)
				}
				before := testplane.CPUSeconds(b, config)
				for i := 0; b.Loop(); i++ {
					var status map[string]any
					decode(b, cellStatus("cell-"+strconv.Itoa(i%2), `admissionHistory: {buckets: [`+buckets(i, reservations)+`]}`), &status)
					p.Object["status"] = status
					if err := c.Status().Update(b.Context(), p); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(1000*(testplane.CPUSeconds(b, config)-before)/float64(b.N), "apiserver-ms/op")
			})
		}
	}
}

func buckets(first, n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, `{startTime: "2026-11-21T12:00:00.000000Z", counter: 1, podUID: 1d6f0f3a-7f0f-4d3e-9c56-%012d, podName: web-%d, operation: Delete},`, first+i, first+i)
	}
	return all.String()
}

func decode(b *testing.B, text string, into *map[string]any) {
	b.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		b.Fatal(err)
	}
}

// createOwned makes the copy of the CRD.
func createOwned(b *testing.B, config *rest.Config, c client.Client) {
	b.Helper()
	raw, err := os.ReadFile("../../../api/crds/breakwater.dev_podprotectors.yaml")
	if err != nil {
		b.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), "breakwater.dev\n", ownedGroup+"\n")
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(text), definition); err != nil {
		b.Fatal(err)
	}
	cells := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["cells"].Items.Schema
	if cells.XMapType == nil {
		b.Fatal("cells have no owner as a whole, so that there is nothing to compare")
	}
	cells.XMapType = nil
	raw, err = json.Marshal(definition)
	if err != nil {
		b.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		b.Fatal(err)
	}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	object.SetName("podprotectors." + ownedGroup)
	object.SetAnnotations(nil)
	if err := c.Create(b.Context(), object); err != nil {
		b.Fatal(err)
	}
	served := discovery.NewDiscoveryClientForConfigOrDie(config)
	testplane.Eventually(b, func() string {
		if list, err := served.ServerResourcesForGroupVersion(ownedGroup + "/v1alpha1"); err != nil || len(list.APIResources) == 0 {
			return fmt.Sprintf("the copy of the CRD is not served: %v", err)
		}
		return ""
	})
}
