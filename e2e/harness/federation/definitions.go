package federation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	apihelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/crds"
)

// definitionInterval is the interval between two looks at a new CustomResourceDefinition.
const definitionInterval = 50 * time.Millisecond

// InstallDefinitions creates the CRDs of Breakwater in a cluster, and returns when the API server has accepted them.
func InstallDefinitions(ctx context.Context, admin *rest.Config) error {
	clients, err := apiextensions.NewForConfig(admin)
	if err != nil {
		return err
	}
	files, err := fs.Glob(crds.FS, "*.yaml")
	if err != nil {
		return err
	}
	definitions := clients.ApiextensionsV1().CustomResourceDefinitions()
	var names []string
	for _, file := range files {
		raw, err := crds.FS.ReadFile(file)
		if err != nil {
			return err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, definition); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("install %s: %w", file, err)
		}
		names = append(names, definition.Name)
	}
	for _, name := range names {
		var last error
		err := wait.PollUntilContextCancel(ctx, definitionInterval, true, func(ctx context.Context) (bool, error) {
			var definition *apiextensionsv1.CustomResourceDefinition
			definition, last = definitions.Get(ctx, name, metav1.GetOptions{})
			return last == nil && apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established), nil
		})
		if err != nil {
			return fmt.Errorf("wait for CustomResourceDefinition %s: %w", name, errors.Join(err, last))
		}
	}
	return nil
}
