package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/crds"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// ownDefinitions returns the CRDs of this version.
func ownDefinitions() (all []apiextensionsv1.CustomResourceDefinition, err error) {
	names, err := fs.Glob(crds.FS, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		raw, err := crds.FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		definition := apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, &definition); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		all = append(all, definition)
	}
	return all, nil
}

func readResult[T any](value T, err error) findings.Result[T] {
	return findings.Result[T]{Value: value, Err: err}
}

// measureClock measures the clock of an API server with the Date header of a response, which has a resolution of one second. An error
// response has that header as well.
func measureClock(ctx context.Context, config *rest.Config) (findings.Clock, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return findings.Clock{}, err
	}
	defer client.CloseIdleConnections()
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return findings.Clock{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return findings.Clock{}, err
	}
	sent := time.Now()
	response, err := client.Do(request)
	took := time.Since(sent)
	if err != nil {
		return findings.Clock{}, err
	}
	defer response.Body.Close()
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return findings.Clock{}, fmt.Errorf("%s returned no valid Date header: %w", config.Host, err)
	}
	const half = time.Second / 2
	return findings.Clock{Ahead: date.Add(half).Sub(sent.Add(took / 2)), Uncertainty: half + took/2}, nil
}

// readPermissions returns the wanted permissions of the user. If the user may review others, it also returns those of the components' accounts.
func readPermissions(ctx context.Context, config *rest.Config, inCore bool, wanted []findings.Permission) ([]findings.Permission, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(wanted, componentPermissions(ctx, client, inCore))
	errs := make([]error, len(all))
	plugin.ForEachConcurrently(all, func(i int, _ findings.Permission) {
		all[i].Allowed, errs[i] = plugin.IsAllowed(ctx, client, &all[i])
	})
	return all, plugin.WithRemedy(config, errors.Join(errs...))
}

// componentPermissions returns the permissions that accounts of components need. It returns none if the user may not list the accounts or review
// their permissions.
func componentPermissions(ctx context.Context, client kubernetes.Interface, inCore bool) (all []findings.Permission) {
	ours := metav1.ListOptions{LabelSelector: findings.LabelPartOf + "=" + findings.PartOfBreakwater}
	accounts, err := client.CoreV1().ServiceAccounts(metav1.NamespaceAll).List(ctx, ours)
	review := &findings.Permission{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}
	if allowed, reviewErr := plugin.IsAllowed(ctx, client, review); err != nil || reviewErr != nil || !allowed {
		return nil
	}
	for i := range accounts.Items {
		account := &accounts.Items[i]
		needed := findings.ComponentPermissions(account.Labels[findings.LabelComponent], inCore)
		for j := range needed {
			needed[j].Account = "system:serviceaccount:" + account.Namespace + ":" + account.Name
		}
		all = slices.Concat(all, needed)
	}
	return all
}

// readLabeled returns the metadata of workloads of built-in kinds, and of namespaces, that a label selector selects.
func readLabeled(ctx context.Context, config *rest.Config, selector string) (all []findings.Labeled, err error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kinds := slices.Collect(maps.Keys(policy.BuiltIn()))
	for _, kind := range append(kinds, corev1.SchemeGroupVersion.WithKind("Namespace")) {
		on := v1alpha1.KeyOnWorkload
		if kind.Kind == "Namespace" {
			on = v1alpha1.KeyOnNamespace
		}
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(resource).List(ctx, options)
		})
		err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(object runtime.Object) error {
			all = append(all, findings.Labeled{On: on, Kind: kind.Kind, Object: object.(*metav1.PartialObjectMetadata)})
			return nil
		})
		if err != nil {
			return nil, plugin.WithRemedy(config, err)
		}
	}
	return all, nil
}

// readJobPods returns the metadata of the running pods of Jobs.
func readJobPods(ctx context.Context, config *rest.Config) (all []metav1.PartialObjectMetadata, err error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).List(ctx, options)
	})
	running := metav1.ListOptions{LabelSelector: findings.JobLabel, FieldSelector: "status.phase=" + string(corev1.PodRunning)}
	err = pages.EachListItem(ctx, running, func(object runtime.Object) error {
		all = append(all, *object.(*metav1.PartialObjectMetadata))
		return nil
	})
	return all, plugin.WithRemedy(config, err)
}
