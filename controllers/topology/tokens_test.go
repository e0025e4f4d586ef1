package topology

import (
	"context"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// A Cell says whether its token will be renewed, before that is due.
func TestTokenOfACellIsRenewed(t *testing.T) {
	l := newFixture(t)
	ahead := time.Duration(0)
	l.Renewer = &clusters.TokenRenewer{Home: l, Live: l, Component: "test", Now: func() time.Time { return time.Now().Add(ahead) }}
	account := l.account(testplane.Second(t), "default", "renewed", roles.Rules(t, "topology.cell"))
	ref := &v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "cell", Key: "kubeconfig"}
	secret := corev1apply.Secret(ref.Name, ref.Namespace).WithData(map[string][]byte{ref.Key: testplane.KubeconfigOf(t, account)})
	l.must(l.Apply(t.Context(), secret, client.FieldOwner(clusters.JoinManager)))
	cell := l.createCell("a", func(s *v1alpha1.CellSpec) { s.KubeconfigSecretRef = ref })
	l.wantCondition(l.reconcile(cell), v1alpha1.ConditionTokenRenewed, metav1.ConditionFalse, v1alpha1.ReasonRenewalFailed,
		"expires at", "may not request tokens for itself", "run breakwater join again")

	l.permitOwnTokens(l.namespace + "-renewed")
	l.eventually(func() string { // an API server may not apply a new binding yet
		l.clock = l.clock.Add(clusters.RenewalInterval)
		now := l.reconcile(cell)
		for _, c := range now.Status.Conditions {
			if c.Type == v1alpha1.ConditionTokenRenewed && c.Reason == v1alpha1.ReasonRenewalPossible {
				return ""
			}
		}
		return "no condition says that the token is renewed"
	})
	ahead = 50 * time.Minute // of the hour that the token is valid
	l.clock = l.clock.Add(clusters.RenewalInterval - time.Second)
	l.reconcile(cell)
	l.wantSameToken(ref, account.BearerToken, true)
	l.clock = l.clock.Add(time.Second)
	l.wantCondition(l.reconcile(cell), v1alpha1.ConditionTokenRenewed, metav1.ConditionTrue, v1alpha1.ReasonRenewalPossible, "expires at")
	l.wantSameToken(ref, account.BearerToken, false)
}

func (l *fixture) wantSameToken(ref *v1alpha1.KubeconfigSecretRef, token string, want bool) {
	l.Helper()
	config, _, err := clusters.Connect(l.Context(), l, &v1alpha1.Cell{Spec: v1alpha1.CellSpec{KubeconfigSecretRef: ref}}, "test")
	l.must(err)
	if got := config.BearerToken == token; got != want {
		l.Errorf("the kubeconfig has the former token: %v, want %v", got, want)
	}
}

// permitOwnTokens permits an account of the worker to renew its tokens, as join does.
func (l *fixture) permitOwnTokens(account string) {
	l.Helper()
	worker, err := client.New(testplane.Second(l), client.Options{Scheme: clusters.Scheme()})
	l.must(err)
	meta := metav1.ObjectMeta{Namespace: "default", Name: account}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: clusters.OwnTokenRules(account)}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account}}}
	l.must(worker.Create(l.Context(), role))
	l.must(worker.Create(l.Context(), binding))
	l.Cleanup(func() {
		_ = worker.Delete(context.Background(), role)
		_ = worker.Delete(context.Background(), binding)
	})
}
