package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// workerFixture is a hub and a worker that names its cores.
type workerFixture struct {
	*testing.T
	hub, worker       *rest.Config
	hubUID, workerUID string
}

func newWorkerFixture(t *testing.T) *workerFixture {
	t.Helper()
	f := &workerFixture{T: t, hub: testplane.Config(t), worker: clusterWithoutCRDs(t)}
	for config, uid := range map[*rest.Config]*string{f.hub: &f.hubUID, f.worker: &f.workerUID} {
		var err error
		if *uid, err = clusters.ClusterOf(t.Context(), kubernetes.NewForConfigOrDie(config)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// name writes the references that join would write into a namespace of the worker.
func (f *workerFixture) name(references map[string]clusters.CoreReference) {
	f.Helper()
	c, ctx := kubernetes.NewForConfigOrDie(f.worker).CoreV1(), context.Background()
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: clusters.CoreReferences}, Data: map[string]string{}}
	for name, reference := range references {
		var err error
		if made.Data[name], err = reference.Data(); err != nil {
			f.Fatal(err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: webhookconfig.DefaultNamespace}}
	_, _ = c.Namespaces().Create(ctx, namespace, metav1.CreateOptions{}) // it may exist
	if _, err := c.ConfigMaps(namespace.Name).Create(ctx, made, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := c.ConfigMaps(namespace.Name).Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
			f.Error(err)
		}
	})
}

// cores finds the cores from the context of the worker, and returns their names and hosts with what was reported.
func (f *workerFixture) cores(kubeconfig string, arguments ...string) (found string, reported string, err error) {
	f.Helper()
	finder := parsedFinder(f.T, append(arguments, "--kubeconfig", kubeconfig)...)
	finder.NamesEnvironment = true
	var lines []string
	finder.Report = func(format string, of ...any) { lines = append(lines, fmt.Sprintf(format, of...)) }
	cores, err := finder.Cores(f.Context())
	var all []string
	for _, c := range cores {
		all = append(all, strings.TrimPrefix(c.Name+" ", " ")+strings.ReplaceAll(c.Config.Host, f.hub.Host, "HUB"))
	}
	return strings.Join(all, ", "), strings.Join(lines, "; "), err
}

func TestWorkerNamesItsCore(t *testing.T) {
	f := newWorkerFixture(t)
	byURL := clusters.CoreReference{Servers: []string{"https://elsewhere", f.hub.Host + "/"}, Cluster: "unknown"}
	byUID := clusters.CoreReference{Servers: []string{"https://core.example"}, Cluster: f.hubUID, Context: "prod"}
	hinted := byURL
	hinted.Context = "second"
	both := map[string]*rest.Config{"worker": f.worker, "hub": f.hub, "gone": {Host: "https://127.0.0.1:1"}}
	several := map[string]*rest.Config{"worker": f.worker, "hub": f.hub, "second": f.hub}
	const named = "named by ConfigMap breakwater-system/breakwater-core"
	for claim, c := range map[string]struct {
		references map[string]clusters.CoreReference
		contexts   map[string]*rest.Config
		arguments  []string
		found      string
		reported   string
		errs       []string
	}{
		"by its URL":                       {map[string]clusters.CoreReference{"a": byURL}, both, nil, "HUB", `core: context "hub", ` + named, nil},
		"by the UID of kube-system":        {map[string]clusters.CoreReference{"a": byUID}, both, nil, "HUB", `core: context "hub", ` + named, nil},
		"several cores":                    {map[string]clusters.CoreReference{"a": byURL, "b": byUID}, both, nil, "a HUB, b HUB", `core: context "hub", ` + named + `; core: context "hub", ` + named, nil},
		"by the administrator's context":   {map[string]clusters.CoreReference{"a": hinted}, several, nil, "HUB", `core: context "second", ` + named, nil},
		"not one of several users":         {map[string]clusters.CoreReference{"a": byURL}, several, nil, "", "", []string{`context "worker" is a worker of core a`, "choose one with --core-context: hub, second"}},
		"not without a context":            {map[string]clusters.CoreReference{"a": byUID}, map[string]*rest.Config{"worker": f.worker}, nil, "", "", []string{"no context of your kubeconfig leads to https://core.example", `its administrator calls it "prod"`, "--core-context CONTEXT"}},
		"not if a flag names another":      {map[string]clusters.CoreReference{"a": byURL}, both, []string{"--core-context", "gone"}, "https://127.0.0.1:1", "", nil},
		"not without references or a Cell": {nil, both, nil, "", "", []string{`context "worker" is not a core cluster`, "does not name its core"}},
	} {
		t.Run(claim, func(t *testing.T) {
			f := *f
			f.T = t
			if c.references != nil {
				f.name(c.references)
			}
			found, reported, err := f.cores(writeContexts(t, "worker", c.contexts), c.arguments...)
			wantErrors(t, err, c.errs)
			if found != c.found || reported != c.reported {
				t.Errorf("found %q and reported %q, want %q and %q", found, reported, c.found, c.reported)
			}
		})
	}
}

