package accidents_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// In each, a commit removes all services from what is synced.
func TestAccidentsOfGitOps(t *testing.T) {
	for _, program := range []string{"source-controller", "kustomize-controller", "controller-gen", "argo-sync"} {
		if _, err := local.BuiltProgram(program); err != nil {
			t.Skipf("make e2e runs it, with the programs of Flux and Argo CD: %v", err)
		}
	}
	single.Claim(t, "no commit that makes Flux or Argo CD prune many workloads takes a floor or a pod below it", func(l *e2e.Lab) {
		s := newStage(l)
		r := newReport("single", s)
		defer func() { s.Must(r.write()) }()
		s.restore()
		for _, b := range []burst{
			{"flux-prunes", s.startFlux().prune, pending(v1alpha1.ReasonLimitExceeded), nil, false},
			{"argo-cd-prunes", argoPrunes, pending(v1alpha1.ReasonLimitExceeded), (*stage).endForegroundDeletions, false},
		} {
			r.Accidents[b.name] = s.play(b)
		}
		r.judge(s)
	})
}

// manifests are the Deployments of all services, each in a file of its own.
func (s *stage) manifests() map[string]string {
	s.Helper()
	files := map[string]string{}
	for _, of := range s.services {
		raw, err := yaml.Marshal(s.deployment(s.sites[0], of))
		s.Must(err)
		files[fmt.Sprintf("services/%s-%s.yaml", of.namespace, of.name)] = string(raw)
	}
	return files
}

// remains is all that is synced after the accident: neither engine prunes everything.
const remains = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: remains, namespace: default}\n"

// flux syncs the services from a Git repository.
type flux struct {
	*stage
	site       *gitops.Site
	repository *gitops.Repository
}

// fluxNamespace is that of the Kustomization and its source; name is theirs.
const fluxNamespace, fluxName = "fleet", "services"

// startFlux starts its real controllers, and returns when they have applied the services.
func (s *stage) startFlux() *flux {
	s.Helper()
	dir := filepath.Join(s.TB.(*testing.T).TempDir(), "flux")
	s.Must(os.MkdirAll(dir, 0o700))
	f := &flux{stage: s}
	var err error
	f.site, err = gitops.NewSite(s.sites[0].Cluster, dir)
	s.Must(err)
	s.Cleanup(func() {
		if s.Failed() {
			f.site.PrintLogs()
		}
		f.site.Close()
	})
	s.Must(f.site.StartFlux(s.Context(), fluxNamespace))
	f.repository, err = gitops.NewRepository(s.Context(), dir)
	s.Must(err)
	s.Cleanup(f.repository.Close)
	files := s.manifests()
	files["services/remains.yaml"] = remains
	s.Must(f.repository.Commit(s.Context(), "All services", files))
	for _, object := range []string{
		`{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"namespace": %[1]q, "name": %[2]q},
			"spec": {"interval": "1h", "url": %[3]q, "ref": {"branch": "main"}}}`,
		`{"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"namespace": %[1]q, "name": %[2]q},
			"spec": {"interval": "1h", "path": "./services", "prune": true, "sourceRef": {"kind": "GitRepository", "name": %[2]q}}}`,
	} {
		s.applyText(fmt.Sprintf(object, fluxNamespace, fluxName, f.repository.URL()))
	}
	f.sync()
	return f
}

// sync waits until Flux has applied the newest commit.
func (f *flux) sync() {
	f.Helper()
	key := client.ObjectKey{Namespace: fluxNamespace, Name: fluxName}
	f.Must(f.site.Fetch(f.Context(), key, f.repository))
	head, err := f.repository.Head(f.Context())
	f.Must(err)
	f.Must(f.site.AwaitApplied(f.Context(), key, head))
}

// prune commits the accident, and ends Flux, which would go on pruning what is restored.
func (f *flux) prune(*stage) {
	f.Helper()
	files := f.manifests()
	for name := range maps.Keys(files) {
		files[name] = "" // removes it
	}
	f.Must(f.repository.Commit(f.Context(), "A mistake", files))
	f.sync()
	f.wantDeleted()
	f.site.Close()
}

// argoPrunes syncs the services by the engine of Argo CD, and then what remains of them.
func argoPrunes(s *stage) {
	s.Helper()
	var all bytes.Buffer
	for _, text := range s.manifests() {
		all.WriteString(text + "---\n")
	}
	s.argoSyncs(all.String() + remains)
	s.argoSyncs(remains)
	s.wantDeleted()
}

func (s *stage) argoSyncs(manifests string) {
	s.Helper()
	out, err := gitops.Output(s.Context(), []byte(manifests), "argo-sync", "-kubeconfig="+s.sites[0].Kubeconfig(), "-application=services")
	s.Must(err)
	s.Logf("%.300s", out)
}

// wantDeleted waits until all Deployments are deleted, or are being deleted: there was an accident.
func (s *stage) wantDeleted() {
	s.Helper()
	s.Eventually(func() string {
		for n := range namespaces {
			var list appsv1.DeploymentList
			s.Must(s.Core.List(s.Context(), &list, client.InNamespace(fmt.Sprintf("%s-%d", s.prefix, n))))
			for i := range list.Items {
				if list.Items[i].DeletionTimestamp == nil {
					return fmt.Sprintf("Deployment %s/%s is not deleted", list.Items[i].Namespace, list.Items[i].Name)
				}
			}
		}
		return ""
	})
}

// endForegroundDeletions ends deletions that wait for pods, whose removals are refused, as a user does who recreates the Deployments.
func (s *stage) endForegroundDeletions() {
	s.Helper()
	for _, of := range s.services {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: of.name}}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"finalizers": null}}`))
		s.Must(client.IgnoreNotFound(s.Core.Patch(s.Context(), d, patch)))
	}
}
