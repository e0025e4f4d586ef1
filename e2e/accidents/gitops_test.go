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

// TestAccidentsOfGitOps removes all services from the synced manifests, once with Flux and once with Argo CD.
func TestAccidentsOfGitOps(t *testing.T) {
	for _, program := range []string{"source-controller", "kustomize-controller", "controller-gen", "argo-sync"} {
		if _, err := local.BuiltProgram(program); err != nil {
			t.Skipf("needs the programs of Flux and Argo CD, run it with make e2e: %v", err)
		}
	}
	singleSuite.Claim(t, "no commit that makes Flux or Argo CD prune many workloads lowers a floor or takes pods below it", func(l *e2e.Fixture) {
		s := newFixture(l)
		r := newReport("single", s)
		defer func() { s.Must(r.saveReport()) }()
		s.restoreServices()
		for _, b := range []massAccident{
			{"flux-prunes", s.startFlux().commitRemoval, pending(v1alpha1.ReasonLimitExceeded), nil, false},
			{"argo-cd-prunes", pruneWithArgo, pending(v1alpha1.ReasonLimitExceeded), (*fixture).endForegroundDeletions, false},
		} {
			r.Accidents[b.name] = s.runAccident(b)
		}
		r.checkAccidents(s)
	})
}

// manifests returns the Deployments of all services as files, one file per Deployment.
func (s *fixture) manifests() map[string]string {
	s.Helper()
	files := map[string]string{}
	for _, of := range s.services {
		raw, err := yaml.Marshal(s.newDeployment(s.clusters[0], of))
		s.Must(err)
		files[fmt.Sprintf("services/%s-%s.yaml", of.namespace, of.name)] = string(raw)
	}
	return files
}

// remainingManifests is the only manifest that is synced after the accident, because neither engine prunes everything.
const remainingManifests = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: remains, namespace: default}\n"

// fluxSync syncs the services from a Git repository with Flux.
type fluxSync struct {
	*fixture
	site       *gitops.ProcessHost
	repository *gitops.Repository
}

// fluxNamespace and fluxName are the namespace and the name of the Kustomization and its source.
const fluxNamespace, fluxName = "fleet", "services"

// startFlux starts the real controllers of Flux, and returns when they have applied the services.
func (s *fixture) startFlux() *fluxSync {
	s.Helper()
	dir := filepath.Join(s.TB.(*testing.T).TempDir(), "flux")
	s.Must(os.MkdirAll(dir, 0o700))
	f := &fluxSync{fixture: s}
	var err error
	f.site, err = gitops.NewProcessHost(s.clusters[0].Cluster, dir)
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
	files["services/remains.yaml"] = remainingManifests
	s.Must(f.repository.Commit(s.Context(), "All services", files))
	for _, object := range []string{
		`{"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"namespace": %[1]q, "name": %[2]q},
			"spec": {"interval": "1h", "url": %[3]q, "ref": {"branch": "main"}}}`,
		`{"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"namespace": %[1]q, "name": %[2]q},
			"spec": {"interval": "1h", "path": "./services", "prune": true, "sourceRef": {"kind": "GitRepository", "name": %[2]q}}}`,
	} {
		s.applyJSON(fmt.Sprintf(object, fluxNamespace, fluxName, f.repository.URL()))
	}
	f.waitForSync()
	return f
}

// waitForSync waits until Flux has applied the newest commit.
func (f *fluxSync) waitForSync() {
	f.Helper()
	key := client.ObjectKey{Namespace: fluxNamespace, Name: fluxName}
	f.Must(f.site.FetchNewestCommit(f.Context(), key, f.repository))
	head, err := f.repository.Head(f.Context())
	f.Must(err)
	f.Must(f.site.WaitForApplied(f.Context(), key, head))
}

// commitRemoval commits the accident and waits until Flux has applied it. Then it stops Flux, which would otherwise prune the services that
// the test restores.
func (f *fluxSync) commitRemoval(*fixture) {
	f.Helper()
	files := f.manifests()
	for name := range maps.Keys(files) {
		files[name] = "" // removes the file
	}
	f.Must(f.repository.Commit(f.Context(), "A mistake", files))
	f.waitForSync()
	f.waitForDeletions()
	f.site.Close()
}

// pruneWithArgo syncs all services with the engine of Argo CD, and then only the remaining manifests.
func pruneWithArgo(s *fixture) {
	s.Helper()
	var all bytes.Buffer
	for _, text := range s.manifests() {
		all.WriteString(text + "---\n")
	}
	s.syncWithArgo(all.String() + remainingManifests)
	s.syncWithArgo(remainingManifests)
	s.waitForDeletions()
}

func (s *fixture) syncWithArgo(manifests string) {
	s.Helper()
	out, err := gitops.Output(s.Context(), []byte(manifests), "argo-sync", "-kubeconfig="+s.clusters[0].Kubeconfig(), "-application=services")
	s.Must(err)
	s.Logf("%.300s", out)
}

// waitForDeletions waits until all Deployments are deleted or being deleted. This proves that the accident happened.
func (s *fixture) waitForDeletions() {
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

// endForegroundDeletions removes the finalizers of Deployments whose foreground deletion waits for pods. The removals of those pods are
// denied. A user does the same before recreating the Deployments.
func (s *fixture) endForegroundDeletions() {
	s.Helper()
	for _, of := range s.services {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: of.name}}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"finalizers": null}}`))
		s.Must(client.IgnoreNotFound(s.Core.Patch(s.Context(), d, patch)))
	}
}
