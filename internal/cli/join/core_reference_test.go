package join_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/cli/join"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// references returns the references to cores as a user of the worker without any permission reads them; nil if there is no ConfigMap.
func (l *fixture) references() map[string]clusters.NamedCoreReference {
	l.Helper()
	config := rest.CopyConfig(l.worker.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "developer"}
	developer, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		l.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: clusters.CoreReferences}}
	if err := l.worker.admin.Get(l.Context(), client.ObjectKeyFromObject(object), object); apierrors.IsNotFound(err) {
		return nil
	}
	l.eventually(func() string { // the authorizer learns of the Role by a watch
		if err := developer.Get(l.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err.Error()
		}
		return ""
	})
	if err := developer.List(l.Context(), &corev1.ConfigMapList{}, client.InNamespace(l.namespace)); !apierrors.IsForbidden(err) {
		l.Errorf("a user lists ConfigMaps: %v, want Forbidden", err)
	}
	parsed, err := clusters.ParseCoreReferences(object.Data)
	if err != nil {
		l.Fatal(err)
	}
	all := map[string]clusters.NamedCoreReference{}
	for _, one := range parsed {
		all[one.Name] = one
	}
	return all
}

func TestJoinNamesTheCoreInTheWorker(t *testing.T) {
	l := newFixture(t)
	named := func(core, context string) func(*join.Joiner) {
		return func(j *join.Joiner) {
			j.CoreName, j.Core.Context, j.Core.Server = core, context, "https://core.example:6443"
		}
	}
	skip := func(j *join.Joiner) { j.SkipCheck, j.Grace = true, 0 }
	l.join(named("hub", "prod-core"), skip)
	l.join(named("second", ""), skip)
	system := &corev1.Namespace{}
	if err := l.core.admin.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	all := l.references()
	if names := slices.Sorted(maps.Keys(all)); !slices.Equal(names, []string{"hub", "second"}) {
		t.Fatalf("the worker has references to %q, want hub and second", names)
	}
	want := []string{l.core.config.Host, "https://core.example:6443"}
	if hub := all["hub"]; !slices.Equal(hub.Servers, want) || hub.Cluster != string(system.UID) || hub.Context != "prod-core" {
		t.Errorf("reference %+v, want servers %q, cluster %s and context prod-core", hub, want, system.UID)
	}
	l.revoke(named("hub", ""))
	if names := slices.Sorted(maps.Keys(l.references())); !slices.Equal(names, []string{"second"}) {
		t.Errorf("after the join with hub was revoked, the worker has references to %q, want second", names)
	}
	l.revoke(named("second", ""))
	if all := l.references(); all != nil {
		t.Errorf("after all joins were revoked, the worker has references %v, want no ConfigMap", all)
	}
	meta := metav1.ObjectMeta{Namespace: l.namespace, Name: clusters.CoreReferences}
	for _, object := range []client.Object{&rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta}} {
		if err := l.worker.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("get %T: %v, want NotFound", object, err)
		}
	}
}

func (l *fixture) revoke(change func(*join.Joiner)) {
	l.Helper()
	j, out := l.joiner(change)
	if err := j.Revoke(l.Context()); err != nil {
		l.Fatalf("%v\n%s", err, out)
	}
}

func TestOnlyWorkersThatReachTheCoreGetItsReference(t *testing.T) {
	l := newFixture(t)
	l.join(func(j *join.Joiner) { j.Only = join.CoreToWorker })
	if all := l.references(); all != nil {
		t.Errorf("references %v, want none", all)
	}
	printed := &bytes.Buffer{}
	l.join(func(j *join.Joiner) { j.Print = printed })
	for _, want := range []string{"kind: ConfigMap", "name: breakwater-core", "system:authenticated"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("the printed objects do not contain %q:\n%s", want, printed)
		}
	}
}
