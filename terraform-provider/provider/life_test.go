package provider_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// TestLifeOfEveryKind plays the life of one resource of each kind with the oldest and the newest version of both programs. Before Terraform
// 1.12 and OpenTofu 1.12, the programs neither store identities nor send them to the provider.
func TestLifeOfEveryKind(t *testing.T) {
	for program, newer := range map[string][]string{
		terraform.OldestTerraform: {terraform.Terraform, terraform.OpenTofu},
		terraform.OldestOpenTofu:  {terraform.OpenTofu},
		terraform.Terraform:       nil,
		terraform.OpenTofu:        nil,
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			l := newLife(t, program)
			l.apply("7 added, 0 changed, 0 destroyed")
			l.upgradeState()
			stale, others := l.withProgram(program), []*life{}
			for _, name := range newer {
				others = append(others, l.withProgram(name))
				others[len(others)-1].planIsEmpty()
			}
			l.changeOutside()
			l.apply("0 added, 7 changed, 0 destroyed")
			l.planWithoutKinds()
			l.planWithoutCluster()
			l.deleteOutside()
			l.importOfMissing()
			for _, other := range others {
				other.plan("Plan: 7 to add, 0 to change, 0 to destroy.")
			}
			l.apply("7 added, 0 changed, 0 destroyed")
			l.planIsEmpty()
			l.importExisting()
			l.move()
			l.deleteOutside()
			l.Run("destroy", "-auto-approve")
			stale.Run("destroy", "-auto-approve", "-refresh=false")
		})
	}
}

// life is the life of one object of each kind.
type life struct {
	*terraform.Dir
	program, namespace, provider string
	// areKindsMissing makes the cluster answer as without CRDs.
	areKindsMissing *atomic.Bool
	t               *testing.T
}

// exampleOf names the example in everyField that stands for a kind.
func exampleOf(kind string) string {
	return kind + "/" + map[string]string{
		"pod_protector": "selector", "protection_policy": "strategy", "cluster_protection_policy": "bands", "cell": "namespaces", "cluster_ring": "objects",
		"pod_scheduling_policy": "scheduled", "cluster_pod_scheduling_policy": "scheduled",
	}[kind]
}

func newLife(t *testing.T, program string) *life {
	t.Helper()
	proxy := newRecordingProxy(t)
	l := &life{program: program, namespace: testplane.Namespace(t), provider: withConfig(t, proxy.Config), areKindsMissing: &atomic.Bool{}, t: t}
	proxy.respond = func(w http.ResponseWriter, r *http.Request) bool {
		isMissing := l.areKindsMissing.Load() && strings.HasPrefix(r.URL.Path, "/apis/breakwater.dev")
		if isMissing {
			http.NotFound(w, r)
		}
		return isMissing
	}
	l.Dir = terraform.New(t, program, l.provider+l.resources("it"))
	t.Log(strings.SplitN(l.Run("version"), "\n", 2)[0])
	return l
}

// withProgram returns a directory of another program with the same configuration and state.
func (l *life) withProgram(name string) *life {
	l.Helper()
	other := *l
	other.Dir = terraform.New(l.t, name, l.provider+l.resources("it"))
	other.Write(stateFile, l.Read(stateFile))
	return &other
}

// eachKind calls do with each kind, the name of its object, and the ID by which users import it.
func (l *life) eachKind(do func(kind string, of *shape.Definition, key client.ObjectKey, id string)) {
	l.t.Helper()
	all := definitions(l.t)
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		key, id := client.ObjectKey{Name: l.namespace}, l.namespace
		if all[kind].Namespaced {
			key = client.ObjectKey{Namespace: l.namespace, Name: "it"}
			id = key.String()
		}
		do(kind, all[kind], key, id)
	}
}

// resources returns the configuration of one resource of each kind, all with the same label of the configuration.
func (l *life) resources(label string) string {
	l.t.Helper()
	var all strings.Builder
	l.eachKind(func(kind string, of *shape.Definition, key client.ObjectKey, _ string) {
		fields, ok := everyField()[exampleOf(kind)]
		if !ok {
			l.t.Fatalf("exampleOf(%q) = %q, which is no example in everyField", kind, exampleOf(kind))
		}
		if of.Namespaced {
			fields = fmt.Sprintf("namespace = %q\n%s", key.Namespace, fields)
		}
		fmt.Fprintf(&all, "resource \"breakwater_%s\" %q {\n name = %q\n%s\n}\n", kind, label, key.Name, fields)
	})
	return all.String()
}

func (l *life) apply(want string) {
	l.Helper()
	if out := l.Run("apply", "-auto-approve"); !strings.Contains(out, want) {
		l.Errorf("apply did not end with %q:\n%s", want, out)
	}
}

func (l *life) plan(want string) {
	l.Helper()
	if out := l.Run("plan"); !strings.Contains(out, want) {
		l.Errorf("plan did not end with %q:\n%s", want, out)
	}
}

func (l *life) planIsEmpty() {
	l.Helper()
	if out, err := l.Try("plan", "-detailed-exitcode"); err != nil {
		l.Errorf("the plan is not empty: %v\n%s", err, out)
	}
}

