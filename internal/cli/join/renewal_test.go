package join_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
	"github.com/breakwater-k8s/breakwater/internal/cli/join"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// lifetime is the shortest that an API server grants.
const lifetime = 10 * time.Minute

// renewer returns a renewer of the Secret in the core that has only the declared permissions. Its clock is ahead.
func (l *fixture) renewer(ahead time.Duration) *clusters.TokenRenewer {
	l.Helper()
	return &clusters.TokenRenewer{
		Home: l.as("renewer"), Live: l.as("renewer"), Component: "test", Now: func() time.Time { return time.Now().Add(ahead) },
	}
}

// as returns a client for the core, as a user.
func (l *fixture) as(user string) client.Client {
	l.Helper()
	config := rest.CopyConfig(l.core.config)
	config.Impersonate.UserName = user + "-" + l.namespace
	c, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		l.Fatal(err)
	}
	return c
}

func (l *fixture) permitRenewal() {
	l.Helper()
	name := "cell-" + l.namespace
	for user, rules := range map[string][]rbacv1.PolicyRule{
		"renewer": append(roles.RenewalRules(l, name), secretReader(name)), "reader": {secretReader(name)},
	} {
		l.grant(l.core, rules, nil, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user + "-" + l.namespace})
	}
}

func secretReader(name string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"get"}}
}

func (l *fixture) cellRef() v1alpha1.KubeconfigSecretRef {
	return v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "cell-" + l.namespace, Key: "kubeconfig"}
}

func (l *fixture) cellSecret() *corev1.Secret {
	l.Helper()
	secret := &corev1.Secret{}
	if err := l.core.admin.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: "cell-" + l.namespace}, secret); err != nil {
		l.Fatal(err)
	}
	return secret
}

func expiring(j *join.Joiner) { j.Lifetime = lifetime }

func TestTokensRenewThemselves(t *testing.T) {
	l := newFixture(t)
	l.join(expiring)
	l.permitRenewal()
	before, former := l.cellSecret(), l.workerKubeconfig()
	if got := l.renewer(0).Renew(t.Context(), l.cellRef()); got.Err != nil || got.Renewed || time.Until(got.Expires) > lifetime ||
		l.cellSecret().ResourceVersion != before.ResourceVersion {
		t.Fatalf("renewal of a new token: %+v, want none", got)
	}
	got := l.renewer(lifetime*2/3+time.Second).Renew(t.Context(), l.cellRef())
	if got.Err != nil || !got.Renewed || time.Until(got.Expires) < lifetime-time.Minute {
		t.Fatalf("renewal of a token after two thirds of its lifetime: %+v, want a new one for %s", got, lifetime)
	}
	after := l.cellSecret()
	if string(after.Data["kubeconfig"]) == string(before.Data["kubeconfig"]) || !maps.Equal(after.Labels, before.Labels) {
		t.Errorf("Secret has labels %v, want another kubeconfig and labels %v", after.Labels, before.Labels)
	}
	l.wantUser("the new token", l.workerKubeconfig(), l.account())
	l.wantUser("the former token, which is still valid", former, l.account())
	l.join(expiring) // which owns the kubeconfig as before
	l.wantRevoked("the former token", former)
	renewed := l.workerKubeconfig()
	if got := l.renewer(lifetime*3/4).Renew(t.Context(), l.cellRef()); got.Err != nil || !got.Renewed {
		t.Fatalf("renewal after another join: %+v", got)
	}
	j, _ := l.joiner()
	if err := j.Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantRevoked("a renewed token, with the Secret that the first one was bound to", renewed)
}

