package gitops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// applierAccount is the ServiceAccount with which Flux applies objects, in the namespace of the Kustomizations. It must be allowed to
// create ClusterRoles.
const applierAccount = "flux-applier"

// fluxNamespace is the namespace of Flux's own ServiceAccounts.
const fluxNamespace = "flux-system"

// StartFlux installs the CRDs of Flux and starts its controllers with only the permissions for their own work. The Kustomizations of the
// namespace apply objects with a ServiceAccount of that namespace.
func (s *ProcessHost) StartFlux(ctx context.Context, namespace string) error {
	if err := s.installFluxCRDs(ctx); err != nil {
		return err
	}
	if err := s.CreateNamespaces(ctx, fluxNamespace, namespace); err != nil {
		return err
	}
	everything := []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, {NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
	}
	if _, err := s.createServiceAccount(ctx, namespace, applierAccount, everything); err != nil {
		return err
	}
	archives, err := s.FreeAddress()
	if err != nil {
		return err
	}
	storage := s.Path("sources")
	if err := os.Mkdir(storage, 0o700); err != nil {
		return err
	}
	err = s.startController(ctx, "source-controller", []rbacv1.PolicyRule{
		policyRule("source.toolkit.fluxcd.io", "*", "get", "list", "watch", "patch", "update", "create", "delete"),
		policyRule("", "secrets", "get", "list", "watch"), policyRule("", "serviceaccounts", "get", "list", "watch"), policyRule("", "events", "create", "patch"),
	}, "--storage-path="+storage, "--storage-addr="+archives, "--storage-adv-addr="+archives)
	if err != nil {
		return err
	}
	return s.startController(ctx, "kustomize-controller", []rbacv1.PolicyRule{
		policyRule("kustomize.toolkit.fluxcd.io", "kustomizations", "get", "list", "watch", "patch", "update"),
		policyRule("kustomize.toolkit.fluxcd.io", "kustomizations/status", "get", "patch", "update"),
		policyRule("kustomize.toolkit.fluxcd.io", "kustomizations/finalizers", "update"),
		policyRule("source.toolkit.fluxcd.io", "*", "get", "list", "watch"),
		policyRule("", "secrets", "get", "list", "watch"),
		policyRule("", "configmaps", "get", "list", "watch"),
		policyRule("", "serviceaccounts", "get", "list", "watch", "impersonate"),
		policyRule("", "events", "create", "patch"),
	}, "--requeue-dependency=1s", "--default-service-account="+applierAccount)
}

func policyRule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// startController starts a controller of Flux with its own ServiceAccount.
func (s *ProcessHost) startController(ctx context.Context, name string, rules []rbacv1.PolicyRule, arguments ...string) error {
	kubeconfig, err := s.createServiceAccount(ctx, fluxNamespace, name, rules)
	if err != nil {
		return err
	}
	path, err := local.BuiltProgram(name)
	if err != nil {
		return err
	}
	health, err := s.FreeAddress()
	if err != nil {
		return err
	}
	arguments = append(arguments, "--watch-all-namespaces=true", "--enable-leader-election=false", "--metrics-addr=0", "--health-addr="+health)
	return s.StartProcess(name, path, []string{"KUBECONFIG=" + kubeconfig, "RUNTIME_NAMESPACE=" + fluxNamespace}, arguments...)
}

// FetchNewestCommit makes the source-controller fetch a repository now, and waits until it serves the newest commit.
func (s *ProcessHost) FetchNewestCommit(ctx context.Context, gitRepository client.ObjectKey, r *Repository) error {
	want, err := r.Head(ctx)
	if err != nil {
		return err
	}
	source, err := s.GitRepository(ctx, gitRepository.Namespace, gitRepository.Name)
	if err != nil {
		return err
	}
	if err := s.Patch(ctx, source, ReconcileNowPatch(time.Now().Format(time.RFC3339Nano))); err != nil {
		return err
	}
	return WaitUntil(ctx, "the source-controller to serve "+want, func() string {
		got, err := s.Revision(ctx, gitRepository)
		if err != nil {
			return err.Error()
		}
		if got != want {
			return fmt.Sprintf("it serves %q", got)
		}
		return ""
	})
}

// GitRepository reads a GitRepository of Flux.
func (s *ProcessHost) GitRepository(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	return s.Read(ctx, schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "GitRepository"}, namespace, name)
}

// Kustomization reads a Kustomization of Flux.
func (s *ProcessHost) Kustomization(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	return s.Read(ctx, schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}, namespace, name)
}

// Revision returns the newest revision that the source-controller has of a GitRepository.
func (s *ProcessHost) Revision(ctx context.Context, gitRepository client.ObjectKey) (string, error) {
	source, err := s.GitRepository(ctx, gitRepository.Namespace, gitRepository.Name)
	if err != nil {
		return "", err
	}
	revision, _, err := unstructured.NestedString(source.Object, "status", "artifact", "revision")
	return revision, err
}

// WaitForApplied waits until a Kustomization has applied a commit and is ready.
func (s *ProcessHost) WaitForApplied(ctx context.Context, kustomization client.ObjectKey, revision string) error {
	return WaitUntil(ctx, "Kustomization "+kustomization.Name, func() string {
		k, err := s.Kustomization(ctx, kustomization.Namespace, kustomization.Name)
		if err != nil {
			return err.Error()
		}
		got, _, _ := unstructured.NestedString(k.Object, "status", "lastAppliedRevision") // absent until it has been applied
		if ready := Condition(k, "Ready"); got != revision || ready.Status != metav1.ConditionTrue {
			return fmt.Sprintf("applied %q, want %q; Ready: %s %s: %s", got, revision, ready.Status, ready.Reason, ready.Message)
		}
		return ""
	})
}

// ReconcileNowPatch returns the patch that makes a controller of Flux reconcile an object now.
func ReconcileNowPatch(token string) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, token))
}

// installFluxCRDs generates the CRDs from Flux's types, as Flux does, and installs them.
func (s *ProcessHost) installFluxCRDs(ctx context.Context) error {
	generator, err := local.BuiltProgram("controller-gen")
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(s.Path("flux"))
	if err != nil {
		return err
	}
	_, err = runInToolModule(ctx, "flux", generator, "crd", "paths=github.com/fluxcd/helm-controller/api/v2",
		"paths=github.com/fluxcd/kustomize-controller/api/v1", "paths=github.com/fluxcd/source-controller/api/v1", "output:crd:dir="+folder)
	if err != nil {
		return err
	}
	return s.InstallCRDs(ctx, filepath.Join(folder, "*.yaml"))
}
