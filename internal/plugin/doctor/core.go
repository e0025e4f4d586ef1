package doctor

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli/finalizers"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// maxDenialAge is the age up to which denials are read to find deleted protectors.
const maxDenialAge = 5 * time.Minute

func (f *doctorFlags) readCore(ctx context.Context, c plugin.Core) findings.Core {
	found := findings.Core{Name: c.Name}
	if found.Clock = readResult(measureClock(ctx, c.Config)); found.Clock.Err != nil {
		return found
	}
	plugin.RunConcurrently(
		func() {
			found.Definitions = readResult(plugin.ReadAll[apiextensionsv1.CustomResourceDefinition](ctx, c, &apiextensionsv1.CustomResourceDefinitionList{}))
		},
		func() { found.Cells = readResult(plugin.ReadAll[v1alpha1.Cell](ctx, c, &v1alpha1.CellList{})) },
		func() {
			found.Protectors = readResult(plugin.ReadAll[v1alpha1.PodProtector](ctx, c, &v1alpha1.PodProtectorList{}))
		},
		func() {
			all, err := plugin.ReadDenials(ctx, c, "", "")
			found.Denials = readResult(denial.Since(all, f.Now().Add(-maxDenialAge)), err)
		},
		func() { found.Labeled = readResult(readLabeled(ctx, c.Config, "")) },
		func() { found.Terminating = readResult(readHeldObjects(ctx, c)) },
		func() { found.Pods = readResult(readComponentPods(ctx, c.Config)) },
		func() {
			found.Permissions = readResult(readPermissions(ctx, c.Config, true, findings.UserPermissions(true)))
		},
		func() { found.Validating = readResult(plugin.WebhookConfigurations(ctx, c.Config)) },
		func() { found.Mutating = readResult(mutatingConfigurations(ctx, c.Config)) },
		func() { found.Policies = readResult(readPolicies(ctx, c)) },
		func() {
			if found.Rings = readResult(readIfServed[v1alpha1.ClusterRing](ctx, c, &v1alpha1.ClusterRingList{})); found.Rings.Err == nil {
				found.Leases = readResult(readShards(ctx, c, found.Rings.Value))
			}
		},
	)
	plugin.RunConcurrently(
		func() { found.SecondProtector = f.dryRunDuplicate(ctx, c, &found) },
		func() { found.Hooks = requestCoreWebhooks(ctx, &found) },
	)
	return found
}

// readHeldObjects returns deleted objects that wait for a finalizer of Breakwater.
func readHeldObjects(ctx context.Context, c plugin.Core) (all []findings.TerminatingObject, err error) {
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	found, err := (&finalizers.Finder{Metadata: client, Mapper: c.RESTMapper()}).Find(ctx)
	if err != nil {
		return nil, c.WithRemedy(err)
	}
	for i := range found {
		if found[i].IsDeleted() {
			all = append(all, findings.TerminatingObject{Name: found[i].Name(), Deleted: found[i].Object.DeletionTimestamp.Time, Finalizers: found[i].Finalizers})
		}
	}
	return all, nil
}

func readComponentPods(ctx context.Context, config *rest.Config) ([]corev1.Pod, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: findings.LabelPartOf + "=" + findings.PartOfBreakwater})
	if err != nil {
		return nil, plugin.WithRemedy(config, err)
	}
	return list.Items, nil
}

// readIfServed reads all objects of a kind, none if its CRD does not exist: the crds check reports that.
func readIfServed[T any](ctx context.Context, c plugin.Core, kind client.ObjectList) ([]T, error) {
	all, err := plugin.ReadAll[T](ctx, c, kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	return all, err
}

// readShards reads the Leases of shards in each namespace that a ring names.
func readShards(ctx context.Context, c plugin.Core, rings []v1alpha1.ClusterRing) (all []coordinationv1.Lease, err error) {
	var read []string
	for i := range rings {
		namespace := rings[i].Spec.ShardNamespace
		if slices.Contains(read, namespace) {
			continue
		}
		read = append(read, namespace)
		some, err := plugin.ReadAll[coordinationv1.Lease](ctx, c, &coordinationv1.LeaseList{}, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelRing})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// readPolicies reads the names of scheduling policies.
func readPolicies(ctx context.Context, c plugin.Core) (names []string, err error) {
	namespaced, err := readIfServed[v1alpha1.PodSchedulingPolicy](ctx, c, &v1alpha1.PodSchedulingPolicyList{})
	if err != nil {
		return nil, err
	}
	for i := range namespaced {
		names = append(names, namespaced[i].Namespace+"/"+namespaced[i].Name)
	}
	all, err := readIfServed[v1alpha1.ClusterPodSchedulingPolicy](ctx, c, &v1alpha1.ClusterPodSchedulingPolicyList{})
	for i := range all {
		names = append(names, all[i].Name)
	}
	return names, err
}
