package realworkloads_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// installCRDs creates the CRDs of testdata/crds in all clusters, and waits until they are served.
func installCRDs(ctx context.Context, f federation.Federation) error {
	definitions, err := readCRDs()
	if err != nil {
		return err
	}
	for _, cluster := range f.Clusters() {
		clients, err := apiextensions.NewForConfig(cluster.RESTConfig())
		if err != nil {
			return err
		}
		crds := clients.ApiextensionsV1().CustomResourceDefinitions()
		for _, d := range definitions {
			if _, err := crds.Create(ctx, d.DeepCopy(), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create CustomResourceDefinition %s: %w", d.Name, err)
			}
		}
		for _, d := range definitions {
			if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
				now, err := crds.Get(ctx, d.Name, metav1.GetOptions{})
				return err == nil && isEstablished(now), err
			}); err != nil {
				return fmt.Errorf("wait for CustomResourceDefinition %s: %w", d.Name, err)
			}
		}
	}
	return nil
}

func isEstablished(d *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// readCRDs reads the CRDs. Their schemas allow all fields: only names, scopes and subresources are those of the real ones.
func readCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob("testdata/crds/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, d)
	}
	return all, nil
}