// Several processes may find the same token due.
func TestRenewalsAtATimeLeaveAWorkingToken(t *testing.T) {
	l := newFixture(t)
	l.join(expiring)
	l.permitRenewal()
	r := l.renewer(lifetime * 3 / 4)
	var running sync.WaitGroup
	results := make([]clusters.Renewal, 8)
	for i := range results {
		running.Go(func() { results[i] = r.Renew(t.Context(), l.cellRef()) })
	}
	running.Wait()
	renewed := 0
	for _, got := range results {
		if got.Err != nil {
			t.Errorf("renewal: %v", got.Err)
		}
		if got.Renewed {
			renewed++
		}
	}
	if renewed == 0 {
		t.Error("no process renewed the token")
	}
	l.wantUser("the token that is left", l.workerKubeconfig(), l.account())
}

func TestRenewalThatIsNotPossibleKeepsTheToken(t *testing.T) {
	for claim, c := range map[string]struct {
		spoil func(*fixture, *clusters.TokenRenewer)
		want  string
	}{
		"the right to request tokens was revoked": {func(l *fixture, _ *clusters.TokenRenewer) {
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.account() + "-token"}}
			if err := l.worker.admin.Delete(l.Context(), binding); err != nil {
				l.Fatal(err)
			}
		}, "run breakwater join again"},
		"the component may not write the Secret": {func(l *fixture, r *clusters.TokenRenewer) { r.Home = l.as("reader") }, "may not patch Secret"},
		"another client manages the Secret": {func(l *fixture, _ *clusters.TokenRenewer) {
			secret := l.cellSecret()
			secret.Data["kubeconfig"] = append(secret.Data["kubeconfig"], '\n')
			if err := l.core.admin.Update(l.Context(), secret, client.FieldOwner("argocd-controller")); err != nil {
				l.Fatal(err)
			}
		}, "another client manages the kubeconfig"},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newFixture(t)
			l.join(expiring)
			l.permitRenewal()
			early, due := l.renewer(0), l.renewer(lifetime*3/4)
			c.spoil(l, early)
			due.Home = early.Home
			before := l.cellSecret()
			for name, r := range map[string]*clusters.TokenRenewer{"before it is due": early, "when it is due": due} {
				l.eventually(func() string { // an API server may apply a deleted binding for a moment
					got := r.Renew(t.Context(), l.cellRef())
					if got.Err == nil || name == "before it is due" && !strings.Contains(got.Err.Error(), c.want) || got.Expires.IsZero() {
						return name + ": " + got.Expires.String() + " " + errorText(got.Err) + ", want the expiry and an error that contains " + c.want
					}
					return ""
				})
			}
			if after := l.cellSecret(); string(after.Data["kubeconfig"]) != string(before.Data["kubeconfig"]) && c.want != "run breakwater join again" {
				t.Error("the kubeconfig was replaced")
			}
			l.wantUser("the token that is left", l.workerKubeconfig(), l.account())
		})
	}
}

// The webhook of a worker renews the token for a core in this way. A test does not wait for minutes: its clock is ahead.
func TestRenewalLoopRenewsTheTokenForACore(t *testing.T) {
	l := newFixture(t)
	l.join(expiring)
	former := l.coreKubeconfig()
	log := &subprocess.Output{}
	loop := &clusters.TokenRenewalLoop{
		Renewer: &clusters.TokenRenewer{
			Home: l.worker.admin, Live: l.worker.admin, Component: "test", Spread: 1, Now: func() time.Time { return time.Now().Add(lifetime*3/4 + time.Second) },
		},
		Secret: v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "core-core", Key: "kubeconfig"}, Interval: 100 * time.Millisecond,
		Log: funcr.New(func(_, args string) { fmt.Fprintln(log, args) }, funcr.Options{}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Start(ctx) }()
	l.eventually(func() string {
		if !strings.Contains(log.String(), "Renewed the token of a kubeconfig") {
			return "the loop has logged " + log.String()
		}
		return ""
	})
	l.wantUser("the worker's new token", l.coreKubeconfig(), l.ownAccount())
	l.wantUser("the worker's former token", former, l.ownAccount())
	j, _ := l.joiner()
	if err := j.Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string {
		if !strings.Contains(log.String(), "Cannot renew the token of a kubeconfig") {
			return "the loop has logged " + log.String()
		}
		return ""
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the loop ended with %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}
