package join_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli/join"
)

// A worker that joined the core before each cell had its own account has a token of the shared account.
func TestRejoinReplacesSharedAccount(t *testing.T) {
	l := newFixture(t)
	former := &corev1.Secret{ObjectMeta: l.metadata("former"), Type: corev1.SecretTypeServiceAccountToken}
	former.Annotations = map[string]string{corev1.ServiceAccountNameKey: l.account()}
	former.Labels = map[string]string{
		"app.kubernetes.io/managed-by": join.Owner, v1alpha1.LabelJoinedCell: l.namespace, v1alpha1.LabelJoinedCore: "core",
		v1alpha1.LabelJoinedBy: v1alpha1.JoinedByToken,
	}
	l.create(l.core, former)
	out := l.join()
	l.wantUser("the worker's", l.coreKubeconfig(), l.ownAccount())
	if err := l.core.admin.Get(t.Context(), client.ObjectKeyFromObject(former), former); !apierrors.IsNotFound(err) {
		t.Errorf("get of the shared account's token: %v, want it deleted", err)
	}
	if want := "The worker is ServiceAccount " + l.namespace + "/" + l.ownAccount(); !strings.Contains(out, want) {
		t.Errorf("output does not contain %q:\n%s", want, out)
	}
}

func TestRevokeDeletesCellAccount(t *testing.T) {
	l := newFixture(t)
	l.join()
	made := l.ownObjects()
	for _, object := range made {
		if err := l.core.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Error(err)
		}
	}
	j, _ := l.joiner(func(j *join.Joiner) { j.Only = join.WorkerToCore })
	if err := j.Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, object := range made {
		if err := l.core.admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s: %v, want it deleted", object, object.GetName(), err)
		}
	}
}

func (l *fixture) ownObjects() []client.Object {
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: l.metadata(l.ownAccount())}, &rbacv1.RoleBinding{ObjectMeta: l.metadata(l.ownAccount())},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: l.ownAccount()}},
	}
}

func TestCellsOfOneClusterShareAnAccount(t *testing.T) {
	l := newFixture(t)
	l.join()
	second := func(j *join.Joiner) { j.Cell, j.NoCell = "second", true }
	j, out := l.joiner(second)
	if err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--identity "+l.namespace) {
		t.Errorf("error %v, want one that contains --identity %s\n%s", err, l.namespace, out)
	}
	l.wantUser("the worker's, which stays", l.coreKubeconfig(), l.ownAccount())
	l.join(second, func(j *join.Joiner) { j.Identity = l.namespace })
	l.wantUser("the worker's, for both cells", l.coreKubeconfig(), l.ownAccount())
	j, out = l.joiner(second, func(j *join.Joiner) { j.Identity = l.namespace })
	if err := j.Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.core.admin.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: l.ownAccount()}, &corev1.ServiceAccount{}); err != nil {
		t.Errorf("get of the first cell's account: %v, want it kept\n%s", err, out)
	}
}

func TestAccountNameLength(t *testing.T) {
	long := join.Options{Cell: strings.Repeat("c", 63), CoreName: "core", Namespace: "a", ServiceAccount: strings.Repeat("s", 189)}
	if err := long.Validate(); err != nil {
		t.Errorf("a name of 253 characters: %v", err)
	}
	long.ServiceAccount += "s"
	if err := long.Validate(); err == nil || !strings.Contains(err.Error(), "--service-account") {
		t.Errorf("a name of 254 characters: error %v, want one about --service-account", err)
	}
}