// changeOutside changes a label of all objects, as another client.
func (l *life) changeOutside() {
	l.Helper()
	l.eachKind(func(kind string, of *shape.Definition, key client.ObjectKey, _ string) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"none"}}}`))
		if err := testplane.Client(l.t).Patch(l.t.Context(), objectOf(of, key), patch, client.FieldOwner("by-hand")); err != nil {
			l.Fatalf("%s: %v", kind, err)
		}
	})
}

// deleteOutside deletes all objects, as in an accident.
func (l *life) deleteOutside() {
	l.Helper()
	l.eachKind(func(kind string, of *shape.Definition, key client.ObjectKey, _ string) {
		c, object := testplane.Client(l.t), objectOf(of, key)
		if err := c.Delete(l.t.Context(), object); err != nil {
			l.Fatalf("%s: %v", kind, err)
		}
		testplane.Eventually(l.t, func() string {
			if err := c.Get(l.t.Context(), key, object); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s still exists: %v", kind, err)
			}
			return ""
		})
	})
}

func objectOf(of *shape.Definition, key client.ObjectKey) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(of.Kind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return object
}

// planWithoutKinds plans for a cluster without CRDs, which has none of the objects.
func (l *life) planWithoutKinds() {
	l.Helper()
	l.areKindsMissing.Store(true)
	defer l.areKindsMissing.Store(false)
	l.plan("Plan: 7 to add, 0 to change, 0 to destroy.")
}

// planWithoutCluster plans while there is no cluster, and none is required.
func (l *life) planWithoutCluster() {
	l.Helper()
	other := l.withProgram(l.program)
	other.Write("main.tf", strings.Replace(other.Read("main.tf"), "config_path =", "require_cluster = false\n config_path = \"/none\" #", 1))
	other.plan("Nothing was compared with the cluster")
}

// importOfMissing imports objects that do not exist, and others while their kinds do not exist.
func (l *life) importOfMissing() {
	l.Helper()
	d := terraform.New(l.t, l.program, l.provider+l.resources("it")+l.importBlocks("it"))
	denied := func(want string, arguments ...string) {
		l.Helper()
		out, err := d.Try(arguments...)
		if err == nil || !matchWrapped(want).MatchString(out) || strings.Contains(out, "Missing Resource Identity") {
			l.Errorf("%v ended with %v, want %q:\n%s", arguments, err, want, out)
		}
	}
	denied("Cannot import non-existent remote object", "plan")
	l.areKindsMissing.Store(true)
	defer l.areKindsMissing.Store(false)
	denied("install the chart breakwater-crds first", "import", "breakwater_cell.it", l.namespace)
}

func (l *life) importBlocks(label string) string {
	l.Helper()
	var all strings.Builder
	l.eachKind(func(kind string, _ *shape.Definition, _ client.ObjectKey, id string) {
		fmt.Fprintf(&all, "import {\n to = breakwater_%s.%s\n id = %q\n}\n", kind, label, id)
	})
	return all.String()
}

// importExisting imports one object with the command, and the others with import blocks, into an empty state.
func (l *life) importExisting() {
	l.Helper()
	if err := os.Remove(filepath.Join(l.Path, stateFile)); err != nil {
		l.Fatal(err)
	}
	l.Run("import", "breakwater_pod_protector.it", l.namespace+"/it")
	l.Write("import.tf", l.importBlocks("it"))
	l.apply("6 imported, 0 added, 7 changed, 0 destroyed")
	l.Write("import.tf", "")
}

// move gives all resources another name in the configuration.
func (l *life) move() {
	l.Helper()
	moved := l.provider + l.resources("other")
	l.eachKind(func(kind string, _ *shape.Definition, _ client.ObjectKey, _ string) {
		moved += fmt.Sprintf("moved {\n from = breakwater_%[1]s.it\n to = breakwater_%[1]s.other\n}\n", kind)
	})
	l.Write("main.tf", strings.Replace(l.Read("main.tf"), l.provider+l.resources("it"), moved, 1))
	l.plan("Plan: 0 to add, 0 to change, 0 to destroy.")
}

// upgradeState plans with the recorded state of an older provider, in which it sets the current UIDs. RECORD_STATE=FILE records the state of this
// provider, for the next release; older.tfstate is from before the first release, of Terraform 1.11.0.
func (l *life) upgradeState() {
	l.Helper()
	now, uids := l.Read(stateFile), []any{}
	editedState(l.t, now, func(attributes map[string]any) { uids = append(uids, attributes["uid"]) })
	if path := os.Getenv("RECORD_STATE"); path != "" {
		writeFile(l.t, path, []byte(strings.ReplaceAll(now, l.namespace, "NAMESPACE")))
	}
	recorded, err := os.ReadFile(filepath.Join("testdata", "older.tfstate"))
	if err != nil {
		l.Fatal(err)
	}
	older := editedState(l.t, strings.ReplaceAll(string(recorded), "NAMESPACE", l.namespace), func(attributes map[string]any) {
		attributes["uid"], uids = uids[0], uids[1:]
	})
	l.Write(stateFile, older)
	l.planIsEmpty()
	l.Write(stateFile, now)
}