// A worker with shares serves Cells, and has a copy of its own. Taken for the core, it would show pods without a share as unprotected.
func TestWorkerWithSharesNamesItsCore(t *testing.T) {
	of := newWorkerFixture(t)
	f := &workerFixture{T: t, hub: of.worker, worker: of.hub} // only the latter serves Cells
	f.name(map[string]clusters.CoreReference{"a": {Servers: []string{f.hub.Host}}})
	c, err := client.New(f.worker, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	left := &v1alpha1.CellList{}
	if err := c.List(t.Context(), left); err != nil || len(left.Items) > 0 {
		t.Fatalf("other tests left %d Cells (error %v), want none", len(left.Items), err)
	}
	path := writeContexts(t, "worker", map[string]*rest.Config{"worker": f.worker, "hub": f.hub})
	const named = `core: context "hub", named by ConfigMap breakwater-system/breakwater-core`
	want := func(claim, wantFound, wantReported string, arguments ...string) {
		t.Helper()
		found, reported, err := f.cores(path, arguments...)
		if found != wantFound || reported != wantReported || err != nil {
			t.Errorf("%s: found %q and reported %q (error %v), want %q and %q", claim, found, reported, err, wantFound, wantReported)
		}
	}
	want("before it has a share", "HUB", named)
	createCell(t, c, "copied", nil)
	want("with the copy of its Cell", "HUB", named)
	testplane.User(t, "developer", []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{clusters.CoreReferences}, Verbs: []string{"get"},
	}})
	want("for a user who may not list Cells", "HUB", named, "--as", "developer")
	createCell(t, c, "of-another-cluster", testplane.KubeconfigOf(t, f.hub))
	want("a core that is a worker of another", f.worker.Host,
		`core: context "worker", which has Cells of other clusters; ConfigMap breakwater-system/breakwater-core also names core a (`+f.hub.Host+`)`)
}

func TestEnvironmentIsNamedWhenItSetsTheCore(t *testing.T) {
	f := newWorkerFixture(t)
	f.name(map[string]clusters.CoreReference{"a": {Servers: []string{f.worker.Host}}})
	t.Setenv("BREAKWATER_CORE_CONTEXT", "hub")
	path := writeContexts(t, "worker", map[string]*rest.Config{"worker": f.worker, "hub": f.hub})
	found, reported, err := f.cores(path)
	if want := `core: hub, set by BREAKWATER_CORE_CONTEXT`; found != "HUB" || reported != want || err != nil {
		t.Errorf("found %q, %v and reported %q, want the hub and %q", found, err, reported, want)
	}
	_, errOut, err := runPlugin(t, "", "status", "--kubeconfig", path, "-n", testplane.Namespace(t))
	wantErrors(t, err, nil)
	wantNoWords(t, errOut, "core: ") // it is no terminal
	out, errOut, err := runPlugin(t, "", "__complete", "cells", "--kubeconfig", path, "")
	wantErrors(t, err, nil)
	wantNoWords(t, out+errOut, "core: ")
}

// Without a reference, only a core that has a Cell for this very cluster is taken: commands would change the protectors of another one.
func TestCoreWithACellForTheWorker(t *testing.T) {
	f := newWorkerFixture(t)
	c, err := client.New(f.hub, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	const name = "found-by-its-cluster"
	createCell(t, c, name, nil)
	path := writeContexts(t, "worker", map[string]*rest.Config{"worker": f.worker, "hub": f.hub})
	for uid, want := range map[string]string{"another": "", f.workerUID: "HUB"} {
		cell := &v1alpha1.Cell{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, cell); err != nil {
			t.Fatal(err)
		}
		cell.Status.Cluster = uid
		if err := c.Status().Update(t.Context(), cell); err != nil {
			t.Fatal(err)
		}
		found, reported, err := f.cores(path)
		if found != want || (err == nil) != (want != "") {
			t.Errorf("Cell of cluster %s: found %q, %v, want %q", uid, found, err, want)
		}
		if report := `core: context "hub", which has a Cell for the cluster of context "worker"`; want != "" && reported != report {
			t.Errorf("reported %q, want %q", reported, report)
		}
	}
}

func TestSearchRunsNoProgramsForCredentials(t *testing.T) {
	f := newWorkerFixture(t)
	f.name(map[string]clusters.CoreReference{"a": {Servers: []string{"https://core.example"}, Cluster: f.hubUID}})
	path := writeContexts(t, "worker", map[string]*rest.Config{"worker": f.worker, "sso": f.hub})
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	file.AuthInfos["sso"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{ran}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	_, _, err = f.cores(path)
	wantErrors(t, err, []string{"Not searched", "sso"})
	if _, err := os.Stat(ran); err == nil {
		t.Error("the search ran the program of a context that the worker does not name")
	}
}
