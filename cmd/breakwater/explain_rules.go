package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli/commands"
	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// rules are the policies, protectors and settings that explain objects.
type rules struct {
	policies   []*scheduling.Policy
	protectors []protector
	webhooks   webhookScope
	// labels are the labels of each namespace. byLabels reports whether policies select namespaces by labels other than the name.
	labels   map[string]map[string]string
	byLabels bool
}

// readRules reads the rules for the objects. It also returns notes.
func (f *explainFlags) readRules(ctx context.Context, in io.Reader, objects []object) (*rules, []string, error) {
	namespaces := map[string]bool{}
	for _, o := range objects {
		namespaces[o.Object.GetNamespace()] = true
	}
	r := &rules{labels: map[string]map[string]string{}}
	r.webhooks = webhookScope{cell: f.cellName, scopes: map[string]scope.Scope{}, exempt: f.exemptNamespaces}
	notes, err := r.webhooks.readWebhooks(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	more, err := r.read(ctx, f, in, slices.Sorted(maps.Keys(namespaces)))
	if err != nil {
		return nil, nil, err
	}
	notes = append(notes, more...)
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if r.labels[namespace], err = f.labelsOf(ctx, namespace); err != nil {
			return nil, nil, err
		}
	}
	return r, append(notes, r.missingNotes(f)...), nil
}

// read reads the rules from files, or from each core cluster.
func (r *rules) read(ctx context.Context, f *explainFlags, in io.Reader, namespaces []string) (notes []string, err error) {
	if len(f.policies) > 0 {
		r.webhooks.cores = []string{""}
		return r.readFiles(f, in)
	}
	cores, err := f.coreConnections()
	if err != nil {
		return nil, err
	}
	for _, core := range cores {
		r.webhooks.cores = append(r.webhooks.cores, core.name)
		if err := r.readCore(ctx, &core, namespaces); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// readFiles reads policies and protectors from files. Objects without a namespace get that of --namespace, as in kubectl.
func (r *rules) readFiles(f *explainFlags, in io.Reader) ([]string, error) {
	sources, notes, err := commands.ReadFiles(f.policies, f.recursive, in)
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		if source.Object.GetNamespace() == "" {
			source.Object.SetNamespace(cmp.Or(f.namespace, corev1.NamespaceDefault))
		}
		read, err := r.add("", source.Object, true)
		if err != nil {
			return nil, fmt.Errorf("%s %s in %s: %w", source.Object.GetKind(), source.Object.GetName(), source.Origin, err)
		}
		if !read {
			notes = append(notes, fmt.Sprintf("skipped %s %s in %s: it is not a policy, PodProtector or Cell of Breakwater",
				source.Object.GroupVersionKind().GroupKind(), source.Object.GetName(), source.Origin))
		}
	}
	return notes, nil
}

func (r *rules) readCore(ctx context.Context, core *coreConnection, namespaces []string) error {
	config, err := core.Config("explain")
	if err != nil {
		return fmt.Errorf("%s: %w", core.flag, err)
	}
	lister, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	list := func(resource, namespace string) error {
		found, err := commands.ListAll(ctx, lister.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(namespace))
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%s has no %s.%s: select the core cluster with --kubeconfig, --context or --core, or set --policies",
				config.Host, resource, v1alpha1.GroupVersion.Group)
		}
		if err != nil {
			return fmt.Errorf("list %s in %s: %w", resource, config.Host, err)
		}
		return r.addAll(core.name, found)
	}
	for _, namespace := range namespaces {
		for _, resource := range []string{"podschedulingpolicies", "podprotectors"} {
			if err := list(resource, namespace); err != nil {
				return err
			}
		}
	}
	if r.webhooks.cell != "" {
		if err := list("cells", ""); err != nil {
			return err
		}
	}
	return list("clusterpodschedulingpolicies", "")
}

func (r *rules) addAll(core string, found []convert.Source) error {
	for _, source := range found {
		if _, err := r.add(core, source.Object, false); err != nil {
			return fmt.Errorf("%s %s: %w", source.Object.GetKind(), source.Object.GetName(), err)
		}
	}
	return nil
}

// add adds a policy, a protector or a Cell of a core cluster. It returns false for other objects. strictly rejects unknown fields, for
// objects that a user wrote.
func (r *rules) add(core string, from *unstructured.Unstructured, strict bool) (bool, error) {
	if from.GroupVersionKind().GroupVersion() != v1alpha1.GroupVersion {
		return false, nil
	}
	var to interface {
		metav1.Object
		runtime.Object
	}
	switch from.GetKind() {
	case scheduling.NamespacedPolicy:
		to = &v1alpha1.PodSchedulingPolicy{}
	case scheduling.ClusterPolicy:
		to = &v1alpha1.ClusterPodSchedulingPolicy{}
	case "PodProtector":
		to = &v1alpha1.PodProtector{}
	case "Cell":
		to = &v1alpha1.Cell{}
	default:
		return false, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from.Object, to, strict); err != nil {
		return false, fmt.Errorf("correct or remove the object: %w", err)
	}
	switch to := to.(type) {
	case *v1alpha1.PodProtector:
		r.protectors = append(r.protectors, protector{to, core})
		return true, nil
	case *v1alpha1.Cell:
		return true, r.webhooks.addCell(core, to)
	}
	policy, err := scheduling.Compile(core, to)
	if err != nil {
		return false, fmt.Errorf("correct or remove the object: %w", err)
	}
	r.policies = append(r.policies, policy)
	if cluster, ok := to.(*v1alpha1.ClusterPodSchedulingPolicy); ok {
		r.byLabels = r.byLabels || usesLabels(cluster.Spec.NamespaceSelector)
	}
	return true, nil
}
